//! From JSON to values, by schema: a number under `type: number` is a double even without a fraction, a string under
//! `format: date-time` is a point in time, properties get the names that expressions use.

use std::sync::Arc;

use mainstay_schema::{Additional, ListType, Schema, SchemaRef, Type as Kind};
use serde_json::Value as Json;

use crate::library::time::{parse_date, parse_duration, parse_timestamp};
use crate::types::{escape, with_metadata};
use crate::value::{Identity, Key, List, Value};

/// The value of `json` under its schema. What contradicts the schema keeps its JSON type: the validation of the schema reports it.
pub fn from_schema(json: &Json, schema: &Schema) -> Value {
    if schema.int_or_string {
        return Value::from_json(json);
    }
    match (schema.kind, json) {
        (Some(Kind::Number), Json::Number(number)) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        (Some(Kind::Integer), Json::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) if number.fract() == 0.0 && number.abs() < 9e18 => Value::Int(number as i64),
            _ => Value::from_json(json),
        },
        (Some(Kind::String), Json::String(text)) => string(text, schema),
        (Some(Kind::Array), Json::Array(items)) => {
            let items = items.iter().map(|item| match &schema.items {
                Some(schema) => from_schema(item, schema),
                None => Value::from_json(item),
            });
            let identity = match schema.list_type() {
                ListType::Atomic => Identity::Position,
                ListType::Set => Identity::Item,
                ListType::Map => Identity::Fields(schema.list_map_keys.iter().filter_map(|key| escape(key)).map(Arc::from).collect()),
            };
            Value::List(Arc::new(List { items: items.collect(), identity }))
        }
        (Some(Kind::Object), Json::Object(fields)) => {
            let values = match &schema.additional {
                Additional::Schema(values) if schema.properties.is_empty() => Some(values),
                _ => None,
            };
            let embedded;
            let schema = if schema.embedded_resource {
                embedded = with_metadata(&SchemaRef::new(schema.clone()));
                &embedded
            } else {
                schema
            };
            let fields = fields.iter().filter_map(|(name, value)| {
                if let Some(values) = values {
                    return Some((Key::Text(name.as_str().into()), from_schema(value, values)));
                }
                // A property that the schema does not declare cannot be named, so it is not there.
                let property = schema.properties.get(name)?;
                Some((Key::Text(escape(name)?.into()), from_schema(value, property)))
            });
            Value::Map(Arc::new(fields.collect()))
        }
        _ => Value::from_json(json),
    }
}

fn string(text: &str, schema: &Schema) -> Value {
    let converted = match schema.format.as_deref() {
        Some("byte") => base64(text).map(|bytes| Value::Bytes(bytes.into())),
        Some("duration") => parse_duration(text).map(Value::Duration),
        Some("date-time") => parse_timestamp(text).map(Value::Timestamp),
        Some("date") => parse_date(text).map(Value::Timestamp),
        _ => None,
    };
    converted.unwrap_or_else(|| Value::text(text))
}

/// Standard base64 with padding.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in digits.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}
