//! Field-level differences between two objects, for plans and people. Items of associative lists are matched by their keys.

use std::collections::BTreeSet;

use mainstay_schema::Schema;
use serde_json::Value;

use crate::fieldset::{Path, PathElement, equal};
use crate::typed::{Comparison, Node};

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Path of the field, e.g. `.spec.containers[name="c"].image`.
    pub path: String,
    /// The live value; `None` if the field is absent.
    pub from: Option<Value>,
    /// The wanted value; `None` if the field is removed.
    pub to: Option<Value>,
}

/// Returns the differences between `live` and `wanted`. A subtree that is new or gone is one change.
///
/// `metadata.managedFields`, `resourceVersion`, `generation`, `uid`, `creationTimestamp` are left out: they are never wanted.
pub fn diff(live: &Value, wanted: &Value, schema: &Schema) -> Vec<FieldChange> {
    let node = Node::object(schema);
    let comparison = node.compare(live, wanted);
    changes(&comparison, live, wanted, schema)
}

fn changes(comparison: &Comparison, live: &Value, wanted: &Value, schema: &Schema) -> Vec<FieldChange> {
    let node = Node::object(schema);
    let mut out = Vec::new();
    let mut paths: BTreeSet<Path> = comparison.modified.paths().into_iter().collect();
    // Of a new or gone subtree only its top: the longest prefix that the other side still has.
    for path in comparison.added.paths() {
        paths.insert(top(node, live, path));
    }
    for path in comparison.removed.paths() {
        paths.insert(top(node, wanted, path));
    }
    for path in paths {
        if is_system(&path) {
            continue;
        }
        let from = node.at(live, &path.0).cloned();
        let to = node.at(wanted, &path.0).cloned();
        if !matches!((&from, &to), (Some(from), Some(to)) if equal(from, to)) {
            out.push(FieldChange { path: path.to_string(), from, to });
        }
    }
    out
}

fn top(node: Node<'_>, without: &Value, path: Path) -> Path {
    for length in 1..path.0.len() {
        if node.at(without, &path.0[..length]).is_none() {
            return Path(path.0[..length].to_vec());
        }
    }
    path
}

fn is_system(path: &Path) -> bool {
    let name = |index: usize| match path.0.get(index) {
        Some(PathElement::Field(name)) => name.as_str(),
        _ => "",
    };
    name(0) == "metadata"
        && matches!(name(1), "managedFields" | "resourceVersion" | "generation" | "uid" | "creationTimestamp" | "selfLink")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn names_fields_as_people_do() {
        let schema = Schema::from_json(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "integer"},
            "containers": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "image": {"type": "string"}}}}
        }}}}))
        .unwrap();
        let live = json!({"metadata": {"name": "x", "resourceVersion": "1"}, "spec": {"n": 1, "containers": [
            {"name": "a", "image": "i:1"}, {"name": "gone", "image": "i:1"}]}});
        let wanted = json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "new", "image": "i:3"}, {"name": "a", "image": "i:2"}]}});
        let found: Vec<String> = diff(&live, &wanted, &schema)
            .into_iter()
            .map(|change| {
                let text = |value: Option<Value>| value.map_or_else(|| "nothing".to_owned(), |value| value.to_string());
                format!("{}: {} -> {}", change.path, text(change.from), text(change.to))
            })
            .collect();
        assert_eq!(
            found,
            [
                ".metadata.labels: nothing -> {\"a\":\"b\"}",
                ".spec.containers[name=\"a\"].image: \"i:1\" -> \"i:2\"",
                ".spec.containers[name=\"gone\"]: {\"image\":\"i:1\",\"name\":\"gone\"} -> nothing",
                ".spec.containers[name=\"new\"]: nothing -> {\"image\":\"i:3\",\"name\":\"new\"}",
                ".spec.n: 1 -> nothing",
            ]
        );
    }
}
