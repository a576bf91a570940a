//! Values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use mainstay_versions::Version;
use serde_json::Value as Json;

use crate::error::EvalError;
use crate::library::authz::Authz;
use crate::library::net::Cidr;
use crate::library::quantity::Quantity;
use crate::library::url::Url;

/// A value while an expression runs.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// True or false.
    Bool(bool),
    /// 64 bits with sign.
    Int(i64),
    /// 64 bits without sign.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(Arc<List>),
    /// A map or an object.
    Map(Arc<BTreeMap<Key, Value>>),
    /// A point in time, in UTC.
    Timestamp(DateTime),
    /// A span of time.
    Duration(SignedDuration),
    /// A value that may be absent.
    Optional(Option<Arc<Value>>),
    /// A type, by name.
    Type(&'static str),
    /// An object whose fields are computed when they are asked for.
    Lazy(Arc<dyn Fields>),
    /// Of Kubernetes' libraries.
    #[doc(hidden)]
    Library(Arc<Library>),
}

/// The fields of an object, computed on demand.
pub trait Fields: std::fmt::Debug + Send + Sync {
    /// A field; `None` when there is none of that name.
    fn field(&self, name: &str) -> Result<Option<Value>, EvalError>;
}

/// A list, and how its items are compared.
#[derive(Clone, Debug, Default)]
pub struct List {
    pub(crate) items: Vec<Value>,
    pub(crate) identity: Identity,
}

/// The key by which items of a list are told apart.
#[derive(Clone, Debug, Default)]
pub(crate) enum Identity {
    /// By position.
    #[default]
    Position,
    /// By themselves.
    Item,
    /// By some of their fields.
    Fields(Arc<[Arc<str>]>),
}

/// A map's key. Whole numbers are one kind of key, with or without sign.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Text.
    Text(Arc<str>),
}

#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Library {
    Url(Url),
    Ip(IpAddr),
    Cidr(Cidr),
    Quantity(Quantity),
    Semver(Version),
    Format(&'static str),
    Authz(Authz),
}

impl Value {
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn list(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List { items, identity: Identity::Position }))
    }

    pub(crate) fn some(value: Value) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn library(value: Library) -> Self {
        Self::Library(Arc::new(value))
    }

    /// A value of JSON without a schema: numbers are whole or not, everything else is what it is.
    pub fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Self::Int(number),
                (None, Some(number)) => Self::Uint(number),
                (None, None) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::text(text.as_str()),
            Json::Array(items) => Self::list(items.iter().map(Self::from_json).collect()),
            Json::Object(fields) => {
                Self::Map(Arc::new(fields.iter().map(|(name, value)| (Key::Text(name.as_str().into()), Self::from_json(value))).collect()))
            }
        }
    }

    /// The name of the value's type, as `type()` gives it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Lazy(_) => "object",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Library(inner) => match &**inner {
                Library::Url(_) => "kubernetes.URL",
                Library::Ip(_) => "net.IP",
                Library::Cidr(_) => "net.CIDR",
                Library::Quantity(_) => "kubernetes.Quantity",
                Library::Semver(_) => "kubernetes.Semver",
                Library::Format(_) => "kubernetes.NamedFormat",
                Library::Authz(authz) => authz.type_name(),
            },
        }
    }

    /// Equality as expressions see it: numbers by value whatever their type, sets and keyed lists without order.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Text(left), Self::Text(right)) => left == right,
            (Self::Bytes(left), Self::Bytes(right)) => left == right,
            (Self::Timestamp(left), Self::Timestamp(right)) => left == right,
            (Self::Duration(left), Self::Duration(right)) => left == right,
            (Self::Type(left), Self::Type(right)) => left == right,
            (Self::List(left), Self::List(right)) => left.equals(right),
            (Self::Map(left), Self::Map(right)) => {
                left.len() == right.len() && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| value.equals(other)))
            }
            (Self::Optional(left), Self::Optional(right)) => match (left, right) {
                (None, None) => true,
                (Some(left), Some(right)) => left.equals(right),
                _ => false,
            },
            (Self::Library(left), Self::Library(right)) => match (&**left, &**right) {
                (Library::Url(left), Library::Url(right)) => left.text == right.text,
                (Library::Ip(left), Library::Ip(right)) => left == right,
                (Library::Cidr(left), Library::Cidr(right)) => left == right,
                (Library::Quantity(left), Library::Quantity(right)) => left == right,
                (Library::Semver(left), Library::Semver(right)) => left.cmp_precedence(right).is_eq(),
                (Library::Format(left), Library::Format(right)) => left == right,
                _ => false,
            },
            (left, right) => left.compare_numbers(right).is_some_and(Ordering::is_eq),
        }
    }

    fn compare_numbers(&self, other: &Self) -> Option<Ordering> {
        let whole = |value: &Self| match value {
            Self::Int(number) => Some(i128::from(*number)),
            Self::Uint(number) => Some(i128::from(*number)),
            _ => None,
        };
        match (self, other) {
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(right),
            (Self::Double(left), right) => compare_double(*left, whole(right)?),
            (left, Self::Double(right)) => compare_double(*right, whole(left)?).map(Ordering::reverse),
            (left, right) => Some(whole(left)?.cmp(&whole(right)?)),
        }
    }

    /// The order of two values of comparable types; `None` within an order's result means not a number.
    pub(crate) fn compare(&self, other: &Self) -> Result<Option<Ordering>, EvalError> {
        Ok(Some(match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Bytes(left), Self::Bytes(right)) => left.cmp(right),
            (Self::Timestamp(left), Self::Timestamp(right)) => left.cmp(right),
            (Self::Duration(left), Self::Duration(right)) => left.cmp(right),
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), Self::Int(_) | Self::Uint(_) | Self::Double(_)) => {
                return Ok(self.compare_numbers(other));
            }
            _ => return Err(EvalError::overload()),
        }))
    }

    pub(crate) fn key(&self) -> Result<Key, EvalError> {
        Ok(match self {
            Self::Bool(flag) => Key::Bool(*flag),
            Self::Int(number) => Key::Int(i128::from(*number)),
            Self::Uint(number) => Key::Int(i128::from(*number)),
            Self::Double(number) if number.fract() == 0.0 && number.abs() < 1e19 => Key::Int(*number as i128),
            Self::Text(text) => Key::Text(text.clone()),
            _ => return Err(EvalError::new(format!("unsupported key type: {}", self.type_name()))),
        })
    }

    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(flag) => !flag,
            Self::Int(number) => *number == 0,
            Self::Uint(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.items.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Duration(duration) => duration.is_zero(),
            Self::Timestamp(time) => crate::library::time::seconds(*time) == 0 && time.subsec_nanosecond() == 0,
            Self::Optional(inner) => inner.is_none(),
            Self::Type(_) | Self::Lazy(_) | Self::Library(_) => false,
        }
    }
}

