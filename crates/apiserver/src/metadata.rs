//! Validation of `metadata`, the same for every kind (KAPI-REST-01).

use mainstay_schema::field::{Error, Path};
use mainstay_schema::names;
use serde_json::Value;

use crate::object::{meta, meta_list};

/// What is wrong with the metadata of a new object.
pub fn validate(value: &Value, namespaced: bool) -> Vec<Error> {
    let path = Path::new("metadata");
    let mut errors = Vec::new();
    let (name, generate) = (meta(value, "name"), meta(value, "generateName"));
    if !generate.is_empty() {
        // The prefix of a name may end in a dash.
        let prefix = generate.trim_end_matches('-');
        for wrong in names::dns1123_subdomain(if prefix.is_empty() { "-" } else { prefix }) {
            errors.push(Error::invalid(&path.child("generateName"), generate, wrong));
        }
    }
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), "name or generateName is required"));
    } else {
        for wrong in names::dns1123_subdomain(name) {
            errors.push(Error::invalid(&path.child("name"), name, wrong));
        }
    }
    if namespaced && meta(value, "namespace").is_empty() {
        errors.push(Error::required(&path.child("namespace"), ""));
    }
    common(value, &path, &mut errors);
    errors
}

fn common(value: &Value, path: &Path, errors: &mut Vec<Error>) {
    let metadata = &value["metadata"];
    mainstay_schema::metadata::labels(metadata.get("labels"), &path.child("labels"), errors);
    mainstay_schema::metadata::annotations(metadata.get("annotations"), &path.child("annotations"), errors);
    for (index, reference) in metadata["ownerReferences"].as_array().into_iter().flatten().enumerate() {
        let path = path.child("ownerReferences").index(index);
        for (field, why) in [("apiVersion", "version must not be empty"), ("kind", "must not be empty"), ("name", "must not be empty"), ("uid", "must not be empty")] {
            if reference[field].as_str().unwrap_or_default().is_empty() {
                errors.push(Error::invalid(&path.child(field), reference[field].as_str().unwrap_or_default(), why));
            }
        }
    }
    let controllers = metadata["ownerReferences"].as_array().into_iter().flatten().filter(|one| one["controller"] == true).count();
    if controllers > 1 {
        errors.push(Error::invalid(
            &path.child("ownerReferences"),
            metadata.get("ownerReferences"),
            "Only one reference can have Controller set to true",
        ));
    }
    for (index, finalizer) in meta_list(value, "finalizers").iter().enumerate() {
        let list = path.child("finalizers");
        for wrong in names::qualified_name(finalizer) {
            errors.push(Error::invalid(&list, finalizer, wrong));
        }
        let standard = matches!(finalizer.as_str(), "foregroundDeletion" | "orphan" | "kubernetes");
        if !finalizer.contains('/') && !standard {
            errors.push(Error::invalid(
                &list.index(index),
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
}

/// What is wrong with the metadata of a changed object.
pub fn validate_update(new: &Value, old: &Value, _namespaced: bool) -> Vec<Error> {
    let path = Path::new("metadata");
    let mut errors = Vec::new();
    common(new, &path, &mut errors);
    if !meta(old, "deletionTimestamp").is_empty() {
        let before = meta_list(old, "finalizers");
        let added: Vec<String> = meta_list(new, "finalizers").into_iter().filter(|one| !before.contains(one)).collect();
        if !added.is_empty() {
            let shown = added.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ");
            errors.push(Error::forbidden(
                &path.child("finalizers"),
                format!("no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"),
            ));
        }
    }
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        if meta(new, field) != meta(old, field) {
            errors.push(Error::invalid(&path.child(field), meta(new, field), "field is immutable"));
        }
    }
    errors
}
