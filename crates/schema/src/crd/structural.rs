//! Rules of structural schemas: every field has one type and one place, and logic (allOf, anyOf, oneOf, not) only narrows (KAPI-CRD-02).
//!
//! These checks work on the JSON as it came, since much of what they forbid has no place in [`Schema`](crate::Schema).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::field::{Error, Path};
use crate::pattern::Pattern;

/// The place of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// The highest cost of all patterns of a schema: they fit into what is kept of compiled ones, and take less than a second.
const PATTERNS: u64 = 480_000;

/// The patterns of a schema, each once.
fn patterns(schema: &Value) -> BTreeSet<&str> {
    let (mut found, mut rest) = (BTreeSet::new(), vec![schema]);
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(members) => {
                found.extend(members.get("pattern").and_then(Value::as_str));
                rest.extend(members.values());
            }
            Value::Array(items) => rest.extend(items),
            _ => {}
        }
    }
    found
}

/// Findings, sorted by their text.
pub(super) fn validate(schema: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete(schema, Some(schema), path, path, &mut errors);
    let cost = patterns(schema).into_iter().filter_map(|pattern| Pattern::check(pattern).ok()).fold(0, u64::saturating_add);
    if cost > PATTERNS {
        let words = format!("its patterns cost {cost} to compile, {PATTERNS} at most: repeat large sets less often");
        errors.push(Error::forbidden(path, words));
    }
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// The members of `properties` and the like.
pub(super) fn members<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(key).and_then(Value::as_object).into_iter().flatten()
}

fn is_true(schema: &Value, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

fn kind(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn filled<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    schema.get(key).filter(|value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty() || !matches!(key, "properties"),
        Value::Bool(flag) => *flag || key == "additionalProperties",
        Value::Number(_) => true,
    })
}

