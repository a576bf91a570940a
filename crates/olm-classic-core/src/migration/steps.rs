//! The steps of a migration, of which each can be repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use mainstay_objects::{Expect, ObjectRef, Patch, Propagation, Step, Until};
use serde_json::{Map, Value, json};

use crate::overview::text;

/// The label of the copies of permissions that hold during a migration; its value is the name of the extension.
pub const COPY_LABEL: &str = "lifecycle.mainstay.dev/migration";
/// Prefixes of the labels by which OLM classic knows its objects.
const CLASSIC_LABELS: [&str; 3] = ["olm.", "operators.coreos.com/", "olm-"];
/// Labels of OLM classic that objects keep: they say what an object is, not whose.
const KEPT_LABELS: [&str; 1] = ["olm.managed"];
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const CSV: &str = "ClusterServiceVersion";

/// The steps before anything is deleted: the CSV's clean-up is switched off, and copies of its permissions are made.
pub fn prepare(csv: &Value, owned: &[Value], extension: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    if csv["spec"]["cleanup"]["enabled"] == true {
        let patch = json!({"metadata": {"uid": csv["metadata"]["uid"]}, "spec": {"cleanup": {"enabled": false}}});
        steps.push(Step::Patch { object: reference(csv), subresource: String::new(), patch: Patch::Merge(patch) });
    }
    // Roles before the bindings that name them.
    let (roles, bindings): (Vec<_>, Vec<_>) = copies(owned, extension).into_iter().partition(|copy| copy.get("roleRef").is_none());
    steps.extend(roles.into_iter().chain(bindings).map(Step::CreateOnce));
    steps
}

/// Copies of the roles and bindings among these objects, under names that OLM classic does not know.
pub fn copies(owned: &[Value], extension: &str) -> Vec<Value> {
    let is_permission =
        |object: &&Value| matches!(object["kind"].as_str(), Some("Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding"));
    let permissions: Vec<&Value> = owned.iter().filter(is_permission).collect();
    let renamed = |object: &Value| format!("{extension}-migration-{}", text(&object["metadata"]["uid"]));
    let names: BTreeMap<(String, String, String), String> = permissions
        .iter()
        .map(|object| {
            let place = reference(object);
            ((place.kind, place.namespace, place.name), renamed(object))
        })
        .collect();
    let copy = |object: &&Value| {
        let mut copy = json!({"apiVersion": RBAC, "kind": object["kind"],
            "metadata": {"name": renamed(object), "labels": {COPY_LABEL: extension}}});
        let namespace = text(&object["metadata"]["namespace"]);
        if !namespace.is_empty() {
            copy["metadata"]["namespace"] = namespace.clone().into();
        }
        for field in ["rules", "subjects", "roleRef"] {
            if !object[field].is_null() {
                copy[field] = object[field].clone();
            }
        }
        let role = &object["roleRef"];
        let space = if role["kind"] == "Role" { namespace } else { String::new() };
        if let Some(name) = names.get(&(text(&role["kind"]), space, text(&role["name"]))) {
            copy["roleRef"]["name"] = name.clone().into();
        }
        copy
    };
    permissions.iter().map(copy).collect()
}

/// The steps that stop OLM classic: the Subscription goes, then the CSV; the CSV's objects stay.
pub fn stop(subscription: &Value, csv: &Value, limit: Duration) -> Vec<Step> {
    let delete = |object: &Value, propagation| {
        let (place, expect) = (reference(object), Expect { uid: uid(object), ..Expect::default() });
        [Step::Delete { object: place.clone(), expect, propagation }, Step::Wait { object: place, until: Until::Gone, timeout: limit }]
    };
    [delete(subscription, Propagation::Background), delete(csv, Propagation::Orphan)].concat()
}

/// The steps that make live objects the extension's: owner references to CSVs and OLM classic's labels go, the extension's labels come.
pub fn adopt(live: &[Value], labels: &[(String, String)]) -> Vec<Step> {
    let step = |object: &Value| {
        let patch = released(object, labels)?;
        Some(Step::Patch { object: reference(object), subresource: String::new(), patch: Patch::Merge(patch) })
    };
    live.iter().filter_map(step).collect()
}

