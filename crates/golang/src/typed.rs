//! Go's structs: what remains of a JSON value that was read into one and is written again. Unknown fields are gone, and what is always
//! written is there.
//!
//! Structs are tables of their users; [`crate::json_reader`] only checks values against them.

use crate::value::json_type;
use serde_json::{Map, Number, Value};

/// A struct.
pub struct GoStruct {
    /// Its name with the package, as messages have it.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A field of a struct.
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The text that is written if it has no value.
    pub absent: Absent,
}

/// The type of a field.
pub enum Kind {
    /// A text, of the named type.
    Text(&'static str),
    /// A truth value.
    Bool,
    /// A number of 32 bits.
    Int32,
    /// A number of 64 bits.
    Int64,
    /// Texts.
    Texts,
    /// Texts by name.
    TextMap,
    /// Texts by name, several each.
    TextsMap,
    /// Truth values by name.
    BoolMap,
    /// A number with a fraction.
    Float64,
    /// Anything that has a form of its own: name of the type, and the function that reads it and returns what is written of it, and
    /// the text of its zero value.
    Parsed(&'static str, fn(&Value) -> Result<Value, Refused>, &'static str),
    /// A struct.
    Struct(&'static GoStruct),
    /// A list of structs.
    List(&'static GoStruct),
    /// A list of pointers to structs: an item that is null stays null.
    Pointers(&'static GoStruct),
    /// Anything, kept as it is.
    Any,
}

/// The text that is written of a field without a value.
pub enum Absent {
    /// The zero value of its type.
    Zero,
    /// Nothing, for zero values too (`omitempty`).
    Omitted,
    /// Nothing; zero values that are said stay (a pointer with `omitempty`).
    OmittedPointer,
    /// Null (a pointer, list or map without `omitempty`).
    Null,
}

/// A value that does not fit, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A field has another type.
    #[error("json: cannot unmarshal {found} into Go struct field {field} of type {kind}")]
    Field {
        /// The value that was found.
        found: String,
        /// The struct and the path of the field.
        field: String,
        /// The value that it should be.
        kind: String,
    },
    /// The whole value is no struct.
    #[error("json: cannot unmarshal {found} into Go value of type {kind}")]
    Whole {
        /// The value that was found.
        found: String,
        /// The struct.
        kind: &'static str,
    },
    /// A type with a form of its own does not take the value; what it says.
    #[error("{0}")]
    Said(String),
}

/// Why a type with a form of its own does not take a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It wants another type, of this name.
    Type(&'static str),
    /// It says so.
    Said(String),
}

/// The rules for scalars where texts are wanted. Upstream reads specs as YAML first, and as JSON if that fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Scalars become texts; unknown fields are refused.
    Yaml,
    /// Only texts are texts; unknown fields are dropped.
    Json,
}

/// The reason why reading as YAML fails; it is told to nobody.
enum Failed {
    Unknown,
    Misfit(Misfit),
}

impl Failed {
    fn misfit(self) -> Result<Value, Misfit> {
        match self {
            Self::Misfit(misfit) => Err(misfit),
            // Reading as JSON refuses no field.
            Self::Unknown => Ok(Value::Object(Map::new())),
        }
    }
}

impl GoStruct {
    /// Returns what is written of a value that `json.Unmarshal` read into the struct.
    ///
    /// # Errors
    /// A field has another type.
    pub fn from_json(&self, value: &Value) -> Result<Value, Misfit> {
        match value {
            Value::Object(fields) => self.read(fields, "", Reading::Json).or_else(Failed::misfit),
            Value::Null => Ok(self.zero()),
            other => Err(Misfit::Whole { found: json_type(other).to_owned(), kind: self.name }),
        }
    }

    /// Returns what is written of a value that was read into the struct as strict YAML, or as JSON if that failed: in YAML scalars are texts
    /// where texts are wanted.
    ///
    /// # Errors
    /// A field has another type.
    pub fn round_trip(&self, value: &Value) -> Result<Value, Misfit> {
        match value {
            Value::Object(fields) => self.read(fields, "", Reading::Yaml).or_else(|_| self.from_json(value)),
            other => self.from_json(other),
        }
    }

    fn read(&self, fields: &Map<String, Value>, path: &str, reading: Reading) -> Result<Value, Failed> {
        let named = |key: &str| self.fields.iter().find(|field| field.name == key);
        let alike = |key: &str| self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(key));
        let mut said: Vec<(&Field, &Value)> = Vec::new();
        for (key, value) in fields {
            match named(key).or_else(|| alike(key)) {
                Some(field) => said.push((field, value)),
                None if reading == Reading::Yaml => return Err(Failed::Unknown),
                None => {}
            }
        }
        let mut written = Map::new();
        for field in self.fields {
            let found = said.iter().rfind(|(known, value)| known.name == field.name && !value.is_null());
            let at = if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
            let value = found.map(|(_, value)| field.kind.read(value, self.short_name(), &at, reading)).transpose()?;
            if let Some(value) = field.written(value) {
                written.insert(field.name.to_owned(), value);
            }
        }
        Ok(Value::Object(written))
    }

    /// The name without the package, as messages about fields have it.
    fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// Returns what is written of the struct without any value.
    pub fn zero(&self) -> Value {
        Value::Object(self.fields.iter().filter_map(|field| Some((field.name.to_owned(), field.written(None)?))).collect())
    }
}

impl Field {
    fn written(&self, value: Option<Value>) -> Option<Value> {
        match (&self.absent, value) {
            (Absent::Zero, value) => Some(value.unwrap_or_else(|| self.kind.zero())),
            (Absent::Null, value) => Some(value.unwrap_or_default()),
            (Absent::Omitted, value) => value.filter(|value| *value != self.kind.zero() && !is_empty(value)),
            (Absent::OmittedPointer, value) => value,
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

impl Kind {
    /// Returns the zero value as it is written.
    pub fn zero(&self) -> Value {
        match self {
            Self::Text(_) => Value::String(String::new()),
            Self::Bool => Value::Bool(false),
            Self::Int32 | Self::Int64 => Value::from(0),
            Self::Float64 => Value::from(0.0),
            Self::Parsed(_, _, zero) => serde_json::from_str(zero).unwrap_or_default(),
            Self::Struct(inner) => inner.zero(),
            Self::Texts | Self::TextMap | Self::TextsMap | Self::BoolMap | Self::List(_) | Self::Pointers(_) | Self::Any => Value::Null,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Text(name) | Self::Parsed(name, ..) => (*name).to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Texts => "[]string".to_owned(),
            Self::TextMap => "map[string]string".to_owned(),
            Self::TextsMap => "map[string][]string".to_owned(),
            Self::BoolMap => "map[string]bool".to_owned(),
            Self::Float64 => "float64".to_owned(),
            Self::Struct(inner) => inner.name.to_owned(),
            Self::List(inner) => format!("[]{}", inner.name),
            Self::Pointers(inner) => format!("[]*{}", inner.name),
            Self::Any => "interface {}".to_owned(),
        }
    }

    fn read(&self, value: &Value, owner: &str, path: &str, reading: Reading) -> Result<Value, Failed> {
        let misfit = |value: &Value, kind: &str| {
            let found = match value {
                Value::Number(number) => format!("number {number}"),
                other => json_type(other).to_owned(),
            };
            // Only numbers that do not fit a number are shown.
            let found = if matches!(kind, "int32" | "int64") { found } else { json_type(value).to_owned() };
            Failed::Misfit(Misfit::Field { found, field: format!("{owner}.{path}"), kind: kind.to_owned() })
        };
        let text = |value: &Value| match (value, reading) {
            (Value::String(text), _) => Some(Value::String(text.clone())),
            (Value::Null, _) => Some(Value::String(String::new())),
            (Value::Bool(_) | Value::Number(_), Reading::Yaml) => Some(Value::String(scalar(value))),
            _ => None,
        };
        let item = |inner: &'static GoStruct, value: &Value| match value {
            Value::Object(fields) => inner.read(fields, path, reading),
            Value::Null => Ok(inner.zero()),
            other => Err(misfit(other, inner.name)),
        };
        match (self, value) {
            (Self::Any, value) => Ok(value.clone()),
            (Self::Text(_), value) => text(value).ok_or_else(|| misfit(value, &self.name())),
            (Self::Bool, Value::Bool(_)) | (Self::Float64, Value::Number(_)) => Ok(value.clone()),
            (Self::Int64, Value::Number(number)) if number.is_i64() => Ok(value.clone()),
            (Self::Int32, Value::Number(number)) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => {
                Ok(value.clone())
            }
            (Self::Texts, Value::Array(items)) => {
                items.iter().map(|item| text(item).ok_or_else(|| misfit(item, "string"))).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            (Self::TextMap, Value::Object(entries)) => {
                let entries = entries.iter().map(|(key, item)| Ok((key.clone(), text(item).ok_or_else(|| misfit(item, "string"))?)));
                entries.collect::<Result<Map<_, _>, Failed>>().map(Value::Object)
            }
            (Self::TextsMap, Value::Object(entries)) => {
                let entries = entries.iter().map(|(key, item)| Ok((key.clone(), Self::Texts.read(item, owner, path, reading)?)));
                entries.collect::<Result<Map<_, _>, Failed>>().map(Value::Object)
            }
            (Self::BoolMap, Value::Object(entries)) => {
                let entries = entries.iter().map(|(key, item)| Ok((key.clone(), Self::Bool.read(item, owner, path, reading)?)));
                entries.collect::<Result<Map<_, _>, Failed>>().map(Value::Object)
            }
            (Self::Parsed(_, read, _), value) => read(value).map_err(|refused| match refused {
                Refused::Type(kind) => misfit(value, kind),
                Refused::Said(text) => Failed::Misfit(Misfit::Said(text)),
            }),
            (Self::Struct(inner), Value::Object(_)) => item(inner, value),
            (Self::List(inner), Value::Array(items)) => {
                items.iter().map(|value| item(inner, value)).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            (Self::Pointers(inner), Value::Array(items)) => {
                let item = |value: &Value| if value.is_null() { Ok(Value::Null) } else { item(inner, value) };
                items.iter().map(item).collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            (_, other) => Err(misfit(other, &self.name())),
        }
    }
}

/// A scalar as the YAML reader makes a text of it.
fn scalar(value: &Value) -> String {
    match value.as_number().map(Number::as_f64) {
        Some(Some(number)) if value.is_f64() => crate::json::float(number),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static INNER: GoStruct = GoStruct {
        name: "v1.Inner",
        fields: &[
            Field { name: "count", kind: Kind::Int32, absent: Absent::Zero },
            Field { name: "set", kind: Kind::Bool, absent: Absent::OmittedPointer },
        ],
    };
    static OUTER: GoStruct = GoStruct {
        name: "v1.Outer",
        fields: &[
            Field { name: "name", kind: Kind::Text("string"), absent: Absent::Omitted },
            Field { name: "inner", kind: Kind::Struct(&INNER), absent: Absent::Zero },
            Field { name: "list", kind: Kind::List(&INNER), absent: Absent::Null },
            Field { name: "pointers", kind: Kind::Pointers(&INNER), absent: Absent::Omitted },
        ],
    };

    #[test]
    fn what_remains_of_a_value() {
        let zero = json!({"inner": {"count": 0}, "list": null});
        assert_eq!(OUTER.from_json(&Value::Null), Ok(zero.clone()));
        assert_eq!(OUTER.from_json(&json!({"name": "", "unknown": 1, "INNER": null})), Ok(zero));
        let said = json!({"name": "n", "inner": {"count": 3, "set": false}, "list": [null, {"count": 1}], "pointers": [null, {}]});
        let written = json!({"name": "n", "inner": {"count": 3, "set": false}, "list": [{"count": 0}, {"count": 1}], "pointers": [null, {"count": 0}]});
        assert_eq!(OUTER.from_json(&said), Ok(written));
    }

    #[test]
    fn what_does_not_fit() {
        let said = |value: Value| OUTER.from_json(&value).map_err(|misfit| misfit.to_string());
        let wrong = |text: &str| Err(text.to_owned());
        assert_eq!(said(json!([])), wrong("json: cannot unmarshal array into Go value of type v1.Outer"));
        assert_eq!(said(json!({"inner": 5})), wrong("json: cannot unmarshal number into Go struct field Outer.inner of type v1.Inner"));
        let large = said(json!({"inner": {"count": 2_147_483_648_u64}}));
        assert_eq!(large, wrong("json: cannot unmarshal number 2147483648 into Go struct field Inner.inner.count of type int32"));
    }

    #[test]
    fn scalars_are_texts_in_yaml() {
        assert_eq!(OUTER.round_trip(&json!({"name": 5})), Ok(json!({"name": "5", "inner": {"count": 0}, "list": null})));
        assert!(OUTER.round_trip(&json!({"name": 5, "unknown": 1})).is_err());
        assert!(OUTER.from_json(&json!({"name": 5})).is_err());
    }
}
