//! Differences between two JSON values, one text each.

use serde_json::Value;

/// Most differences that are told.
const MOST: usize = 20;
/// Most characters of a value that is shown.
const LENGTH: usize = 80;

/// Returns where two values differ: `PATH: WANTED != FOUND`. An absent field is told as `absent`.
pub fn differences(wanted: &Value, found: &Value) -> Vec<String> {
    let mut told = Vec::new();
    compare("", Some(wanted), Some(found), &mut told);
    told
}

fn compare(path: &str, wanted: Option<&Value>, found: Option<&Value>, told: &mut Vec<String>) {
    if told.len() >= MOST || wanted == found {
        return;
    }
    match (wanted, found) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, one.get(key), other.get(key), told);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{index}]"), Some(one), Some(other), told);
            }
        }
        _ => told.push(format!("{path}: {} != {}", shown(wanted), shown(found))),
    }
}

fn shown(value: Option<&Value>) -> String {
    let text = match value {
        None => return "absent".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
