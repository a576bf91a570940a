//! Volumes, claims and classes.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_schema::field::{Error, Path};
use serde_json::{Map, Value, json};

use super::{Errors, all_invalid, has, internal, labels, list, map, names, one_of_if_set, text, texts, unified, volumes};
use crate::quantity::Quantity;

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn amount(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

pub(super) fn access_modes(spec: &Value, path: &Path) -> Errors {
    let modes = texts(spec, "accessModes");
    let path = path.child("accessModes");
    let mut errors: Errors =
        modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)).map(|mode| Error::not_supported(&path, *mode, ACCESS_MODES)).collect();
    let others = modes.iter().any(|mode| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode));
    if modes.contains(&"ReadWriteOncePod") && others {
        errors.push(Error::forbidden(&path, "may not use ReadWriteOncePod with other access modes"));
    }
    errors
}

pub(super) fn positive_storage(value: &Value, path: &Path) -> Errors {
    if amount(value).is_some_and(|amount| amount <= Quantity::ZERO) {
        vec![Error::invalid(path, value, "must be greater than zero")]
    } else {
        Vec::new()
    }
}

pub(super) fn claim(object: &Value) -> Errors {
    claim_spec(object.get("spec").unwrap_or(&Value::Null), &Path::new("spec"))
}

pub(super) fn claim_spec(spec: &Value, path: &Path) -> Errors {
    claim_rules(spec, None, path)
}

/// The rules for a changed claim.
pub(super) fn claim_again(new: &Value, old: &Value) -> Errors {
    claim_rules(new.get("spec").unwrap_or(&Value::Null), old.get("spec"), &Path::new("spec"))
}

fn claim_rules(spec: &Value, before: Option<&Value>, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if list(spec, "accessModes").is_empty() {
        errors.push(Error::required(&path.child("accessModes"), "at least 1 access mode is required"));
    }
    errors.extend(labels::selector(spec.get("selector"), &path.child("selector")));
    errors.extend(access_modes(spec, path));
    let own = path.child("resources").key("storage");
    match spec.pointer("/resources/requests/storage") {
        None => errors.push(Error::required(&own, "")),
        Some(storage) => errors.extend(positive_storage(storage, &own)),
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.extend(all_invalid(&path.child("storageClassName"), class, names::subdomain(class)));
    }
    errors.extend(one_of_if_set(spec, "volumeMode", path, &["Block", "Filesystem"]));
    errors.extend(data_sources(spec, before, path));
    let class = text(spec, "volumeAttributesClassName");
    if !class.is_empty() {
        errors.extend(all_invalid(&path.child("volumeAttributesClassName"), class, names::subdomain(class)));
    }
    errors
}

