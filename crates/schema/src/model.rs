//! The schema tree, read from JSON (OpenAPI v3 or a CRD's `openAPIV3Schema`).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

/// A shared schema node.
///
/// Named definitions may refer to themselves (`JSONSchemaProps` does), so a node is set once,
/// after everything that mentions it was read. Nodes that belong to such a cycle are never freed; only
/// the built-in kinds have any.
#[derive(Clone)]
pub struct SchemaRef(Arc<OnceLock<Schema>>);

impl SchemaRef {
    /// A node whose content is known.
    pub fn new(schema: Schema) -> Self {
        let cell = OnceLock::new();
        let _ = cell.set(schema);
        Self(Arc::new(cell))
    }

    /// A node whose content follows by [`SchemaRef::fill`].
    pub fn pending() -> Self {
        Self(Arc::new(OnceLock::new()))
    }

    /// Gives a pending node its content; a second call changes nothing.
    pub fn fill(&self, schema: Schema) {
        let _ = self.0.set(schema);
    }

    /// Returns true if both are the very same node.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for SchemaRef {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        // A node that was never filled means "anything": readers fill every node they hand out.
        self.0.get_or_init(Schema::default)
    }
}

impl fmt::Debug for SchemaRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the content: it may be cyclic.
        write!(out, "SchemaRef({:?})", self.kind)
    }
}

/// The `type` of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A JSON string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl Type {
    /// The name as schemas spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// The type of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }
}

/// `x-kubernetes-list-type`: how two authors share a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// The list as a whole has one owner.
    #[default]
    Atomic,
    /// Each scalar item is owned by itself and occurs once.
    Set,
    /// Items are objects told apart by [`Schema::list_map_keys`].
    Map,
}

/// `x-kubernetes-map-type`: how two authors share an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    /// Each field is owned by itself.
    #[default]
    Granular,
    /// The object as a whole has one owner.
    Atomic,
}

/// `additionalProperties`.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    /// Not stated.
    #[default]
    Unstated,
    /// `true` or `{}`.
    Any,
    /// `false`.
    Forbidden,
    /// Every further property follows this schema.
    Schema(SchemaRef),
}

/// One entry of `x-kubernetes-validations` (KAPI-CRD-03).
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields are those of the Kubernetes API")]
pub struct ValidationRule {
    pub rule: String,
    pub message: Option<String>,
    pub message_expression: Option<String>,
    pub reason: Option<String>,
    pub field_path: Option<String>,
    pub optional_old_self: Option<bool>,
}

/// One node of a schema. Absent keywords are `None`, empty or `false`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, clippy::struct_excessive_bools, reason = "the fields are the keywords of OpenAPI v3 and of Kubernetes' extensions")]
pub struct Schema {
    pub kind: Option<Type>,
    pub format: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub nullable: bool,
    pub properties: BTreeMap<String, SchemaRef>,
    pub required: Vec<String>,
    pub additional: Additional,
    pub items: Option<SchemaRef>,
    pub default: Option<Value>,
    pub example: Option<Value>,
    pub enumeration: Option<Vec<Value>>,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub pattern: Option<String>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub all_of: Vec<SchemaRef>,
    pub any_of: Vec<SchemaRef>,
    pub one_of: Vec<SchemaRef>,
    pub not: Option<SchemaRef>,
    /// `x-kubernetes-int-or-string`, or `format: int-or-string` of the built-in kinds.
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`; a built-in `type: object` without any properties has it too.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `x-kubernetes-list-type`; `None` if not stated (then atomic).
    pub list_type: Option<ListType>,
    pub list_map_keys: Vec<String>,
    pub map_type: Option<MapType>,
    /// `x-kubernetes-patch-strategy`, split at commas: `merge`, `replace`, `retainKeys`.
    pub patch_strategy: Vec<String>,
    pub patch_merge_key: Option<String>,
    pub validations: Vec<ValidationRule>,
    /// Discriminated unions (`x-kubernetes-unions`), kept as they stand.
    pub unions: Option<Value>,
    /// The definition's name (`io.k8s.api.core.v1.PodSpec`), if it had one.
    pub definition: Option<String>,
}

/// A schema that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct ReadError {
    /// The dotted path from the schema's root.
    pub path: String,
    /// The problem there.
    pub problem: String,
}

/// Resolves `$ref`: the node of a definition's name. CRD schemas have none.
pub trait Definitions {
    /// The node of `#/components/schemas/NAME`.
    fn definition(&mut self, name: &str) -> Option<SchemaRef>;
}

