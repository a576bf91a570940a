//! The fields of an object that an apply changes: wanted fields that differ, and fields that were applied before and are no longer wanted.
//! Additions by the server (defaults, status, managed fields) are left out.

use std::collections::BTreeSet;

use serde_json::Value;

use super::FieldChange;
use crate::object::holds;

/// Maximum number of fields that are named for one object.
const MOST: usize = 100;
/// Maximum length of a text; longer ones are cut.
const LONG: usize = 2000;

/// Returns the first changes, and the number of further ones.
pub fn changes(live: &Value, wanted: &Value, before: Option<&Value>) -> (Vec<FieldChange>, usize) {
    let mut walk = Walk { secret: wanted["kind"] == "Secret", found: Vec::new() };
    walk.compare("", live, wanted, before);
    let omitted = walk.found.len().saturating_sub(MOST);
    walk.found.truncate(MOST);
    (walk.found, omitted)
}

struct Walk {
    secret: bool,
    found: Vec<FieldChange>,
}

impl Walk {
    fn compare(&mut self, path: &str, live: &Value, wanted: &Value, before: Option<&Value>) {
        match (live, wanted) {
            (Value::Object(live), Value::Object(wanted)) => {
                let before = before.and_then(Value::as_object);
                for (key, value) in wanted {
                    let at = member(path, key);
                    let earlier = before.and_then(|before| before.get(key));
                    match live.get(key) {
                        Some(found) => self.compare(&at, found, value, earlier),
                        None if holds(value, &empty_like(value)) => {}
                        None => self.push(at, None, Some(value)),
                    }
                }
                // An apply releases fields of the previous apply that are no longer wanted; no other manager is assumed to own them.
                for key in before.into_iter().flatten().map(|(key, _)| key).filter(|key| !wanted.contains_key(*key)) {
                    if let Some(found) = live.get(key).filter(|found| !found.is_null()) {
                        self.push(member(path, key), Some(found), None);
                    }
                }
            }
            (Value::Array(live), Value::Array(wanted)) => self.lists(path, live, wanted, before),
            _ if holds(wanted, live) => {}
            (_, Value::Null) => self.push(path.to_owned(), Some(live), None),
            _ => self.push(path.to_owned(), Some(live), Some(wanted)),
        }
    }

    fn lists(&mut self, path: &str, live: &[Value], wanted: &[Value], before: Option<&Value>) {
        let before = before.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let Some(key) = key_of(live, wanted) else {
            if live.len() == wanted.len() && wanted.iter().all(Value::is_object) {
                for (index, (live, wanted)) in live.iter().zip(wanted).enumerate() {
                    self.compare(&format!("{path}[{index}]"), live, wanted, before.get(index));
                }
            } else if live.len() != wanted.len() || !wanted.iter().zip(live).all(|(wanted, live)| holds(wanted, live)) {
                self.push(path.to_owned(), Some(&Value::from(live)), Some(&Value::from(wanted)));
            }
            return;
        };
        let named = |items: &[Value], name: &Value| items.iter().find(|item| item[key] == *name).cloned();
        for item in wanted {
            let at = format!("{path}[{key}={}]", plain(&item[key]));
            match named(live, &item[key]) {
                Some(found) => self.compare(&at, &found, item, named(before, &item[key]).as_ref()),
                None => self.push(at, None, Some(item)),
            }
        }
        for item in live.iter().filter(|item| named(wanted, &item[key]).is_none()) {
            self.push(format!("{path}[{key}={}]", plain(&item[key])), Some(item), None);
        }
    }

    fn push(&mut self, path: String, from: Option<&Value>, to: Option<&Value>) {
        let hidden = self.secret && (path.starts_with(".data") || path.starts_with(".stringData"));
        let shown = |value: Option<&Value>| value.map(|value| if hidden { Value::from("(a secret)") } else { shortened(value) });
        self.found.push(FieldChange { path, from: shown(from), to: shown(to) });
    }
}

/// Keys of Kubernetes' associative lists.
const KEYS: [&str; 6] = ["name", "containerPort", "port", "mountPath", "type", "uid"];

/// Returns the key that identifies the items of both lists, if there is one.
fn key_of(live: &[Value], wanted: &[Value]) -> Option<&'static str> {
    let unique = |items: &[Value], key: &str| {
        let keys: BTreeSet<String> = items.iter().filter(|item| !item[key].is_null()).map(|item| item[key].to_string()).collect();
        keys.len() == items.len()
    };
    let objects = live.iter().chain(wanted).all(Value::is_object) && !wanted.is_empty();
    KEYS.into_iter().find(|key| objects && unique(live, key) && unique(wanted, key))
}

fn empty_like(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(serde_json::Map::new()),
        _ => Value::Null,
    }
}

fn member(path: &str, key: &str) -> String {
    let simple = key.chars().all(|letter| letter.is_alphanumeric() || letter == '-' || letter == '_');
    if simple { format!("{path}.{key}") } else { format!("{path}[{key:?}]") }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shortened(value: &Value) -> Value {
    let size = match value {
        Value::String(text) => text.len(),
        Value::Object(_) | Value::Array(_) => value.to_string().len(),
        _ => 0,
    };
    if size <= LONG {
        return value.clone();
    }
    match value {
        Value::String(text) => Value::from(format!("{}... ({size} bytes)", text.chars().take(LONG / 10).collect::<String>())),
        Value::Array(items) => Value::from(format!("({} items, {size} bytes)", items.len())),
        _ => Value::from(format!("({size} bytes)")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(live: &Value, wanted: &Value, before: Option<&Value>) -> Vec<String> {
        let text = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), ToString::to_string);
        changes(live, wanted, before)
            .0
            .iter()
            .map(|field| format!("{}: {} -> {}", field.path, text(&field.from), text(&field.to)))
            .collect()
    }

    /// MS-PLAN-01: fields by their names, list items by their keys; what the server added does not count, what an apply lets go does.
    #[test]
    fn fields_are_named_and_the_servers_own_left_out() {
        let live = json!({"metadata": {"uid": "u", "labels": {"a": "1", "theirs": "x"}}, "status": {"ready": true},
            "spec": {"paused": false, "replicas": 1, "old": true,
                "containers": [{"name": "m", "image": "i:1", "imagePullPolicy": "Always", "args": ["a", "b"]}, {"name": "gone"}]}});
        let wanted = json!({"metadata": {"labels": {"a": "2", "b/c": "3"}, "annotations": {}},
            "spec": {"replicas": 1, "containers": [{"name": "m", "image": "i:2", "args": ["a"]}, {"name": "new"}]}});
        let before = json!({"spec": {"old": true, "replicas": 1}});
        assert_eq!(
            told(&live, &wanted, Some(&before)),
            [
                r#".metadata.labels.a: "1" -> "2""#,
                r#".metadata.labels["b/c"]: nothing -> "3""#,
                r#".spec.containers[name=m].args: ["a","b"] -> ["a"]"#,
                r#".spec.containers[name=m].image: "i:1" -> "i:2""#,
                r#".spec.containers[name=new]: nothing -> {"name":"new"}"#,
                r#".spec.containers[name=gone]: {"name":"gone"} -> nothing"#,
                ".spec.old: true -> nothing",
            ]
        );
        let secret = json!({"kind": "Secret", "data": {"password": "MQ=="}});
        let other = json!({"kind": "Secret", "data": {"password": "Mg=="}});
        assert_eq!(told(&secret, &other, None), [r#".data.password: "(a secret)" -> "(a secret)""#]);
    }
}