/// Findings about the source of a claim's data, which stands in two fields: they must say the same.
fn data_sources(spec: &Value, before: Option<&Value>, path: &Path) -> Errors {
    let of = |field: &str| spec.get(field).filter(|source| !source.is_null());
    let known = |before: &Value| {
        ["dataSource", "dataSourceRef"].iter().any(|field| before.get(*field).is_some_and(|source| has(source, "apiGroup")))
    };
    // Groups that were taken once stay.
    let any_group = before.is_some_and(known);
    let mut errors = Vec::new();
    for field in ["dataSource", "dataSourceRef"] {
        let Some(source) = of(field) else { continue };
        let path = path.child(field);
        for member in ["name", "kind"] {
            errors.extend(volumes::required(source, member, &path));
        }
        let (group, kind, namespace) = (text(source, "apiGroup"), text(source, "kind"), text(source, "namespace"));
        if group.is_empty() && kind != "PersistentVolumeClaim" {
            errors.push(Error::invalid(&path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"));
        }
        if !group.is_empty() && !any_group {
            errors.extend(all_invalid(&path.child("apiGroup"), group, names::subdomain(group)));
        }
        if field == "dataSourceRef" && !namespace.is_empty() {
            errors.extend(all_invalid(&path.child("namespace"), namespace, names::label(namespace)));
        }
    }
    if let (Some(older), Some(newer)) = (of("dataSource"), of("dataSourceRef")) {
        // Kubernetes shows the path itself, which has no member that JSON would write.
        let told = |words: &str| Error::invalid(path, json!({}), words);
        let same = ["name", "kind"].iter().all(|field| text(older, field) == text(newer, field))
            && older.get("apiGroup").filter(|group| !group.is_null()) == newer.get("apiGroup").filter(|group| !group.is_null());
        if !text(newer, "namespace").is_empty() {
            errors.push(told("may not be specified when dataSourceRef.namespace is specified"));
        } else if !same {
            errors.push(told("must match dataSourceRef"));
        }
    }
    errors
}

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn claim_update(new: &Value, old: &Value) -> Errors {
    let path = Path::new("spec");
    let null = Value::Null;
    let (spec, before) = (new.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    let class = |object: &Value| {
        object.pointer("/metadata/annotations").and_then(|all| all.get(BETA_CLASS)).and_then(Value::as_str).map(str::to_owned)
    };
    let (annotated, annotated_now) = (class(old), class(new));
    let (named, named_now) = (before.get("storageClassName").and_then(Value::as_str), spec.get("storageClassName").and_then(Value::as_str));
    let bound = new.pointer("/status/phase").and_then(Value::as_str) == Some("Bound");
    let mut errors = Vec::new();
    let (mut masked, mut known) = (spec.clone(), before.clone());
    // The binder names the volume, once.
    if text(before, "volumeName").is_empty()
        && let Value::Object(known) = &mut known
    {
        put(known, "volumeName", spec.get("volumeName"));
    }
    if let Value::Object(masked) = &mut masked {
        // A class may move from the annotation into its field, or be set if there was none.
        let moved = annotated.is_some()
            && named.is_none()
            && named_now == annotated.as_deref()
            && annotated_now.as_deref().is_none_or(|now| Some(now) == annotated.as_deref());
        if moved {
            masked.remove("storageClassName");
        } else {
            if annotated != annotated_now {
                let path = Path::new("metadata").child("annotations").key(BETA_CLASS);
                errors.push(Error::invalid(&path, annotated_now.clone().unwrap_or_default(), "field is immutable"));
            }
            if named.is_none() && named_now.is_some() && annotated.as_deref().is_none_or(|class| Some(class) == named_now) {
                masked.remove("storageClassName");
            }
        }
        // Owners of bound claims ask for more room and for other attributes.
        if bound {
            if let Some(Value::Object(requests)) = masked.get_mut("resources").and_then(|resources| resources.get_mut("requests")) {
                put(requests, "storage", before.pointer("/resources/requests/storage"));
            }
            put(masked, "volumeAttributesClassName", before.get("volumeAttributesClassName"));
        }
    }
    if masked != known {
        let words = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        let lines = |spec: &Value| internal::lines("PersistentVolumeClaimSpec", spec);
        errors.push(Error::forbidden(&path, format!("{words}\n{}", unified::unified(&lines(&known), &lines(&masked)))));
    }
    let size = |pointer: &str, object: &Value| object.pointer(pointer).and_then(amount).unwrap_or(Quantity::ZERO);
    let asked = size("/resources/requests/storage", spec);
    if asked < size("/resources/requests/storage", before) && asked <= size("/status/capacity/storage", old) {
        let words = "field can not be less than status.capacity";
        errors.push(Error::forbidden(&path.children(&["resources", "requests", "storage"]), words));
    }
    if spec.get("volumeMode") != before.get("volumeMode") {
        errors.push(Error::invalid(&Path::new("volumeMode"), spec.get("volumeMode"), "field is immutable"));
    }
    let attributes = spec.get("volumeAttributesClassName");
    if attributes != before.get("volumeAttributesClassName") && old.pointer("/status/currentVolumeAttributesClassName").is_some() {
        let path = path.child("volumeAttributesClassName");
        let to = match attributes.and_then(Value::as_str) {
            None => Some("nil"),
            Some("") => Some("empty string"),
            Some(_) => None,
        };
        errors.extend(to.map(|to| {
            Error::forbidden(&path, format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"))
        }));
    }
    errors
}

fn put(map: &mut Map<String, Value>, field: &str, value: Option<&Value>) {
    match value {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

/// Findings about the provisioner of a class: a qualified name, whose case counts for nothing.
pub(super) fn provisioner(name: &str, path: &Path) -> Errors {
    if name.is_empty() {
        return vec![Error::required(path, "")];
    }
    let name = name.to_lowercase();
    all_invalid(path, &name, names::qualified(&name))
}

/// Findings about the parameters of a class for its provisioner.
pub(super) fn parameters(object: &Value, may_be_empty: bool) -> Errors {
    const MOST: usize = 512;
    const LONGEST: usize = 256 * 1024;
    let path = Path::new("parameters");
    let given = map(object, "parameters");
    let count = given.map_or(0, serde_json::Map::len);
    let mut errors = Vec::new();
    if count == 0 && !may_be_empty {
        errors.push(Error::required(&path, "must contain at least one key/value pair"));
    }
    if count > MOST {
        errors.push(Error::too_long(&path, "Provisioner Parameters exceeded max allowed", MOST as u64));
        return errors;
    }
    let mut size = 0;
    for (key, value) in given.into_iter().flatten() {
        if key.is_empty() {
            errors.push(Error::invalid(&path, key, "field can not be empty."));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > LONGEST {
        errors.push(Error::too_long(&path, "", LONGEST as u64));
    }
    errors
}

pub(super) fn class(object: &Value) -> Errors {
    let mut errors = provisioner(text(object, "provisioner"), &Path::new("provisioner"));
    errors.extend(parameters(object, true));
    if !text(object, "reclaimPolicy").is_empty() {
        errors.extend(one_of_if_set(object, "reclaimPolicy", &Path::root(), &["Delete", "Retain"]));
    }
    if has(object, "volumeBindingMode") {
        errors.extend(one_of_if_set(object, "volumeBindingMode", &Path::root(), &["Immediate", "WaitForFirstConsumer"]));
    } else {
        errors.push(Error::required(&Path::new("volumeBindingMode"), ""));
    }
    errors.extend(topologies(list(object, "allowedTopologies"), &Path::new("allowedTopologies")));
    errors
}

/// Findings about the topologies in which volumes of a class may be made: each place once.
fn topologies(given: &[Value], path: &Path) -> Errors {
    let mut errors = Vec::new();
    // Kubernetes begins with as many places that say nothing as there are terms, so that a term that says nothing repeats them all.
    let mut seen = vec![BTreeMap::new(); given.len()];
    for (index, topology) in given.iter().enumerate() {
        let path = path.index(index).child("matchLabelExpressions");
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (at, expression) in list(topology, "matchLabelExpressions").iter().enumerate() {
            let path = path.index(at);
            let among = texts(expression, "values");
            if among.is_empty() {
                errors.push(Error::required(&path.child("values"), ""));
            }
            for (number, value) in among.iter().enumerate().filter(|(number, value)| among[..*number].contains(value)) {
                errors.push(Error::duplicate(&path.child("values").index(number), *value));
            }
            let key = text(expression, "key");
            errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
            if values.insert(key, among.into_iter().collect()).is_some() {
                errors.push(Error::duplicate(&path.child("key"), key));
            }
        }
        errors.extend(seen.iter().filter(|earlier| **earlier == values).map(|_| Error::duplicate(&path, "")));
        seen.push(values);
    }
    errors
}

pub(super) fn class_update(new: &Value, old: &Value) -> Errors {
    ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]
        .into_iter()
        .flat_map(|field| super::misc::immutable(new, old, &[field]))
        .collect()
}