/// The merge patch that takes an object from OLM classic and sets these labels; none if it is as it should be.
pub fn released(object: &Value, labels: &[(String, String)]) -> Option<Value> {
    let mut changed = Map::new();
    for key in object["metadata"]["labels"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if CLASSIC_LABELS.iter().any(|prefix| key.starts_with(prefix)) && !KEPT_LABELS.contains(&key.as_str()) && !is_v1(key) {
            changed.insert(key.clone(), Value::Null);
        }
    }
    for (key, value) in labels {
        if object["metadata"]["labels"][key] != value.as_str() {
            changed.insert(key.clone(), value.as_str().into());
        }
    }
    let owners = || object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let kept: Vec<&Value> = owners().filter(|owner| owner["kind"] != CSV).collect();
    let mut metadata = Map::new();
    if kept.len() != owners().count() {
        metadata.insert("ownerReferences".to_owned(), if kept.is_empty() { Value::Null } else { json!(kept) });
    }
    if !changed.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(changed));
    }
    if metadata.is_empty() {
        return None;
    }
    metadata.insert("uid".to_owned(), object["metadata"]["uid"].clone());
    metadata.insert("resourceVersion".to_owned(), object["metadata"]["resourceVersion"].clone());
    Some(json!({ "metadata": metadata }))
}

/// The steps that take annotations off live objects which the extension's rendering brought and which were not there before: with them, issuers of
/// certificates would go on and contend with OLM classic for the same Secrets and CA bundles.
pub fn unannotate(live: &[Value], rendered: &[Value], before: &[Value]) -> Vec<Step> {
    let step = |object: &Value| {
        let place = reference(object);
        let of = |all: &'_ [Value]| {
            let found = all.iter().find(|one| reference(one).same(&place));
            found.map(|one| one["metadata"]["annotations"].as_object().cloned().unwrap_or_default())
        };
        let (brought, former) = (of(rendered)?, of(before)?);
        let is_new = |key: &&String| !former.contains_key(*key) && !object["metadata"]["annotations"][key.as_str()].is_null();
        let gone: Map<String, Value> = brought.keys().filter(is_new).map(|key| (key.clone(), Value::Null)).collect();
        let patch = json!({"metadata": {"uid": object["metadata"]["uid"], "annotations": gone}});
        (!gone.is_empty()).then(|| Step::Patch { object: place, subresource: String::new(), patch: Patch::Merge(patch) })
    };
    live.iter().filter_map(step).collect()
}

/// Returns true for the labels of OLM v1, which begin alike.
fn is_v1(key: &str) -> bool {
    key.starts_with("olm.operatorframework.io/")
}

/// The steps that remove what is left over: objects that the extension does not have, then the copies of the permissions. An object of another
/// uid is somebody else's.
pub fn clear(left: &[&Value], copies: &[Value]) -> Vec<Step> {
    let all = left.iter().copied().chain(copies);
    let delete = |object: &Value| Step::Delete {
        object: reference(object),
        expect: Expect { uid: uid(object), ..Expect::default() },
        propagation: Propagation::Background,
    };
    // Bindings before the roles that they name.
    let (bindings, others): (Vec<&Value>, Vec<&Value>) = all.partition(|object| object.get("roleRef").is_some());
    bindings.into_iter().chain(others).map(delete).collect()
}

/// Returns true if OLM classic made the object and may have it removed. CRDs are never removed: custom resources go with them.
pub fn is_made_by_classic(object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    object["kind"] != "CustomResourceDefinition" && (labels["olm.managed"] == "true" || !labels["olm.owner"].is_null())
}

/// The reference to an object.
pub fn reference(object: &Value) -> ObjectRef {
    ObjectRef {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: text(&object["metadata"]["namespace"]),
        name: text(&object["metadata"]["name"]),
    }
}

fn uid(object: &Value) -> Option<String> {
    object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()).map(str::to_owned)
}
