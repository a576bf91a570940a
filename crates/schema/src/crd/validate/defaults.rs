//! A default must itself follow the schema and hold nothing that pruning would remove.

use serde_json::Value;

use super::super::structural::members;
use crate::field::{Error, Path};
use crate::model::Schema;
use crate::prune;
use crate::validate;

/// Findings about the defaults of a structural schema.
pub(super) fn validate(schema: &Value, path: &Path, pruned: bool) -> Vec<Error> {
    let mut errors = Vec::new();
    node(schema, Place { root: true, in_metadata: false }, path, pruned, &mut errors);
    errors
}

/// Returns true if the schema has a default that pruning would change.
pub(super) fn has_unpruned(schema: &Value) -> bool {
    validate(schema, &Path::root(), true).iter().any(|error| error.detail == UNKNOWN)
}

const UNKNOWN: &str = "must not have unknown fields";

#[derive(Clone, Copy)]
struct Place {
    /// The object's own root, whose apiVersion, kind and metadata are Kubernetes'.
    root: bool,
    /// Below such metadata: pruning there is not the schema's business.
    in_metadata: bool,
}

fn node(schema: &Value, place: Place, path: &Path, pruned: bool, errors: &mut Vec<Error>) {
    let embedded = place.root || schema["x-kubernetes-embedded-resource"] == true;
    let in_metadata = place.in_metadata && !embedded;
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let path = path.child("default");
        // A schema that cannot be read is told by the checks of its keywords.
        if let Ok(mut schema) = Schema::from_json(schema) {
            // The root is an object with a type, too.
            schema.embedded_resource |= place.root;
            if pruned && !in_metadata {
                let mut rest = default.clone();
                let unknown = if embedded { prune::prune(&schema, &mut rest) } else { prune::prune_value(&schema, &mut rest) };
                if !unknown.is_empty() {
                    errors.push(Error::invalid(&path, default, UNKNOWN));
                }
            }
            errors.extend(validate::validate(&schema, default, &path));
        }
    }
    if schema["items"].is_object() {
        node(&schema["items"], Place { root: false, in_metadata }, &path.child("items"), pruned, errors);
    }
    for (name, property) in members(schema, "properties") {
        let place =
            Place { root: false, in_metadata: in_metadata || embedded && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") };
        node(property, place, &path.child("properties").key(name), pruned, errors);
    }
}
