//! A value seen through its schema, as structured merge sees it: every place is a scalar, a list or a map, and lists and
//! maps are either one unit or made of parts that have owners of their own.
//!
//! Places that the schema does not describe (`preserve-unknown-fields`, objects without properties) take the type of what
//! stands there: maps of parts, lists as one unit.

mod compare;
mod merge;
mod remove;
mod set;
mod validate;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use mainstay_schema::{Additional, ListType, MapType, Schema, SchemaRef, Type};
use serde_json::Value;

pub use compare::Comparison;
pub use validate::{Duplicates, Violations};

use crate::fieldset::{Keys, PathElement, Step};

/// Why nothing tells an item apart from the others of its list, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidElement(String);

/// The type of a whole object or of a place in it.
#[derive(Clone, Copy)]
pub struct Node<'a>(Kind<'a>);

#[derive(Clone, Copy)]
enum Kind<'a> {
    Schema(&'a Schema),
    /// A whole object: its `apiVersion`, `kind` and `metadata` have their types whatever the schema says.
    Object(&'a Schema),
    /// The type of the value that stands there.
    Deduced,
}

/// The three shapes.
#[derive(Clone, Copy)]
enum Shape<'a> {
    Scalar(ScalarType),
    List(List<'a>),
    Map(MapShape<'a>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScalarType {
    Numeric,
    String,
    Boolean,
    Any,
}

#[derive(Clone, Copy)]
struct List<'a> {
    items: Node<'a>,
    parts: Parts<'a>,
}

#[derive(Clone, Copy)]
enum Parts<'a> {
    Atomic,
    Set,
    Keyed(&'a [String]),
}

#[derive(Clone, Copy)]
struct MapShape<'a> {
    node: Node<'a>,
    atomic: bool,
}

impl<'a> Node<'a> {
    /// The type of whole objects of a kind.
    pub fn object(schema: &'a Schema) -> Self {
        Self(Kind::Object(schema))
    }

    /// The type of a value that is no object with metadata.
    pub fn value(schema: &'a Schema) -> Self {
        Self(Kind::Schema(schema))
    }

    fn shape(self, value: Option<&Value>) -> Shape<'a> {
        match self.0 {
            Kind::Deduced => deduced(value),
            Kind::Object(schema) => Shape::Map(MapShape { node: self, atomic: schema.map_type() == MapType::Atomic }),
            Kind::Schema(schema) if schema.embedded_resource => Self(Kind::Object(schema)).shape(value),
            Kind::Schema(schema) if is_raw(schema) => untyped(value),
            Kind::Schema(schema) => match schema.kind {
                _ if schema.int_or_string => Shape::Scalar(ScalarType::Any),
                Some(Type::Integer | Type::Number) => Shape::Scalar(ScalarType::Numeric),
                Some(Type::Boolean) => Shape::Scalar(ScalarType::Boolean),
                Some(Type::String) => Shape::Scalar(match schema.format.as_deref() {
                    None | Some("" | "byte") => ScalarType::String,
                    Some(_) => ScalarType::Any,
                }),
                Some(Type::Array) => Shape::List(List {
                    items: schema.items.as_deref().map_or(Self(Kind::Deduced), |items| Self(Kind::Schema(items))),
                    parts: parts(schema),
                }),
                Some(Type::Object) => Shape::Map(MapShape { node: self, atomic: schema.map_type() == MapType::Atomic }),
                None if !schema.properties.is_empty() => Shape::Map(MapShape { node: self, atomic: schema.map_type() == MapType::Atomic }),
                // Quantities: a union of scalar types without a type of its own.
                None if scalars_only(schema) => Shape::Scalar(ScalarType::Any),
                None => deduced(value),
            },
        }
    }

    /// Returns true if the shape depends on the value that stands there.
    fn is_deduced(self) -> bool {
        match self.0 {
            Kind::Deduced => true,
            Kind::Object(_) => false,
            Kind::Schema(schema) if is_raw(schema) => true,
            Kind::Schema(schema) => {
                schema.kind.is_none()
                    && !schema.int_or_string
                    && schema.properties.is_empty()
                    && !schema.embedded_resource
                    && !scalars_only(schema)
            }
        }
    }
}

/// Content that Kubernetes does not look into (`data` of a ControllerRevision): it has one owner as a whole.
fn is_raw(schema: &Schema) -> bool {
    schema.definition.as_deref().is_some_and(|name| name.ends_with(".pkg.runtime.RawExtension"))
}

