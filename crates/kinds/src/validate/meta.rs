//! Metadata: the names of each kind, labels, annotations, owners, finalizers; the fields that an update may not change.

use mainstay_schema::field::{BadValue, Error, Path, go_json};
use serde_json::{Value, json};

use super::{Errors, all_invalid, flag, has, int, labels, list, map, names, text};
use crate::{Gvk, registry};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The rule that the names of a kind follow.
#[derive(Clone, Copy, PartialEq)]
enum NameRule {
    Subdomain,
    /// The same in other words, and not of a prefix.
    LongName,
    Label,
    Label1035,
    PathSegment,
    Address,
    /// `VERSION.GROUP` of what an APIService says.
    VersionAndGroup,
    /// No rule of the kind's own: only the rules of the registry for every name.
    Any,
}

fn rule(gvk: &Gvk) -> NameRule {
    match gvk.group_kind() {
        ("", "Service") => NameRule::Label1035,
        ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
        ("apiregistration.k8s.io", _) => NameRule::VersionAndGroup,
        ("certificates.k8s.io", _) => NameRule::Any,
        ("networking.k8s.io", "IPAddress") => NameRule::Address,
        ("resource.k8s.io", "DeviceClass") => NameRule::LongName,
        ("", "Namespace") | ("apps", "StatefulSet") => NameRule::Label,
        _ => NameRule::Subdomain,
    }
}

fn name_messages(rule: NameRule, object: &Value, name: &str, prefix: bool) -> Vec<String> {
    let masked = if prefix { names::mask_trailing_dash(name) } else { name.to_owned() };
    match rule {
        NameRule::Subdomain => names::subdomain(&masked),
        NameRule::LongName if prefix => Vec::new(),
        NameRule::LongName => names::subdomain(name).into_iter().map(|words| words.replace("253 characters", "253 bytes")).collect(),
        NameRule::Label => names::label(&masked),
        NameRule::Label1035 => names::label_1035(&masked),
        NameRule::PathSegment => names::path_segment(name),
        NameRule::Address => names::canonical_ip(name),
        NameRule::VersionAndGroup => {
            let messages = names::path_segment(name);
            let of = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
            let wanted = format!("{}.{}", of("/spec/version"), of("/spec/group"));
            if messages.is_empty() && name != wanted {
                vec![format!("must be `spec.version+\".\"+spec.group`: {}", mainstay_golang::quote(&wanted))]
            } else {
                messages
            }
        }
        NameRule::Any => Vec::new(),
    }
}

pub(super) fn create(gvk: &Gvk, object: &Value) -> Errors {
    let namespaced = registry().resource_of_kind(gvk).is_some_and(|resource| resource.namespaced);
    let rule = rule(gvk);
    let mut errors = of_create(object, namespaced, has_core_finalizers(gvk), &|name, prefix| name_messages(rule, object, name, prefix));
    // A Job without labels has those of its template, of which they are told.
    if gvk.group_kind() == ("batch", "Job") && object.pointer("/metadata/labels") == object.pointer("/spec/template/metadata/labels") {
        errors.retain(|error| error.field.as_str() != "metadata.labels");
    }
    errors
}

/// Findings of the registry about the metadata of every new object, once the kind has nothing against it.
pub(super) fn create_in_registry(gvk: &Gvk, object: &Value) -> Errors {
    let namespaced = registry().resource_of_kind(gvk).is_some_and(|resource| resource.namespaced);
    of_create(object, namespaced, false, &|name, _| names::path_segment(name))
}

/// Findings about the metadata of a new object of any kind, with names that are RFC 1123 subdomains: for custom resources.
pub fn validate_metadata(object: &Value, namespaced: bool) -> Vec<Error> {
    of_create(object, namespaced, false, &|name, prefix| name_messages(NameRule::Subdomain, object, name, prefix))
}

/// Findings about the metadata of a changed object of any kind.
pub fn validate_metadata_update(new: &Value, old: &Value) -> Vec<Error> {
    update(new, old)
}

fn of_create(object: &Value, namespaced: bool, core_finalizers: bool, messages: &dyn Fn(&str, bool) -> Vec<String>) -> Errors {
    let path = Path::new("metadata");
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let mut errors = Vec::new();
    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        errors.extend(all_invalid(&path.child("generateName"), prefix, messages(prefix, true)));
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), "name or generateName is required"));
    } else {
        errors.extend(all_invalid(&path.child("name"), name, messages(name, false)));
    }
    let namespace = text(metadata, "namespace");
    if namespaced {
        if namespace.is_empty() {
            errors.push(Error::required(&path.child("namespace"), ""));
        } else {
            errors.extend(all_invalid(&path.child("namespace"), namespace, names::label(namespace)));
        }
    } else if !namespace.is_empty() {
        errors.push(Error::forbidden(&path.child("namespace"), "not allowed on this type"));
    }
    errors.extend(super::not_negative(metadata, "generation", &path));
    errors.extend(common(metadata, &path));
    errors.extend(finalizers(metadata, &path));
    if core_finalizers {
        errors.extend(unqualified_finalizers(metadata, &path));
    }
    errors
}

