//! Label selectors as command lines write them, as objects hold them.

use mainstay_objects::LabelSelector;
use mainstay_terminal::errors::{Exit, Failure};
use serde_json::{Value, json};

/// Reads `a=b,c!=d,e in (f,g),h,!i`.
pub fn read(text: &str) -> Result<LabelSelector, Failure> {
    let invalid = |part: &str| {
        Failure::new(
            Exit::Usage,
            "--catalog-selector",
            format!("{part:?} is no criterion: expected KEY=VALUE, KEY!=VALUE, KEY in (A,B) or KEY notin (A,B)"),
        )
    };
    let mut selector = json!({"matchLabels": {}, "matchExpressions": []});
    for part in parts(text) {
        let expression = |key: &str, operator: &str, values: Vec<&str>| json!({"key": key.trim(), "operator": operator, "values": values});
        let list = |rest: &str| {
            let inner = rest.trim().strip_prefix('(')?.strip_suffix(')')?;
            Some(inner.split(',').map(|one| one.trim().to_owned()).collect::<Vec<_>>())
        };
        let found: Value = if let Some((key, value)) = part.split_once("!=") {
            expression(key, "NotIn", vec![value.trim()])
        } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            selector["matchLabels"][key.trim()] = value.trim().into();
            continue;
        } else if let Some((key, rest)) = part.split_once(" notin ") {
            let values = list(rest).ok_or_else(|| invalid(part))?;
            expression(key, "NotIn", values.iter().map(String::as_str).collect())
        } else if let Some((key, rest)) = part.split_once(" in ") {
            let values = list(rest).ok_or_else(|| invalid(part))?;
            expression(key, "In", values.iter().map(String::as_str).collect())
        } else if part.contains(' ') || part.is_empty() {
            return Err(invalid(part));
        } else if let Some(key) = part.strip_prefix('!') {
            json!({"key": key, "operator": "DoesNotExist"})
        } else {
            json!({"key": part, "operator": "Exists"})
        };
        if let Some(all) = selector["matchExpressions"].as_array_mut() {
            all.push(found);
        }
    }
    serde_json::from_value(selector).map_err(|error| Failure::failed("--catalog-selector", &error))
}

/// The criteria, parted at commas outside of parentheses.
fn parts(text: &str) -> Vec<&str> {
    let (mut all, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                all.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(text[from..].trim());
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn criteria() {
        let value = |text: &str| serde_json::to_value(read(text).unwrap()).unwrap();
        assert_eq!(value("a=b,c==d"), json!({"matchLabels": {"a": "b", "c": "d"}}));
        let expected = json!([{"key": "a", "operator": "NotIn", "values": ["b"]}, {"key": "c", "operator": "In", "values": ["d", "e"]},
            {"key": "f", "operator": "NotIn", "values": ["g"]}, {"key": "h", "operator": "Exists"}, {"key": "i", "operator": "DoesNotExist"}]);
        let found = value("a!=b,c in (d, e),f notin (g),h,!i");
        for (one, other) in found["matchExpressions"].as_array().unwrap().iter().zip(expected.as_array().unwrap()) {
            assert_eq!((&one["key"], &one["operator"]), (&other["key"], &other["operator"]));
            assert_eq!(one["values"].as_array().cloned().unwrap_or_default(), other["values"].as_array().cloned().unwrap_or_default());
        }
        assert_eq!(found["matchExpressions"].as_array().unwrap().len(), 5);
        for wrong in ["a in b", "a b", "", "a=b,,c"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