impl<F: FnMut(&str) -> Option<SchemaRef>> Definitions for F {
    fn definition(&mut self, name: &str) -> Option<SchemaRef> {
        self(name)
    }
}

impl Schema {
    /// Reads a schema without references, as CRDs have it.
    pub fn from_json(value: &Value) -> Result<Self, ReadError> {
        Self::read(value, &mut |_: &str| None)
    }

    /// Reads a schema; `$ref` (also as the only member of `allOf`, as OpenAPI v3 documents write it) is looked up in `definitions`.
    pub fn read(value: &Value, definitions: &mut dyn Definitions) -> Result<Self, ReadError> {
        Reader { definitions, path: Vec::new() }.schema(value)
    }

    /// Returns the rule by which authors share the list.
    pub fn list_type(&self) -> ListType {
        self.list_type.unwrap_or_default()
    }

    /// Returns the rule by which authors share the object.
    pub fn map_type(&self) -> MapType {
        self.map_type.unwrap_or_default()
    }

    /// The schema of a property: declared, or that of further properties.
    pub fn property(&self, name: &str) -> Option<&SchemaRef> {
        self.properties.get(name).or(match &self.additional {
            Additional::Schema(schema) => Some(schema),
            _ => None,
        })
    }
}

struct Reader<'a> {
    definitions: &'a mut dyn Definitions,
    path: Vec<String>,
}

const DEPTH: usize = 128;

impl Reader<'_> {
    fn fail<T>(&self, problem: impl Into<String>) -> Result<T, ReadError> {
        Err(ReadError { path: self.path.join("."), problem: problem.into() })
    }

    fn node(&mut self, key: String, value: &Value) -> Result<SchemaRef, ReadError> {
        if self.path.len() >= DEPTH {
            return self.fail(format!("nested deeper than {DEPTH} levels"));
        }
        self.path.push(key);
        let result = match reference(value) {
            Some(name) => match self.definitions.definition(name) {
                None => self.fail(format!("unknown definition {name}")),
                Some(target) => Ok(with_siblings(target, value)),
            },
            None => self.schema(value).map(SchemaRef::new),
        };
        self.path.pop();
        result
    }

    fn nodes(&mut self, key: &str, value: Option<&Value>) -> Result<Vec<SchemaRef>, ReadError> {
        match value {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => items.iter().enumerate().map(|(index, item)| self.node(format!("{key}[{index}]"), item)).collect(),
            Some(_) => self.fail(format!("{key} must be a list")),
        }
    }

    fn schema(&mut self, value: &Value) -> Result<Schema, ReadError> {
        let Value::Object(map) = value else {
            return self.fail("a schema must be an object");
        };
        let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
        let flag = |key: &str| map.get(key).and_then(Value::as_bool).unwrap_or(false);
        let number = |key: &str| map.get(key).and_then(Value::as_f64);
        let count = |key: &str| map.get(key).and_then(Value::as_u64);

        let format = text("format");
        let kind = match map.get("type").and_then(Value::as_str) {
            None | Some("") => None,
            Some(name) => match Type::parse(name) {
                Some(kind) => Some(kind),
                None => return self.fail(format!("unknown type {name:?}")),
            },
        };
        let mut properties = BTreeMap::new();
        if let Some(Value::Object(given)) = map.get("properties") {
            for (name, schema) in given {
                properties.insert(name.clone(), self.node(format!("properties.{name}"), schema)?);
            }
        }
        let additional = match map.get("additionalProperties") {
            None | Some(Value::Null) => Additional::Unstated,
            Some(Value::Bool(false)) => Additional::Forbidden,
            Some(Value::Bool(true)) => Additional::Any,
            Some(Value::Object(given)) if given.is_empty() => Additional::Any,
            Some(schema) => Additional::Schema(self.node("additionalProperties".into(), schema)?),
        };
        let items = match map.get("items") {
            None | Some(Value::Null) => None,
            Some(schema) => Some(self.node("items".into(), schema)?),
        };
        let not = match map.get("not") {
            None | Some(Value::Null) => None,
            Some(schema) => Some(self.node("not".into(), schema)?),
        };
        Ok(Schema {
            kind,
            int_or_string: flag("x-kubernetes-int-or-string") || format.as_deref() == Some("int-or-string"),
            format,
            title: text("title"),
            description: text("description"),
            nullable: flag("nullable"),
            properties,
            required: strings(map, "required"),
            additional,
            items,
            default: map.get("default").filter(|value| !value.is_null()).cloned(),
            example: map.get("example").cloned(),
            enumeration: map.get("enum").and_then(Value::as_array).cloned(),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: text("pattern").filter(|pattern| !pattern.is_empty()),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique_items: flag("uniqueItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: self.nodes("allOf", map.get("allOf"))?,
            any_of: self.nodes("anyOf", map.get("anyOf"))?,
            one_of: self.nodes("oneOf", map.get("oneOf"))?,
            not,
            preserve_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            list_type: match text("x-kubernetes-list-type").as_deref() {
                None => None,
                Some("atomic") => Some(ListType::Atomic),
                Some("set") => Some(ListType::Set),
                Some("map") => Some(ListType::Map),
                Some(other) => return self.fail(format!("unknown x-kubernetes-list-type {other:?}")),
            },
            list_map_keys: strings(map, "x-kubernetes-list-map-keys"),
            map_type: match text("x-kubernetes-map-type").as_deref() {
                None => None,
                Some("granular") => Some(MapType::Granular),
                Some("atomic") => Some(MapType::Atomic),
                Some(other) => return self.fail(format!("unknown x-kubernetes-map-type {other:?}")),
            },
            patch_strategy: text("x-kubernetes-patch-strategy").map(|all| all.split(',').map(str::to_owned).collect()).unwrap_or_default(),
            patch_merge_key: text("x-kubernetes-patch-merge-key"),
            validations: validations(map),
            unions: map.get("x-kubernetes-unions").cloned(),
            definition: None,
        })
    }
}

