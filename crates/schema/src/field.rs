//! Kubernetes' model of errors in fields, with its exact words (KAPI-REST-04).
//!
//! Every validation of the API reports its findings with this one type: built-in kinds, custom resources, and CRDs themselves. An [`Error`]
//! becomes one cause of a Status ([`Error::reason`], [`Error::body`], [`Error::field`]), and the list of them becomes the text after
//! `is invalid: ` ([`aggregate`]).

use std::fmt;

use mainstay_golang::json::{self, Html};
use mainstay_golang::quote;
use serde_json::{Number, Value};

/// The path of a field, in Kubernetes' notation: `spec.ports[0].name`, `metadata.annotations[a/b]`.
///
/// The empty path is the object itself; Kubernetes prints it as `<nil>`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(String);

impl Path {
    /// The object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A path that starts with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// A member: `path.name`.
    #[must_use]
    pub fn child(&self, name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        let mut text = String::with_capacity(self.0.len() + name.len() + 1);
        text.push_str(&self.0);
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(name);
        Self(text)
    }

    /// Several members, one below the other: `path.a.b`.
    #[must_use]
    pub fn children(&self, names: &[&str]) -> Self {
        names.iter().fold(self.clone(), |path, name| path.child(name))
    }

    /// An item of a list: `path[0]`.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of a map: `path[key]`.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        Self(format!("{}[{}]", self.0, key.as_ref()))
    }

    /// Returns true if this is the object itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The notation; empty for the object itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// The sort of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A named thing that does not exist.
    NotFound,
    /// A field that must be there.
    Required,
    /// A value that must be unique and is not.
    Duplicate,
    /// A value that breaks a rule.
    Invalid,
    /// A value outside a fixed set.
    NotSupported,
    /// A field or value that is not allowed here.
    Forbidden,
    /// A text that is too long.
    TooLong,
    /// A list or map with too many entries.
    TooMany,
    /// The server's own fault.
    Internal,
    /// A value of the wrong type.
    TypeInvalid,
}

impl Kind {
    /// The `reason` of a Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// The words a finding begins with.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::Internal)
    }
}

/// The offending value as a finding shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum BadValue {
    /// Not shown at all.
    #[default]
    Omitted,
    /// A JSON value.
    Value(Value),
    /// JSON text shown as it stands: for what upstream prints as a Go struct (`{"Rule":"...","Message":""}`), whose member order is not alphabetical.
    Json(String),
}

impl From<Value> for BadValue {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        Self::Value(value.clone())
    }
}

impl From<&str> for BadValue {
    fn from(value: &str) -> Self {
        Self::Value(value.into())
    }
}

impl From<String> for BadValue {
    fn from(value: String) -> Self {
        Self::Value(value.into())
    }
}

impl From<&String> for BadValue {
    fn from(value: &String) -> Self {
        Self::Value(value.as_str().into())
    }
}

impl From<i64> for BadValue {
    fn from(value: i64) -> Self {
        Self::Value(value.into())
    }
}

impl From<bool> for BadValue {
    fn from(value: bool) -> Self {
        Self::Value(value.into())
    }
}

impl From<Option<&Value>> for BadValue {
    fn from(value: Option<&Value>) -> Self {
        Self::Value(value.cloned().unwrap_or(Value::Null))
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// Its sort.
    pub kind: Kind,
    /// The field.
    pub field: Path,
    /// The value found there.
    pub bad_value: BadValue,
    /// The problem, or what would be right; may be empty.
    pub detail: String,
}

impl Error {
    /// The same finding about a part of something: its field lies below the path.
    #[must_use]
    pub fn below(self, path: &Path) -> Self {
        let field = match self.field.as_str() {
            "" => path.clone(),
            inner if inner.starts_with('[') => Path(format!("{}{inner}", path.0)),
            inner => path.child(inner),
        };
        Self { field, ..self }
    }

