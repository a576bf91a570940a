//! Removal of fields that a schema does not know (KAPI-CRD-02), and the report of them (KAPI-REST-03: `unknown field "spec.x"`).

use serde_json::{Map, Value};

use crate::field::Path;
use crate::metadata;
use crate::model::{Additional, Schema};

/// Prunes a whole object: apiVersion, kind and metadata are known whatever the schema says. Returns the removed fields' paths, sorted.
pub fn prune(schema: &Schema, object: &mut Value) -> Vec<Path> {
    let mut pruner = Pruner::default();
    if let Value::Object(map) = object {
        pruner.object(Some(schema), map, &Place::Root, schema.preserve_unknown_fields, true);
    }
    pruner.finish()
}

/// Prunes a value that is not an object of the API: a default, a part.
pub fn prune_value(schema: &Schema, value: &mut Value) -> Vec<Path> {
    let mut pruner = Pruner::default();
    pruner.value(Some(schema), value, &Place::Root, false);
    pruner.finish()
}

/// Bytes of paths that are named: all unknown fields are removed, and so many are named.
const NAMED_BYTES: usize = 1 << 20;

/// The place of the pruner. A path is written only when it is told: it may be as long as the whole body, and there may be as many.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Child(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn path(&self) -> Path {
        match self {
            Self::Root => Path::root(),
            Self::Child(parent, name) => parent.path().child(name),
            Self::Index(parent, index) => parent.path().index(*index),
        }
    }

    /// The approximate length of the path.
    fn len(&self) -> usize {
        match self {
            Self::Root => 0,
            Self::Child(parent, name) => parent.len() + 1 + name.len(),
            Self::Index(parent, _) => parent.len() + 3,
        }
    }
}

#[derive(Default)]
struct Pruner {
    unknown: Vec<Path>,
    named: usize,
}

impl Pruner {
    fn finish(mut self) -> Vec<Path> {
        self.unknown.sort();
        self.unknown
    }

    fn tell(&mut self, place: Place<'_>) {
        if self.named < NAMED_BYTES {
            self.named += place.len() + 32;
            self.unknown.push(place.path());
        }
    }

    /// `kept`: unknown fields stay here since a list around it preserves them.
    fn value(&mut self, schema: Option<&Schema>, value: &mut Value, path: &Place<'_>, kept: bool) {
        let preserve = kept || schema.is_some_and(preserves);
        match value {
            Value::Object(map) => self.object(schema, map, path, preserve, false),
            Value::Array(items) => {
                let item_schema = schema.and_then(|schema| schema.items.as_deref());
                if preserve && item_schema.is_none() {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate().filter(|(_, item)| item.is_object() || item.is_array()) {
                    self.value(item_schema, item, &Place::Index(path, index), preserve);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, schema: Option<&Schema>, map: &mut Map<String, Value>, path: &Place<'_>, preserve: bool, root: bool) {
        let Some(schema) = schema else {
            for key in map.keys() {
                self.tell(Place::Child(path, key));
            }
            map.clear();
            return;
        };
        let resource = root || schema.embedded_resource;
        map.retain(|key, member| {
            if resource && matches!(key.as_str(), "apiVersion" | "kind") {
                return true;
            }
            if resource && key == "metadata" {
                // Built-in kinds say themselves what their metadata is: ObjectMeta, ListMeta or nothing.
                match schema.properties.get(key).filter(|metadata| metadata.definition.is_some()) {
                    Some(metadata) => self.value(Some(metadata), member, &Place::Child(path, key), false),
                    None => metadata::prune(member, &path.path().child(key), &mut self.unknown),
                }
                return true;
            }
            let nested = member.is_object() || member.is_array();
            if let Some(property) = schema.properties.get(key) {
                if nested {
                    self.value(Some(property), member, &Place::Child(path, key), false);
                }
                return true;
            }
            match &schema.additional {
                Additional::Schema(additional) => {
                    if nested {
                        self.value(Some(additional), member, &Place::Child(path, key), false);
                    }
                    true
                }
                // Upstream keeps the key, but no schema is known below it.
                Additional::Any if !preserve => {
                    if nested {
                        self.value(None, member, &Place::Child(path, key), false);
                    }
                    true
                }
                _ if preserve => true,
                _ => {
                    self.tell(Place::Child(path, key));
                    false
                }
            }
        });
    }
}

/// Returns true if unknown fields stay: said so, or the schema says nothing at all (built-in kinds hold free JSON so; CRDs cannot).
fn preserves(schema: &Schema) -> bool {
    schema.preserve_unknown_fields
        || (schema.kind.is_none()
            && !schema.int_or_string
            && schema.properties.is_empty()
            && schema.items.is_none()
            && matches!(schema.additional, Additional::Unstated))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::json;

    use super::*;

    fn check(schema: &Value, object: &Value, pruned: &Value, unknown: &[&str]) {
        let schema = Schema::from_json(schema).unwrap();
        let mut object = object.clone();
        let found: Vec<String> = prune(&schema, &mut object).iter().map(ToString::to_string).collect();
        assert_eq!(&object, pruned);
        assert_eq!(found, unknown);
    }

    /// KAPI-CRD-02, KAPI-REST-03: unknown fields go, and their paths are told.
    #[test]
    fn unknown_fields_are_removed_and_named() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "l": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"in": {"type": "object", "properties": {}}}},
            "any": {"type": "object", "additionalProperties": true}}}}});
        check(
            &schema,
            &json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "lables": {}, "ownerReferences": [{"name": "x", "odd": 1}]}, "other": 1,
                "spec": {"a": "x", "zz": 1, "l": [{"k": "1"}, {"no": 1}], "m": {"x": {"k": "v", "q": 1}}, "free": {"x": {"y": 1}, "in": {"gone": 1}}, "any": {"a": 1}}}),
            &json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n", "ownerReferences": [{"name": "x"}]},
                "spec": {"a": "x", "l": [{"k": "1"}, {}], "m": {"x": {"k": "v"}}, "free": {"x": {"y": 1}, "in": {}}, "any": {"a": 1}}}),
            &["metadata.lables", "metadata.ownerReferences[0].odd", "other", "spec.free.in.gone", "spec.l[1].no", "spec.m.x.q", "spec.zz"],
        );
    }

    /// KAPI-CRD-02: embedded objects keep apiVersion, kind and ObjectMeta.
    #[test]
    fn embedded_objects_keep_what_every_object_has() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"a": {"type": "string"}}}}});
        check(
            &schema,
            &json!({"spec": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "x", "odd": 1}, "a": "", "b": 1}}),
            &json!({"spec": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "x"}, "a": ""}}),
            &["spec.b", "spec.metadata.odd"],
        );
    }

    /// KAPI-SRV-06: many unknown fields below a long key are all removed, and named within bounds.
    #[test]
    fn long_paths_are_told_within_bounds() {
        let schema = json!({"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "object"}}}});
        let schema = Schema::from_json(&schema).unwrap();
        let fields: Map<String, Value> = (0..50_000).map(|n| (format!("f{n}"), json!({}))).chain([("k".to_owned(), json!({}))]).collect();
        let mut object = json!({"x".repeat(1 << 20): fields});
        let found = prune_value(&schema, &mut object);
        assert_eq!(found.len(), 1);
        assert!(object.as_object().unwrap().values().all(|left| *left == json!({"k": {}})));
    }
}
