//! Defaults (KAPI-REST-07, KAPI-REST-08): the values that Kubernetes fills into an object before it looks at it.
//!
//! Defaults belong to types, so one walk along the schema reaches all of them, in pod templates of any kind as in pods. Most are rows of
//! `default/defaults.txt`; those that look at several fields are functions in `rules`.

mod rules;

pub(crate) use rules::entry;

use std::collections::HashMap;
use std::sync::LazyLock;

use mainstay_schema::{Additional, Schema};
use serde_json::{Map, Value};

use crate::encode::{self, Special, go_form, is_struct, short_name, special};
use crate::{Gvk, registry};

/// Fills in the defaults of a built-in kind and brings the object into the form in which Kubernetes writes it. Other kinds stay as they are.
pub fn default(gvk: &Gvk, object: &mut Value) {
    let Some(schema) = registry().schema(gvk) else { return };
    go_form(gvk, object);
    if let Value::Object(map) = object {
        rules::object(gvk, map);
        structure(&schema, map);
    }
    // Fields that defaults have added have always-written fields of their own.
    go_form(gvk, object);
}

/// One row of the table.
struct Row {
    field: &'static str,
    value: Value,
    condition: Condition,
}

enum Condition {
    Always,
    Present(&'static str),
    Absent(&'static str),
    Equals(&'static str, Value),
}

impl Condition {
    fn holds(&self, map: &Map<String, Value>) -> bool {
        match self {
            Self::Always => true,
            Self::Present(field) => map.contains_key(*field),
            Self::Absent(field) => !map.contains_key(*field),
            Self::Equals(field, value) => map.get(*field) == Some(value),
        }
    }
}

static ROWS: LazyLock<HashMap<&'static str, Vec<Row>>> = LazyLock::new(|| {
    let mut rows: HashMap<&'static str, Vec<Row>> = HashMap::new();
    for line in include_str!("default/defaults.txt").lines() {
        // A line that cannot be read is left out here and fails the test below.
        if let Some((name, row)) = read_row(line) {
            rows.entry(name).or_default().push(row);
        }
    }
    rows
});

fn read_row(line: &'static str) -> Option<(&'static str, Row)> {
    if line.starts_with('#') || line.trim().is_empty() {
        return None;
    }
    let (name, rest) = line.split_once(' ')?;
    let (field, rest) = rest.split_once(' ')?;
    let (value, condition) = if let Some((value, field)) = rest.split_once(" unless ") {
        (value, Condition::Absent(field))
    } else if let Some((value, condition)) = rest.split_once(" if ") {
        match condition.split_once(" = ") {
            Some((field, wanted)) => (value, Condition::Equals(field, serde_json::from_str(wanted).ok()?)),
            None => (value, Condition::Present(condition)),
        }
    } else {
        (rest, Condition::Always)
    };
    Some((name, Row { field, value: serde_json::from_str(value).ok()?, condition }))
}

fn walk(schema: &Schema, value: &mut Value) {
    if special(schema) != Special::None {
        return;
    }
    match value {
        Value::Object(map) if is_struct(schema) => structure(schema, map),
        Value::Object(map) => {
            if let Additional::Schema(inner) = &schema.additional {
                if special(inner) == Special::Quantity {
                    rules::resource_list(map);
                }
                map.values_mut().for_each(|child| walk(inner, child));
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &schema.items {
                for item in items {
                    walk(inner, item);
                }
            }
        }
        _ => {}
    }
}

fn structure(schema: &Schema, map: &mut Map<String, Value>) {
    let name = short_name(schema.definition.as_deref().unwrap_or_default());
    rules::before(name, map);
    if let Some(rows) = ROWS.get(name) {
        for row in rows {
            // A field that is always written stands there with its empty value when it has not been set.
            let declared = schema.properties.get(row.field).and_then(|inner| inner.default.as_ref()).filter(|value| value.is_string());
            // A row may also say which value counts as none.
            let stands_for_none =
                matches!(&row.condition, Condition::Equals(field, none) if *field == row.field && map.get(*field) == Some(none));
            let unset = stands_for_none || map.get(row.field).is_none_or(|value| Some(value) == declared);
            if unset && row.condition.holds(map) {
                map.insert(row.field.to_owned(), row.value.clone());
            }
        }
    }
    rules::after(name, map);
    for (field, inner) in &schema.properties {
        if let Some(child) = map.get_mut(field) {
            walk(inner, child);
            continue;
        }
        // The few defaults that the documents declare themselves.
        if let Some(declared) = &inner.default
            && !encode::is_zero(declared)
        {
            map.insert(field.clone(), declared.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_read_and_names_a_known_field() {
        for line in include_str!("default/defaults.txt").lines() {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let Some((name, row)) = read_row(line) else { panic!("not a row: {line}") };
            let schema = ["io.k8s.api.", "io.k8s.apiextensions-apiserver.pkg.apis.", "io.k8s.kube-aggregator.pkg.apis."]
                .iter()
                .find_map(|prefix| registry().definition(&format!("{prefix}{name}")));
            let Some(schema) = schema else { panic!("unknown type: {line}") };
            assert!(schema.properties.contains_key(row.field), "unknown field: {line}");
        }
    }
}