    /// A finding of any sort.
    pub fn new(kind: Kind, field: &Path, bad_value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self { kind, field: field.clone(), bad_value: bad_value.into(), detail: detail.into() }
    }

    /// `Required value: detail`.
    pub fn required(field: &Path, detail: impl Into<String>) -> Self {
        Self::new(Kind::Required, field, BadValue::Omitted, detail)
    }

    /// `Invalid value: VALUE: detail`.
    pub fn invalid(field: &Path, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, field, value, detail)
    }

    /// Like [`Error::invalid`] with the reason for a wrong type.
    pub fn type_invalid(field: &Path, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(Kind::TypeInvalid, field, value, detail)
    }

    /// `Unsupported value: VALUE: supported values: "a", "b"`, in the order given.
    pub fn not_supported<S: AsRef<str>>(field: &Path, value: impl Into<BadValue>, supported: &[S]) -> Self {
        let mut detail = String::new();
        for (index, value) in supported.iter().enumerate() {
            detail.push_str(if index == 0 { "supported values: " } else { ", " });
            detail.push_str(&quote(value.as_ref()));
        }
        Self::new(Kind::NotSupported, field, value, detail)
    }

    /// `Duplicate value: VALUE`.
    pub fn duplicate(field: &Path, value: impl Into<BadValue>) -> Self {
        Self::new(Kind::Duplicate, field, value, "")
    }

    /// `Forbidden: detail`.
    pub fn forbidden(field: &Path, detail: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, field, BadValue::Omitted, detail)
    }

    /// `Too long: may not be more than N bytes`.
    pub fn too_long(field: &Path, value: impl Into<BadValue>, limit: u64) -> Self {
        let plural = if limit == 1 { "" } else { "s" };
        Self::new(Kind::TooLong, field, value, format!("may not be more than {limit} byte{plural}"))
    }

    /// `Too many: ACTUAL: must have at most N items`.
    pub fn too_many(field: &Path, actual: u64, limit: u64) -> Self {
        let plural = if limit == 1 { "" } else { "s" };
        Self::new(Kind::TooMany, field, Value::from(actual), format!("must have at most {limit} item{plural}"))
    }

    /// `Not found: VALUE`.
    pub fn not_found(field: &Path, value: impl Into<BadValue>) -> Self {
        Self::new(Kind::NotFound, field, value, "")
    }

    /// `Internal error: detail`.
    pub fn internal(field: &Path, detail: impl Into<String>) -> Self {
        Self::new(Kind::Internal, field, BadValue::Omitted, detail)
    }

    /// The `reason` of a Status cause.
    pub fn reason(&self) -> &'static str {
        self.kind.reason()
    }

    /// The `message` of a Status cause: everything but the field.
    pub fn body(&self) -> String {
        let mut text = self.kind.as_str().to_owned();
        if self.kind.shows_value() {
            match &self.bad_value {
                BadValue::Omitted => {}
                BadValue::Value(value) => {
                    text.push_str(": ");
                    text.push_str(&shown(value));
                }
                BadValue::Json(json) => {
                    text.push_str(": ");
                    text.push_str(json);
                }
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for Error {}

/// The text of several findings: one as it is, more as `[a, b]`, each text once.
pub fn aggregate(errors: &[Error]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        1 => texts.remove(0),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// JSON as Go writes it: `<`, `>` and `&` escaped, whole floats without a fraction, large ones with an exponent.
pub fn go_json(value: &Value) -> String {
    let mut text = String::new();
    write_go_json(value, &mut text);
    text
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) => go_number(number, 21),
        other => go_json(other),
    }
}

fn write_go_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&go_number(number, 21)),
        Value::String(text) => json::write_string(out, text, Html::Escaped),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_go_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, member)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json::write_string(out, key, Html::Escaped);
                out.push(':');
                write_go_json(member, out);
            }
            out.push('}');
        }
    }
}

