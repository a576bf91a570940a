//! Everything without a check of its own: it must not change at all (OLM1-CRD-05).

use serde_json::{Map, Value};

use super::keywords::HANDLED;
use mainstay_golang::quote;

use crate::field::go_json;

/// Changes outside of the keywords that have their own checks. `properties` and `items` are nodes of their own.
pub(super) fn compare(old: &Value, new: &Value) -> Option<String> {
    let (old, new) = (remainder(old), remainder(new));
    if old == new {
        return None;
    }
    let none = Value::Null;
    let changed: Vec<&str> = old.keys().chain(new.keys()).map(String::as_str).filter(|key| old.get(*key) != new.get(*key)).collect();
    let mut details = Vec::new();
    for (keyword, name, shape) in KEYWORDS {
        if changed.contains(keyword) {
            details.push(detail(name, *shape, old.get(*keyword).unwrap_or(&none), new.get(*keyword).unwrap_or(&none)));
        }
    }
    let complete = changed.iter().all(|key| KEYWORDS.iter().any(|(keyword, ..)| keyword == key));
    let details: Option<Vec<String>> = details.into_iter().collect();
    Some(match details.filter(|details| complete && !details.is_empty()) {
        Some(details) => format!("unhandled changes found ({})", details.join("; ")),
        None => "unhandled changes found".to_owned(),
    })
}

/// A schema in which absent and empty are one.
pub(super) fn normal(schema: &Value) -> Value {
    let Value::Object(map) = schema else {
        return schema.clone();
    };
    let mut out = Map::new();
    for (key, value) in map {
        let value = match (key.as_str(), value) {
            ("properties" | "patternProperties" | "definitions" | "dependencies", Value::Object(parts)) => {
                if parts.is_empty() {
                    continue;
                }
                Value::Object(parts.iter().map(|(name, part)| (name.clone(), normal(part))).collect())
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.iter().map(normal).collect(),
            ("items" | "not" | "additionalProperties" | "additionalItems", part @ Value::Object(_)) => normal(part),
            ("x-kubernetes-validations", Value::Array(rules)) => rules.iter().map(normal).collect(),
            _ => value.clone(),
        };
        let empty = match &value {
            Value::Null => true,
            // These two are pointers in Go: false is not absent.
            Value::Bool(flag) => {
                !flag
                    && !matches!(
                        key.as_str(),
                        "x-kubernetes-preserve-unknown-fields" | "additionalProperties" | "optionalOldSelf" | "default" | "example"
                    )
            }
            Value::String(text) => text.is_empty() && !matches!(key.as_str(), "default" | "example"),
            Value::Array(items) => items.is_empty() && !matches!(key.as_str(), "default" | "example"),
            _ => false,
        };
        if !empty {
            out.insert(key.clone(), value);
        }
    }
    Value::Object(out)
}

fn remainder(schema: &Value) -> Map<String, Value> {
    let mut map = match normal(schema) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    map.retain(|key, _| !HANDLED.contains(&key.as_str()) && !matches!(key.as_str(), "properties" | "items" | "type"));
    map
}

/// The form in which Go prints a keyword's value.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    TextPointer,
    FlagPointer,
    NumberPointer,
    Texts,
    Json,
    Complex,
    Rules,
}

/// The keywords with Go's names, in the order of Go's type.
const KEYWORDS: &[(&str, &str, Shape)] = &[
    ("id", "ID", Shape::Text),
    ("$schema", "Schema", Shape::Text),
    ("$ref", "Ref", Shape::TextPointer),
    ("format", "Format", Shape::Text),
    ("title", "Title", Shape::Text),
    ("exclusiveMaximum", "ExclusiveMaximum", Shape::Flag),
    ("exclusiveMinimum", "ExclusiveMinimum", Shape::Flag),
    ("uniqueItems", "UniqueItems", Shape::Flag),
    ("multipleOf", "MultipleOf", Shape::NumberPointer),
    ("allOf", "AllOf", Shape::Complex),
    ("anyOf", "AnyOf", Shape::Complex),
    ("not", "Not", Shape::Complex),
    ("additionalProperties", "AdditionalProperties", Shape::Complex),
    ("patternProperties", "PatternProperties", Shape::Complex),
    ("dependencies", "Dependencies", Shape::Complex),
    ("additionalItems", "AdditionalItems", Shape::Complex),
    ("definitions", "Definitions", Shape::Complex),
    ("externalDocs", "ExternalDocs", Shape::Complex),
    ("example", "Example", Shape::Json),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", Shape::FlagPointer),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", Shape::Flag),
    ("x-kubernetes-int-or-string", "XIntOrString", Shape::Flag),
    ("x-kubernetes-list-map-keys", "XListMapKeys", Shape::Texts),
    ("x-kubernetes-list-type", "XListType", Shape::TextPointer),
    ("x-kubernetes-map-type", "XMapType", Shape::TextPointer),
    ("x-kubernetes-validations", "XValidations", Shape::Rules),
];

/// `Name old -> new`; none if the two sides differ somewhere inside, for which there is no short text.
fn detail(name: &str, shape: Shape, old: &Value, new: &Value) -> Option<String> {
    if matches!(shape, Shape::Complex | Shape::Rules) && !old.is_null() && !new.is_null() {
        return None;
    }
    Some(format!("{name} {} -> {}", shown(shape, old)?, shown(shape, new)?))
}

fn shown(shape: Shape, value: &Value) -> Option<String> {
    Some(match (shape, value) {
        (Shape::Text, value) => quote(value.as_str().unwrap_or_default()),
        (Shape::Flag, value) => (*value == Value::Bool(true)).to_string(),
        (_, Value::Null) => "nil".to_owned(),
        (Shape::TextPointer, value) => format!("&{}", quote(value.as_str().unwrap_or_default())),
        (Shape::FlagPointer | Shape::NumberPointer, value) => format!("&{}", go_json(value)),
        (Shape::Texts, value) => {
            let texts: Vec<String> = value.as_array()?.iter().filter_map(Value::as_str).map(quote).collect();
            format!("[]string{{{}}}", texts.join(", "))
        }
        (Shape::Json, value) => {
            // Go holds it as the bytes of its text.
            let bytes: Vec<String> = go_json(value).bytes().map(|byte| byte.to_string()).collect();
            format!("s\"&JSON{{Raw:*[{}],}}\"", bytes.join(" "))
        }
        (Shape::Complex, _) => "<complex value>".to_owned(),
        (Shape::Rules, value) => {
            let rules: Vec<String> = value.as_array()?.iter().map(shown_rule).collect();
            format!("ValidationRules{{{}}}", rules.join(", "))
        }
    })
}

fn shown_rule(rule: &Value) -> String {
    let members: Vec<String> = [
        ("rule", "Rule"),
        ("message", "Message"),
        ("messageExpression", "MessageExpression"),
        ("reason", "Reason"),
        ("fieldPath", "FieldPath"),
    ]
    .iter()
    .filter_map(|(key, name)| Some(format!("{name}: {}", quote(rule[*key].as_str()?))))
    .collect();
    format!("{{{}}}", members.join(", "))
}