/// Siblings of a reference (`default: {}`, how a place is merged) are facts about this place, so they make a node of their own.
fn with_siblings(target: SchemaRef, place: &Value) -> SchemaRef {
    let text = |key: &str| place.get(key).and_then(Value::as_str);
    let (default, map_type, strategy) = (place.get("default"), text("x-kubernetes-map-type"), text("x-kubernetes-patch-strategy"));
    if default.is_none() && map_type.is_none() && strategy.is_none() {
        return target;
    }
    let mut schema = Schema::clone(&target);
    if let Some(default) = default {
        schema.default = Some(default.clone());
    }
    schema.map_type = match map_type {
        Some("granular") => Some(MapType::Granular),
        Some("atomic") => Some(MapType::Atomic),
        _ => schema.map_type,
    };
    if let Some(strategy) = strategy {
        schema.patch_strategy = strategy.split(',').map(str::to_owned).collect();
    }
    SchemaRef::new(schema)
}

fn reference(value: &Value) -> Option<&str> {
    let direct = value.get("$ref").or_else(|| match value.get("allOf") {
        Some(Value::Array(items)) if items.len() == 1 => items[0].get("$ref"),
        _ => None,
    })?;
    direct.as_str()?.rsplit('/').next()
}

fn strings(map: &Map<String, Value>, key: &str) -> Vec<String> {
    map.get(key)
        .and_then(Value::as_array)
        .map(|items| items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default()
}

fn validations(map: &Map<String, Value>) -> Vec<ValidationRule> {
    let Some(Value::Array(rules)) = map.get("x-kubernetes-validations") else {
        return Vec::new();
    };
    let text = |rule: &Value, key: &str| rule.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    rules
        .iter()
        .map(|rule| ValidationRule {
            rule: text(rule, "rule").unwrap_or_default(),
            message: text(rule, "message"),
            message_expression: text(rule, "messageExpression"),
            reason: text(rule, "reason"),
            field_path: text(rule, "fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        })
        .collect()
}