/// A number as Go prints a float: the shortest digits, an exponent below 1e-4 (1e-6 in JSON, which is close enough to never differ in
/// practice) and from `1e{large}` on.
pub(crate) fn go_number(number: &Number, large: i32) -> String {
    if let Some(whole) = number.as_i64() {
        return whole.to_string();
    }
    if let Some(whole) = number.as_u64() {
        return whole.to_string();
    }
    let Some(value) = number.as_f64() else {
        return number.to_string();
    };
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = value.abs().log10().floor() as i32;
    if exponent < -4 || exponent >= large {
        let text = format!("{value:e}");
        // Rust writes 1e21 and 1.5e-7; Go writes 1e+21 and 1.5e-07.
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, power) = match power.strip_prefix('-') {
            Some(power) => ('-', power),
            None => ('+', power),
        };
        return format!("{digits}e{sign}{power:0>2}");
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::json;

    use super::*;

    /// KAPI-REST-04: the words, reasons and paths of findings are those of Kubernetes.
    #[test]
    fn findings_read_as_upstream() {
        let spec = Path::new("spec");
        let cases = [
            (Error::required(&spec.child("a"), ""), "FieldValueRequired", "spec.a: Required value"),
            (Error::required(&spec.child("a"), "must"), "FieldValueRequired", "spec.a: Required value: must"),
            (Error::invalid(&spec.index(3), "x\ny", "no"), "FieldValueInvalid", "spec[3]: Invalid value: \"x\\ny\": no"),
            (Error::invalid(&spec.key("a/b"), 5, "no"), "FieldValueInvalid", "spec[a/b]: Invalid value: 5: no"),
            (
                Error::invalid(&spec, json!({"b": "<", "a": [1, null]}), "no"),
                "FieldValueInvalid",
                "spec: Invalid value: {\"a\":[1,null],\"b\":\"\\u003c\"}: no",
            ),
            (Error::invalid(&spec, BadValue::Omitted, "in"), "FieldValueInvalid", "spec: Invalid value: in"),
            (Error::invalid(&Path::root(), "", "no"), "FieldValueInvalid", "<nil>: Invalid value: \"\": no"),
            (
                Error::not_supported(&spec, "c", &["a", "b"]),
                "FieldValueNotSupported",
                "spec: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
            (Error::duplicate(&spec, json!({"k": "a"})), "FieldValueDuplicate", "spec: Duplicate value: {\"k\":\"a\"}"),
            (Error::forbidden(&spec, "never"), "FieldValueForbidden", "spec: Forbidden: never"),
            (Error::too_long(&spec, "long", 2), "FieldValueTooLong", "spec: Too long: may not be more than 2 bytes"),
            (Error::too_many(&spec, 3, 2), "FieldValueTooMany", "spec: Too many: 3: must have at most 2 items"),
            (Error::not_found(&spec, "v"), "FieldValueNotFound", "spec: Not found: \"v\""),
            (Error::type_invalid(&spec, "string", "x"), "FieldValueTypeInvalid", "spec: Invalid value: \"string\": x"),
            (Error::internal(&spec, "oops"), "InternalError", "spec: Internal error: oops"),
        ];
        for (error, reason, text) in cases {
            assert_eq!((error.reason(), error.to_string().as_str()), (reason, text));
        }
    }

    #[test]
    fn several_findings_stand_in_brackets() {
        let one = Error::required(&Path::new("a"), "");
        let two = Error::forbidden(&Path::new("b"), "no");
        assert_eq!(aggregate(std::slice::from_ref(&one)), "a: Required value");
        assert_eq!(aggregate(&[one.clone(), two, one]), "[a: Required value, b: Forbidden: no]");
    }

    #[test]
    fn numbers_print_as_in_go() {
        for (value, text) in [(json!(1.5), "1.5"), (json!(2.0), "2"), (json!(1e21), "1e+21"), (json!(1.5e-7), "1.5e-07"), (json!(-3), "-3")]
        {
            assert_eq!(go_json(&value), text);
        }
    }
}