fn common(metadata: &Value, path: &Path) -> Errors {
    let mut errors = labels::labels(map(metadata, "labels"), &path.child("labels"));
    errors.extend(annotations(map(metadata, "annotations"), &path.child("annotations")));
    errors.extend(owners(metadata, &path.child("ownerReferences")));
    errors
}

pub(super) fn annotations(annotations: Option<&serde_json::Map<String, Value>>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.into_iter().flatten() {
        errors.extend(all_invalid(path, key, names::qualified(&key.to_lowercase())));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(Error::too_long(path, "", ANNOTATIONS_LIMIT as u64));
    }
    errors
}

fn owners(metadata: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in list(metadata, "ownerReferences") {
        let version = text(owner, "apiVersion");
        if version.is_empty() || version.ends_with('/') {
            errors.push(Error::invalid(&path.child("apiVersion"), version, "version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                errors.push(Error::invalid(&path.child(field), text(owner, field), "must not be empty"));
            }
        }
        if version == "v1" && text(owner, "kind") == "Event" {
            errors.push(Error::invalid(path, go_owner(owner), "/v1, Kind=Event is disallowed from being an owner"));
        }
        if flag(owner, "controller") {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                Some(first) => {
                    let words =
                        format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}");
                    errors.push(Error::invalid(path, go_owners(metadata), words));
                }
                None => controller = Some(this),
            }
        }
    }
    errors
}

fn finalizers(metadata: &Value, path: &Path) -> Errors {
    let path = path.child("finalizers");
    let given = super::texts(metadata, "finalizers");
    let mut errors: Errors = given.iter().flat_map(|finalizer| all_invalid(&path, finalizer, names::qualified(finalizer))).collect();
    if given.contains(&"orphan") && given.contains(&"foregroundDeletion") {
        let words = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(Error::invalid(&path, json!(given), words));
    }
    errors
}

fn unqualified_finalizers(metadata: &Value, path: &Path) -> Errors {
    let words = "name is neither a standard finalizer name nor is it fully qualified";
    super::texts(metadata, "finalizers")
        .iter()
        .enumerate()
        .filter(|(_, finalizer)| !finalizer.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(*finalizer))
        .map(|(index, finalizer)| Error::invalid(&path.child("finalizers").index(index), *finalizer, words))
        .collect()
}

/// Returns true if the finalizers of a kind must be standard or qualified.
fn has_core_finalizers(gvk: &Gvk) -> bool {
    !matches!(
        gvk.group.as_str(),
        "admissionregistration.k8s.io" | "apiextensions.k8s.io" | "apiregistration.k8s.io" | "coordination.k8s.io" | "node.k8s.io"
    )
}

/// Findings of the registry about every change, before the kind does: as for a new object and as for a change.
pub(super) fn of_registry(gvk: &Gvk, new: &Value, old: &Value) -> Errors {
    let namespaced = registry().resource_of_kind(gvk).is_some_and(|resource| resource.namespaced);
    let mut errors = of_create(new, namespaced, false, &|name, _| names::path_segment(name));
    errors.extend(update(new, old));
    errors
}

/// Findings of a kind about changed metadata.
pub(super) fn update_of_kind(gvk: &Gvk, new: &Value, old: &Value) -> Errors {
    let mut errors = update(new, old);
    if has_core_finalizers(gvk) {
        errors.extend(unqualified_finalizers(new.get("metadata").unwrap_or(&Value::Null), &Path::new("metadata")));
    }
    errors
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let path = Path::new("metadata");
    let (new, old) = (new.get("metadata").unwrap_or(&Value::Null), old.get("metadata").unwrap_or(&Value::Null));
    let mut errors = Vec::new();
    if has(old, "deletionTimestamp") {
        let before = super::texts(old, "finalizers");
        let more: Vec<String> = super::texts(new, "finalizers")
            .into_iter()
            .filter(|finalizer| !before.contains(finalizer))
            .map(mainstay_golang::quote)
            .collect();
        if !more.is_empty() {
            let words = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                more.join(", ")
            );
            errors.push(Error::forbidden(&path.child("finalizers"), words));
        }
    }
    if int(new, "generation").unwrap_or(0) < int(old, "generation").unwrap_or(0) {
        errors.push(Error::invalid(&path.child("generation"), new.get("generation"), "must not be decremented"));
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        // Fields that an update does not say are filled in from the stored object before this.
        if has(new, field) && new.get(field) != old.get(field) {
            errors.push(Error::invalid(&path.child(field), new.get(field), "field is immutable"));
        }
    }
    errors.extend(common(new, &path));
    errors
}

/// An owner reference as Go writes its struct.
fn go_owners(metadata: &Value) -> BadValue {
    let all: Vec<String> = list(metadata, "ownerReferences").iter().map(go_owner_text).collect();
    BadValue::Json(format!("[{}]", all.join(",")))
}

fn go_owner(owner: &Value) -> BadValue {
    BadValue::Json(go_owner_text(owner))
}

fn go_owner_text(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let always = |field: &str| matches!(field, "apiVersion" | "kind" | "name" | "uid");
    let member = |field: &&str| match owner.get(*field) {
        Some(value) => Some(format!("{field:?}:{}", go_json(value))),
        None => always(field).then(|| format!("{field:?}:\"\"")),
    };
    format!("{{{}}}", fields.iter().filter_map(member).collect::<Vec<_>>().join(","))
}