fn untyped<'a>(value: Option<&Value>) -> Shape<'a> {
    match deduced(value) {
        Shape::Map(map) => Shape::Map(MapShape { atomic: true, ..map }),
        other => other,
    }
}

fn scalars_only(schema: &Schema) -> bool {
    let all = schema.one_of.iter().chain(&schema.any_of);
    let scalar = |node: &SchemaRef| matches!(node.kind, Some(Type::String | Type::Integer | Type::Number | Type::Boolean));
    all.clone().next().is_some() && all.clone().all(scalar)
}

fn deduced<'a>(value: Option<&Value>) -> Shape<'a> {
    let any = Node(Kind::Deduced);
    match value {
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Shape::Scalar(ScalarType::Any),
        Some(Value::Array(_)) => Shape::List(List { items: any, parts: Parts::Atomic }),
        Some(Value::Object(_) | Value::Null) | None => Shape::Map(MapShape { node: any, atomic: false }),
    }
}

fn parts(schema: &Schema) -> Parts<'_> {
    match schema.list_type {
        Some(ListType::Set) => Parts::Set,
        Some(ListType::Map) if !schema.list_map_keys.is_empty() => Parts::Keyed(&schema.list_map_keys),
        // Older schemas say it with the patch strategy alone.
        None if schema.patch_strategy.iter().any(|strategy| strategy == "merge") => match &schema.patch_merge_key {
            Some(key) => Parts::Keyed(std::slice::from_ref(key)),
            None => Parts::Set,
        },
        _ => Parts::Atomic,
    }
}

impl<'a> MapShape<'a> {
    /// The type of a member and whether the schema names it; `None` if the schema has no room for it.
    fn member(&self, name: &str) -> Option<(Node<'a>, bool)> {
        let (schema, whole) = match self.node.0 {
            Kind::Deduced => return Some((Node(Kind::Deduced), false)),
            Kind::Schema(schema) => (schema, false),
            Kind::Object(schema) => (schema, true),
        };
        if whole && let Some(node) = object_member(schema, name) {
            return Some((node, true));
        }
        if let Some(property) = schema.properties.get(name) {
            return Some((Node(Kind::Schema(property)), true));
        }
        match &schema.additional {
            Additional::Schema(further) => Some((Node(Kind::Schema(further)), false)),
            Additional::Any => Some((Node(Kind::Deduced), false)),
            Additional::Unstated if schema.preserve_unknown_fields || schema.properties.is_empty() => Some((Node(Kind::Deduced), false)),
            Additional::Forbidden | Additional::Unstated => None,
        }
    }
}

/// A member that every object has, typed as Kubernetes types it if the schema does not (those of custom resources do not).
fn object_member<'a>(schema: &'a Schema, name: &str) -> Option<Node<'a>> {
    match name {
        "apiVersion" | "kind" => Some(Node(Kind::Schema(text()))),
        "metadata" => match schema.properties.get("metadata") {
            Some(own) if own.properties.contains_key("managedFields") => Some(Node(Kind::Schema(own))),
            _ => Some(Node(Kind::Schema(object_meta()))),
        },
        _ => None,
    }
}

fn text() -> &'static Schema {
    static TEXT: OnceLock<Schema> = OnceLock::new();
    TEXT.get_or_init(|| Schema { kind: Some(Type::String), ..Schema::default() })
}

/// The part of ObjectMeta's schema that merging needs.
fn object_meta() -> &'static Schema {
    static META: OnceLock<Schema> = OnceLock::new();
    META.get_or_init(|| {
        let of = |kind| Schema { kind: Some(kind), ..Schema::default() };
        let node = |kind| SchemaRef::new(of(kind));
        let names =
            |names: &[(&str, SchemaRef)]| names.iter().map(|(name, node)| ((*name).to_owned(), node.clone())).collect::<BTreeMap<_, _>>();
        let time = || SchemaRef::new(Schema { format: Some("date-time".into()), ..of(Type::String) });
        let strings = || SchemaRef::new(Schema { additional: Additional::Schema(node(Type::String)), ..of(Type::Object) });
        let owner = Schema {
            map_type: Some(MapType::Atomic),
            properties: names(&[
                ("apiVersion", node(Type::String)),
                ("blockOwnerDeletion", node(Type::Boolean)),
                ("controller", node(Type::Boolean)),
                ("kind", node(Type::String)),
                ("name", node(Type::String)),
                ("uid", node(Type::String)),
            ]),
            ..of(Type::Object)
        };
        Schema {
            properties: names(&[
                ("annotations", strings()),
                ("creationTimestamp", time()),
                ("deletionGracePeriodSeconds", node(Type::Integer)),
                ("deletionTimestamp", time()),
                (
                    "finalizers",
                    SchemaRef::new(Schema { items: Some(node(Type::String)), list_type: Some(ListType::Set), ..of(Type::Array) }),
                ),
                ("generateName", node(Type::String)),
                ("generation", node(Type::Integer)),
                ("labels", strings()),
                ("managedFields", SchemaRef::new(Schema { list_type: Some(ListType::Atomic), ..of(Type::Array) })),
                ("name", node(Type::String)),
                ("namespace", node(Type::String)),
                (
                    "ownerReferences",
                    SchemaRef::new(Schema {
                        items: Some(SchemaRef::new(owner)),
                        list_type: Some(ListType::Map),
                        list_map_keys: vec!["uid".into()],
                        ..of(Type::Array)
                    }),
                ),
                ("resourceVersion", node(Type::String)),
                ("selfLink", node(Type::String)),
                ("uid", node(Type::String)),
            ]),
            ..of(Type::Object)
        }
    })
}

