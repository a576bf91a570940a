//! The keywords with a check of their own (OLM1-CRD-02).

use serde_json::Value;

use super::rest;
use mainstay_golang::quote;

use crate::field::go_json;

/// The keywords that [`compare`] looks at; `description` is free to change.
pub(super) const HANDLED: [&str; 15] = [
    "default",
    "description",
    "enum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "oneOf",
    "pattern",
    "required",
];

/// Findings about one node: the check's name and what changed.
pub(super) fn compare(old: &Value, new: &Value) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    kind(old, new, &mut found);
    required(old, new, &mut found);
    default(old, new, &mut found);
    enumeration(old, new, &mut found);
    for keyword in ["minimum", "minLength", "minItems", "minProperties"] {
        limit(old, new, keyword, "minimum", |old, new| new > old, "increased", &mut found);
    }
    for keyword in ["maximum", "maxLength", "maxItems", "maxProperties"] {
        limit(old, new, keyword, "maximum", |old, new| new < old, "decreased", &mut found);
    }
    pattern(old, new, &mut found);
    nullable(old, new, &mut found);
    one_of(old, new, &mut found);
    found
}

type Found = Vec<(&'static str, String)>;

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema[key].as_str().unwrap_or_default()
}

fn list<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema[key].as_array().map_or(&[], Vec::as_slice)
}

fn kind(old: &Value, new: &Value, found: &mut Found) {
    let (old, new) = (text(old, "type"), text(new, "type"));
    if old != new {
        found.push(("type", format!("type changed : {} -> {}", quote(old), quote(new))));
    }
}

fn required(old: &Value, new: &Value, found: &mut Found) {
    let before = list(old, "required");
    let mut added: Vec<&str> = list(new, "required").iter().filter(|name| !before.contains(name)).filter_map(Value::as_str).collect();
    added.sort_unstable();
    added.dedup();
    if !added.is_empty() {
        found.push(("required", format!("new required fields: [{}]", added.join(" "))));
    }
}

fn default(old: &Value, new: &Value, found: &mut Found) {
    let given = |schema: &Value| schema.get("default").filter(|value| !value.is_null()).map(|value| quote(&go_json(value)));
    match (given(old), given(new)) {
        (None, Some(new)) => found.push(("default", format!("default added when there was none previously : {new}"))),
        (Some(old), None) => found.push(("default", format!("default value removed : {old}"))),
        (Some(old), Some(new)) if old != new => found.push(("default", format!("default value changed : {old} -> {new}"))),
        _ => {}
    }
}

fn enumeration(old: &Value, new: &Value, found: &mut Found) {
    let values = |schema: &Value| {
        let mut values: Vec<String> = list(schema, "enum").iter().map(go_json).collect();
        values.sort();
        values
    };
    let (old, new) = (values(old), values(new));
    let removed: Vec<&str> = old.iter().filter(|value| !new.contains(value)).map(String::as_str).collect();
    if old.is_empty() && !new.is_empty() {
        found.push(("enum", format!("enum constraint added when there was none previously : [{}]", new.join(" "))));
    } else if !removed.is_empty() {
        found.push(("enum", format!("allowed enum values removed : [{}]", removed.join(" "))));
    }
}

fn limit(old: &Value, new: &Value, keyword: &'static str, word: &str, tighter: fn(f64, f64) -> bool, change: &str, found: &mut Found) {
    let (old, Some(new_limit)) = (&old[keyword], new[keyword].as_f64()) else {
        return;
    };
    match old.as_f64() {
        None => found.push((keyword, format!("{word} constraint added when there was none previously : {}", go_json(&new[keyword])))),
        Some(old_limit) if tighter(old_limit, new_limit) => {
            found.push((keyword, format!("{word} {change} : {} -> {}", go_json(old), go_json(&new[keyword]))));
        }
        Some(_) => {}
    }
}

fn pattern(old: &Value, new: &Value, found: &mut Found) {
    let (old, new) = (text(old, "pattern"), text(new, "pattern"));
    let what = match (old.is_empty(), new.is_empty()) {
        _ if old == new => return,
        (true, _) => "added",
        (_, true) => "removed",
        _ => "changed",
    };
    found.push(("pattern", format!("pattern {what} : {} -> {}", quote(old), quote(new))));
}

fn nullable(old: &Value, new: &Value, found: &mut Found) {
    match (old["nullable"] == true, new["nullable"] == true) {
        (false, true) => found.push(("nullable", "nullable added : false -> true".to_owned())),
        (true, false) => found.push(("nullable", "nullable removed : true -> false".to_owned())),
        _ => {}
    }
}

fn one_of(old: &Value, new: &Value, found: &mut Found) {
    // Words for readers do not make an alternative another one.
    let alternatives = |schema: &Value| -> Vec<String> {
        let bare = |alternative: &Value| {
            let mut alternative = rest::normal(alternative);
            if let Some(map) = alternative.as_object_mut() {
                map.retain(|key, _| !matches!(key.as_str(), "description" | "title" | "example" | "externalDocs"));
            }
            go_json(&alternative)
        };
        list(schema, "oneOf").iter().map(bare).collect()
    };
    let (old, new) = (alternatives(old), alternatives(new));
    let without =
        |these: &[String], those: &[String]| these.iter().filter(|this| !those.contains(this)).cloned().collect::<Vec<_>>().join(" ");
    if old.is_empty() && !new.is_empty() {
        found.push(("oneOf", format!("oneOf constraint added when there was none previously: [{}]", new.join(" "))));
        return;
    }
    // As with enums, what was taken away hides what came in its place.
    let (removed, added) = (without(&old, &new), without(&new, &old));
    if !removed.is_empty() {
        found.push(("oneOf", format!("allowed oneOf schemas removed: [{removed}]")));
    } else if !added.is_empty() {
        found.push(("oneOf", format!("allowed oneOf schemas added: [{added}]")));
    }
}
