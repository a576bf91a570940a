//! The differences of two worlds, field by field.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// One field that differs, or an object that only one has.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The object.
    pub object: String,
    /// The field, as `/status/conditions/0/reason`; empty for the whole object.
    pub field: String,
    /// Our value, if there is one.
    pub ours: Option<Value>,
    /// Upstream's.
    pub upstream: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), Value::to_string);
        let cut = |text: String| text.chars().take(900).collect::<String>();
        write!(
            f,
            "  {} {}\n      ours     {}\n      upstream {}",
            self.object,
            self.field,
            cut(shown(&self.ours)),
            cut(shown(&self.upstream))
        )
    }
}

/// Every difference of two worlds.
pub fn of(ours: &BTreeMap<String, Value>, upstream: &BTreeMap<String, Value>) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut names: Vec<&String> = ours.keys().chain(upstream.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        collect(name, "", ours.get(name), upstream.get(name), &mut found);
    }
    found
}

fn collect(object: &str, field: &str, ours: Option<&Value>, upstream: Option<&Value>, found: &mut Vec<Difference>) {
    match (ours, upstream) {
        (Some(ours), Some(upstream)) if ours == upstream => {}
        (Some(Value::Object(ours)), Some(Value::Object(upstream))) => {
            let mut keys: Vec<&String> = ours.keys().chain(upstream.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                collect(object, &format!("{field}/{}", key.replace('~', "~0").replace('/', "~1")), ours.get(key), upstream.get(key), found);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(upstream))) if ours.len() == upstream.len() => {
            for (index, (ours, upstream)) in ours.iter().zip(upstream).enumerate() {
                collect(object, &format!("{field}/{index}"), Some(ours), Some(upstream), found);
            }
        }
        _ => {
            found.push(Difference { object: object.to_owned(), field: field.to_owned(), ours: ours.cloned(), upstream: upstream.cloned() });
        }
    }
}