impl<'a> List<'a> {
    /// Returns the step that tells the item apart from the others of an associative list, or the reason why nothing can.
    fn element<'v>(&self, item: &'v Value) -> Result<Step<'v>, InvalidElement>
    where
        'a: 'v,
    {
        match self.parts {
            Parts::Atomic => Err(InvalidElement("an atomic list has no elements of its own".into())),
            Parts::Set => match item {
                Value::Null => Err(InvalidElement("associative list without keys has an element that's an explicit null".into())),
                Value::Object(_) => Err(InvalidElement("associative list without keys has an element that's a map type".into())),
                Value::Array(_) => Err(InvalidElement("not supported: associative list with lists as elements".into())),
                scalar => Ok(Step::Value(scalar)),
            },
            Parts::Keyed(keys) => {
                let map = match item {
                    Value::Object(map) => map,
                    Value::Null => return Err(InvalidElement("associative list with keys may not have a null element".into())),
                    _ => return Err(InvalidElement("associative list with keys may not have non-map elements".into())),
                };
                // An absent key is no part of what tells the item apart.
                let known = |key: &'a String| Some((key.as_str(), map.get(key).or_else(|| self.default_key(key))?));
                if let [key] = keys
                    && let Some(key) = known(key)
                {
                    return Ok(Step::Key(Keys::One([key])));
                }
                let mut found: Vec<(&str, &Value)> = keys.iter().filter_map(known).collect();
                if found.is_empty() {
                    let keys: Vec<String> = keys.iter().map(|key| mainstay_golang::quote(key)).collect();
                    return Err(InvalidElement(format!(
                        "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                        keys.join(" ")
                    )));
                }
                found.sort_by_key(|(name, _)| *name);
                Ok(Step::Key(Keys::Many(found)))
            }
        }
    }

    fn default_key(&self, key: &str) -> Option<&'a Value> {
        let (Kind::Schema(items) | Kind::Object(items)) = self.items.0 else {
            return None;
        };
        items.properties.get(key)?.default.as_ref().filter(|value| !value.is_null())
    }

    /// The items with what tells them apart. Items that nothing tells apart are left out: validation has refused them before.
    fn elements<'v>(&self, items: &'v [Value]) -> Vec<(Step<'v>, &'v Value)>
    where
        'a: 'v,
    {
        items.iter().filter_map(|item| Some((self.element(item).ok()?, item))).collect()
    }

    fn is_atomic(&self) -> bool {
        matches!(self.parts, Parts::Atomic)
    }
}

fn as_map(value: Option<&Value>) -> Option<&serde_json::Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn as_list(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}

impl Node<'_> {
    /// The value at a path.
    pub fn at<'v>(self, value: &'v Value, path: &[PathElement]) -> Option<&'v Value> {
        let Some((first, rest)) = path.split_first() else {
            return Some(value);
        };
        match (self.shape(Some(value)), value, first) {
            (Shape::Map(map), Value::Object(members), PathElement::Field(name)) => {
                let member = members.get(name)?;
                map.member(name).map_or(Node(Kind::Deduced), |(node, _)| node).at(member, rest)
            }
            (Shape::List(list), Value::Array(items), PathElement::Index(index)) => {
                list.items.at(items.get(usize::try_from(*index).ok()?)?, rest)
            }
            (Shape::List(list), Value::Array(items), element) => {
                let item = items.iter().find(|item| list.element(item).is_ok_and(|own| own.order(element).is_eq()))?;
                list.items.at(item, rest)
            }
            _ => None,
        }
    }
}
