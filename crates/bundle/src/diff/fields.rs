//! The differences of two trees, field by field. Lists of named things (containers, variables, ports) are compared by name.

use serde_json::Value;

/// Differences of one object that are listed; more are only counted.
const MOST: usize = 50;

/// One field that differs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Its path.
    pub path: String,
    /// The old value.
    pub old: Option<Value>,
    /// The new value.
    pub new: Option<Value>,
}

impl Field {
    /// `path: old -> new`, shortened.
    pub(super) fn words(&self) -> String {
        let shown = |value: &Option<Value>| match value {
            None => "none".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let short = |text: String| match text.char_indices().nth(100) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        };
        format!("{}: {} -> {}", self.path, short(shown(&self.old)), short(shown(&self.new)))
    }
}

/// The fields that differ.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The first of the differing fields.
    pub listed: Vec<Field>,
    /// The number of differing fields that are not listed.
    pub more: usize,
}

impl Fields {
    /// The number of all differing fields.
    pub(super) fn count(&self) -> usize {
        self.listed.len() + self.more
    }
}

/// Compares two trees: a fixed number of the fields that differ, and the number of the others.
pub(super) fn compare(path: &str, old: &Value, new: &Value) -> Fields {
    let mut fields = Fields::default();
    walk(path, old, new, &mut fields);
    fields
}

fn walk(path: &str, old: &Value, new: &Value, fields: &mut Fields) {
    if old == new {
        return;
    }
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            for key in before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))) {
                walk(&below(key), before.get(key).unwrap_or(&Value::Null), after.get(key).unwrap_or(&Value::Null), fields);
            }
        }
        (Value::Array(before), Value::Array(after)) if named(before) && named(after) => {
            let name = |item: &Value| item["name"].as_str().unwrap_or_default().to_owned();
            super::by_name(before, after, name, |name, before, after| {
                walk(&format!("{path}[{name}]"), before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null), fields);
            });
        }
        _ if fields.listed.len() >= MOST => fields.more += 1,
        _ => {
            let present = |value: &Value| (!value.is_null()).then(|| value.clone());
            fields.listed.push(Field { path: path.to_owned(), old: present(old), new: present(new) });
        }
    }
}

fn named(items: &[Value]) -> bool {
    let mut names: Vec<&str> = items.iter().filter_map(|item| item["name"].as_str()).collect();
    let all = names.len() == items.len();
    names.sort_unstable();
    names.dedup();
    all && names.len() == items.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn named_things_are_compared_by_name() {
        let old = json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["x"], "n": 1});
        let new = json!({"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}], "args": ["y"], "n": 1});
        let words: Vec<String> = compare("", &old, &new).listed.iter().map(Field::words).collect();
        assert_eq!(
            words,
            [
                "args: [\"x\"] -> [\"y\"]",
                "env[A]: {\"name\":\"A\",\"value\":\"1\"} -> none",
                "env[B].value: 2 -> 3",
                "env[C]: none -> {\"name\":\"C\",\"value\":\"4\"}",
            ]
        );
        assert_eq!(compare("", &old, &old).count(), 0);
    }

    #[test]
    fn many_differences_are_counted() {
        let object = |value: usize| -> Value { (0..120).map(|key| (key.to_string(), Value::from(value))).collect() };
        let fields = compare("", &object(1), &object(2));
        assert_eq!((fields.listed.len(), fields.more, fields.count()), (MOST, 70, 120));
    }
}