fn items<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn invariants(schema: &Value, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let item_schema = filled(schema, "items");
    if kind(schema) == "array" && item_schema.is_none() {
        errors.push(Error::required(&path.child("items"), "must be specified"));
    }
    if let Some(item_schema) = item_schema.filter(|items| items.is_object()) {
        invariants(item_schema, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in members(schema, "properties") {
        invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    // `additionalProperties: false` is as good as none.
    let additional = filled(schema, "additionalProperties").filter(|additional| **additional != Value::Bool(false));
    if let Some(additional) = additional {
        let field = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(&field, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &field, errors);
        }
    }
    let int_or_string = is_true(schema, "x-kubernetes-int-or-string");
    let preserve = is_true(schema, "x-kubernetes-preserve-unknown-fields");
    let embedded = is_true(schema, "x-kubernetes-embedded-resource");
    for (flag, key) in [(preserve, "x-kubernetes-preserve-unknown-fields"), (embedded, "x-kubernetes-embedded-resource")] {
        if int_or_string && flag {
            errors.push(Error::invalid(&path.child(key), true, "must be false if x-kubernetes-int-or-string is true"));
        }
    }
    let first_all_of = items(schema, "allOf").first();
    let skip = Skip { any_of: is_int_or_string(schema), first_all_of: first_all_of.is_some_and(is_int_or_string) };
    values(schema, skip, path, errors);

    let type_field = path.child("type");
    if embedded && kind(schema) != "object" {
        let words = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind(schema) {
            "" => Error::required(&type_field, words),
            kind => Error::invalid(&type_field, kind, words),
        });
    } else if kind(schema).is_empty() && !int_or_string && !preserve {
        let words = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(Error::required(&type_field, words));
    }
    if embedded && additional.is_some() {
        errors.push(Error::forbidden(&path.child("additionalProperties"), "must not be used if x-kubernetes-embedded-resource is set"));
    }
    if level == Level::Root && !kind(schema).is_empty() && kind(schema) != "object" {
        errors.push(Error::invalid(&type_field, kind(schema), "must be object at the root"));
    }
    metadata(schema, level, embedded, path, errors);
    if embedded && !preserve && filled(schema, "properties").is_none() {
        errors.push(Error::required(
            &path.child("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// apiVersion, kind and metadata of objects are Kubernetes' own.
fn metadata(schema: &Value, level: Level, embedded: bool, path: &Path, errors: &mut Vec<Error>) {
    let properties = &schema["properties"];
    let checked = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = properties.get(name).filter(|property| checked && kind(property) != "string") {
            errors.push(Error::invalid(&path.child("properties").key(name).child("type"), kind(property), "must be string"));
        }
    }
    let Some(metadata) = properties.get("metadata") else {
        return;
    };
    let field = path.child("properties").key("metadata");
    if checked && kind(metadata) != "object" {
        errors.push(Error::invalid(&field.child("type"), kind(metadata), "must be object"));
    }
    if level == Level::Root {
        let only_names = members(metadata, "properties").all(|(name, _)| name == "name" || name == "generateName");
        let nothing_else = metadata.as_object().is_none_or(|map| {
            map.keys().all(|key| matches!(key.as_str(), "type" | "default" | "properties") || filled(metadata, key).is_none())
        });
        if !only_names || !nothing_else {
            errors.push(Error::forbidden(
                &field,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
}

/// The one shape of logic that may state types: integer or string.
fn is_int_or_string(schema: &Value) -> bool {
    let only_type = |schema: &Value, kind: &str| {
        schema.as_object().is_some_and(|map| map.len() == 1 && map.get("type").is_some_and(|given| given == kind))
    };
    matches!(items(schema, "anyOf"), [integer, string] if only_type(integer, "integer") && only_type(string, "string"))
}

/// Alternatives that are the integer-or-string shape and so are let through.
#[derive(Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    first_all_of: bool,
}

fn values(schema: &Value, skip: Skip, path: &Path, errors: &mut Vec<Error>) {
    if !skip.any_of {
        for (index, alternative) in items(schema, "anyOf").iter().enumerate() {
            nested(alternative, Skip::default(), path.child("anyOf").index(index), errors);
        }
    }
    for (index, part) in items(schema, "allOf").iter().enumerate() {
        let skip = Skip { any_of: skip.first_all_of && index == 0, first_all_of: false };
        nested(part, skip, path.child("allOf").index(index), errors);
    }
    for (index, alternative) in items(schema, "oneOf").iter().enumerate() {
        nested(alternative, Skip::default(), path.child("oneOf").index(index), errors);
    }
    if let Some(not) = filled(schema, "not") {
        nested(not, Skip::default(), path.child("not"), errors);
    }
    if let Some(pattern) = filled(schema, "pattern").and_then(Value::as_str)
        && let Err(problem) = Pattern::check(pattern)
    {
        errors.push(Error::invalid(&path.child("pattern"), pattern, format!("must be a valid regular expression, but isn't: {problem}")));
    }
}

/// Keywords that may not stand inside logic, with the finding for each.
const FORBIDDEN: &[(&str, &str)] = &[
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

#[allow(clippy::needless_pass_by_value, reason = "callers make the path for this call")]
fn nested(schema: &Value, skip: Skip, path: Path, errors: &mut Vec<Error>) {
    values(schema, skip, &path, errors);
    if let Some(item_schema) = filled(schema, "items").filter(|items| items.is_object()) {
        nested(item_schema, Skip::default(), path.child("items"), errors);
    }
    for (name, property) in members(schema, "properties") {
        nested(property, Skip::default(), path.child("properties").key(name), errors);
    }
    for (key, words) in FORBIDDEN {
        if filled(schema, key).is_some() {
            errors.push(Error::forbidden(&path.child(key), *words));
        }
    }
    if schema.pointer("/properties/metadata").is_some() {
        errors.push(Error::forbidden(&path.child("properties").key("metadata"), "must not be specified in a nested context"));
    }
}

/// Whatever logic speaks of must exist outside of it.
fn complete(logic: &Value, structure: Option<&Value>, structure_path: &Path, logic_path: &Path, errors: &mut Vec<Error>) {
    if let Some(not) = filled(logic, "not") {
        complete_nested(not, structure, structure_path, &logic_path.child("not"), errors);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, part) in items(logic, key).iter().enumerate() {
            complete_nested(part, structure, structure_path, &logic_path.child(key).index(index), errors);
        }
    }
}

fn complete_nested(logic: &Value, structure: Option<&Value>, structure_path: &Path, logic_path: &Path, errors: &mut Vec<Error>) {
    let Some(structure) = structure else {
        errors.push(Error::required(structure_path, format!("because it is defined in {logic_path}")));
        return;
    };
    complete(logic, Some(structure), structure_path, logic_path, errors);
    if let Some(item_schema) = filled(logic, "items") {
        complete_nested(item_schema, filled(structure, "items"), &structure_path.child("items"), &logic_path.child("items"), errors);
    }
    let empty = Map::new();
    let declared = structure["properties"].as_object().unwrap_or(&empty);
    for (name, property) in members(logic, "properties") {
        let structure_path = structure_path.child("properties").key(name);
        let logic_path = logic_path.child("properties").key(name);
        match declared.get(name) {
            None => errors.push(Error::required(&structure_path, format!("because it is defined in {logic_path}"))),
            Some(structure) => complete_nested(property, Some(structure), &structure_path, &logic_path, errors),
        }
    }
}
