//! Types of expressions, and how schemas declare them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use mainstay_schema::{Additional, Schema, SchemaRef, Type as Kind};

/// The type of an expression.
#[derive(Clone, Debug)]
pub enum Type {
    /// Known only when the expression runs.
    Dyn,
    /// `null`.
    Null,
    /// True or false.
    Bool,
    /// 64 bits with sign.
    Int,
    /// 64 bits without sign.
    Uint,
    /// A floating point number.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A span of time.
    Duration,
    /// A list.
    List(Arc<Type>),
    /// A map.
    Map(Arc<Type>, Arc<Type>),
    /// An object with the fields of a schema.
    Object(SchemaRef),
    /// An object with fields that no schema declares: `request`, `variables`.
    Record(Arc<Record>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// A type of Kubernetes' libraries: `net.IP`, `kubernetes.Quantity` ...
    Library(&'static str),
    /// A type as a value.
    Type,
    /// A type parameter of a function.
    #[doc(hidden)]
    Parameter(char),
    /// Already reported.
    #[doc(hidden)]
    Wrong,
}

/// The type of an object that is known by name.
#[derive(Clone, Debug)]
pub struct Record {
    name: &'static str,
    fields: HashMap<Arc<str>, Type>,
}

impl Record {
    /// A type of that name with these fields.
    pub fn new<N: Into<Arc<str>>>(name: &'static str, fields: impl IntoIterator<Item = (N, Type)>) -> Self {
        let mut record = Self { name, fields: HashMap::new() };
        for (name, kind) in fields {
            record.add(name.into(), kind);
        }
        record
    }

    /// Adds a field. Of several of one name, the first counts.
    pub(crate) fn add(&mut self, name: Arc<str>, kind: Type) {
        self.fields.entry(name).or_insert(kind);
    }

    /// The type of this record's objects.
    pub fn kind(self) -> Type {
        Type::Record(Arc::new(self))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Type> {
        self.fields.get(name)
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    /// The type of values under a schema; `None` for a schema without any (its field cannot be named in expressions).
    pub fn of_schema(schema: &SchemaRef) -> Option<Self> {
        if schema.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match schema.kind? {
            Kind::Boolean => Self::Bool,
            Kind::Integer => Self::Int,
            Kind::Number => Self::Double,
            Kind::String => match schema.format.as_deref() {
                Some("byte") => Self::Bytes,
                Some("duration") => Self::Duration,
                Some("date" | "date-time") => Self::Timestamp,
                _ => Self::String,
            },
            Kind::Array => Self::List(Arc::new(Self::of_schema(schema.items.as_ref()?)?)),
            Kind::Object => match &schema.additional {
                Additional::Schema(values) if schema.properties.is_empty() => {
                    Self::Map(Arc::new(Self::String), Arc::new(Self::of_schema(values)?))
                }
                _ => Self::Object(if schema.embedded_resource { with_metadata(schema) } else { schema.clone() }),
            },
        })
    }

    /// The type of whole objects of a custom resource: `apiVersion`, `kind` and `metadata` are always there.
    pub fn of_resource(schema: &SchemaRef) -> Option<Self> {
        match Self::of_schema(schema)? {
            Self::Object(schema) => Some(Self::Object(with_metadata(&schema))),
            other => Some(other),
        }
    }

    /// The type of a field by its name in expressions.
    pub(crate) fn field(schema: &Schema, name: &str) -> Option<Self> {
        if let Some(property) = schema.properties.get(name)
            && escape(name).as_deref() == Some(name)
        {
            return Self::of_schema(property);
        }
        let (_, property) = schema.properties.iter().find(|(property, _)| escape(property).as_deref() == Some(name))?;
        Self::of_schema(property)
    }
}

/// The schema with what every object has.
pub(crate) fn with_metadata(schema: &SchemaRef) -> SchemaRef {
    let text = || SchemaRef::new(Schema { kind: Some(Kind::String), ..Schema::default() });
    let mut full = Schema::clone(schema);
    full.properties.insert("apiVersion".into(), text());
    full.properties.insert("kind".into(), text());
    let properties = [("name".to_owned(), text()), ("generateName".to_owned(), text())].into();
    let metadata = Schema { kind: Some(Kind::Object), properties, ..Schema::default() };
    full.properties.insert("metadata".into(), SchemaRef::new(metadata));
    SchemaRef::new(full)
}

/// A property's name as expressions write it; `None` when it cannot be written.
pub(crate) fn escape(name: &str) -> Option<String> {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match first {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            letter if letter.is_ascii_alphanumeric() || letter == '_' => out.push(letter),
            _ => return None,
        }
        rest = &rest[first.len_utf8()..];
    }
    Some(out)
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Parameter('_') => out.write_str("dyn"),
            Self::Null => out.write_str("null"),
            Self::Bool => out.write_str("bool"),
            Self::Int => out.write_str("int"),
            Self::Uint => out.write_str("uint"),
            Self::Double => out.write_str("double"),
            Self::String => out.write_str("string"),
            Self::Bytes => out.write_str("bytes"),
            Self::Timestamp => out.write_str("timestamp"),
            Self::Duration => out.write_str("duration"),
            Self::List(items) => write!(out, "list({items})"),
            Self::Map(keys, values) => write!(out, "map({keys}, {values})"),
            Self::Object(_) => out.write_str("object"),
            Self::Record(record) => out.write_str(record.name),
            Self::Optional(inner) => write!(out, "optional_type({inner})"),
            Self::Library(name) => out.write_str(name),
            Self::Type => out.write_str("type"),
            Self::Parameter(name) => write!(out, "{name}"),
            Self::Wrong => out.write_str("!error!"),
        }
    }
}