fn compare_double(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // Beyond 64 bits the sign decides; the cast below saturates just as well.
    let floor = double.floor();
    Some((floor as i128).cmp(&whole).then(if double > floor { Ordering::Greater } else { Ordering::Equal }))
}

impl Key {
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Int(number) => match i64::try_from(*number) {
                Ok(number) => Value::Int(number),
                Err(_) => Value::Uint(u64::try_from(*number).unwrap_or(u64::MAX)),
            },
            Self::Text(text) => Value::Text(text.clone()),
        }
    }
}

impl List {
    fn equals(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        match (&self.identity, &other.identity) {
            (Identity::Position, Identity::Position) => self.items.iter().zip(&other.items).all(|(left, right)| left.equals(right)),
            // Both directions, because a list that breaks its own rules may hold an item twice.
            (Identity::Fields(_) | Identity::Item, _) | (_, Identity::Fields(_) | Identity::Item) => {
                self.contains_all(other) && other.contains_all(self)
            }
        }
    }

    pub(crate) fn contains(&self, value: &Value) -> bool {
        self.items.iter().any(|item| item.equals(value))
    }

    pub(crate) fn contains_all(&self, other: &Self) -> bool {
        other.items.iter().all(|item| self.contains(item))
    }

    /// `self + other`: sets unite, keyed lists merge, other lists are joined.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut items = self.items.clone();
        match &self.identity {
            Identity::Position => items.extend(other.items.iter().cloned()),
            Identity::Item => {
                for item in &other.items {
                    if !items.iter().any(|known| known.equals(item)) {
                        items.push(item.clone());
                    }
                }
            }
            Identity::Fields(fields) => {
                for item in &other.items {
                    match items.iter_mut().find(|known| same_fields(known, item, fields)) {
                        Some(known) => *known = item.clone(),
                        None => items.push(item.clone()),
                    }
                }
            }
        }
        Self { items, identity: self.identity.clone() }
    }
}

fn same_fields(left: &Value, right: &Value, fields: &[Arc<str>]) -> bool {
    let (Value::Map(left), Value::Map(right)) = (left, right) else { return false };
    fields.iter().all(|field| {
        let key = Key::Text(field.clone());
        match (left.get(&key), right.get(&key)) {
            (Some(left), Some(right)) => left.equals(right),
            (None, None) => true,
            _ => false,
        }
    })
}
