//! The plans for claims and volumes: pure functions of claims, volumes and classes (KAPI-WL-01).

use kube::api::DynamicObject;
use mainstay_kinds::quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::events::Event;
use crate::object::{Object, Read as _, items, selects};

/// The provisioner of simulated volumes.
pub const PROVISIONER: &str = "simulated.mainstay.dev";
/// The provisioner of classes whose volumes are created by hand.
const NONE: &str = "kubernetes.io/no-provisioner";
/// The node that the scheduler chose for the first pod of a claim.
pub const SELECTED: &str = "volume.kubernetes.io/selected-node";
const BOUND: &str = "pv.kubernetes.io/bind-completed";
const BY_US: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED: &str = "pv.kubernetes.io/provisioned-by";
const OF: [&str; 2] = ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"];
/// The older form of `spec.storageClassName`.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The plan for a claim.
#[derive(Debug, PartialEq)]
pub enum ForClaim {
    /// The claim waits in this phase.
    Wait(&'static str, Option<Event>),
    /// A volume is created for the claim.
    Provision(Value),
    /// An external provisioner is asked: the claim gets annotations.
    Ask(Map<String, Value>, Event),
    /// The claim and this volume are bound to each other.
    Bind(Object),
}

/// The plan for a volume.
#[derive(Debug, PartialEq)]
pub enum ForVolume {
    /// The volume is in this phase, with a message if there is a problem.
    Phase(&'static str, Option<Event>),
    /// The volume is deleted: its claim is gone, and its policy says so.
    Delete,
}

/// Returns the class of a claim or volume.
pub fn class(object: &DynamicObject) -> &str {
    object.annotation(CLASS).unwrap_or_else(|| object.text("/spec/storageClassName"))
}

fn refers(volume: &DynamicObject, claim: &DynamicObject) -> bool {
    let reference = volume.at("/spec/claimRef");
    let uid = reference["uid"].as_str().unwrap_or_default();
    reference["name"] == claim.name() && reference["namespace"] == claim.namespace() && (uid.is_empty() || uid == claim.uid())
}

/// Decides about a claim. `volumes` are all volumes; `found` is its class, if that exists.
pub fn claim(claim: &DynamicObject, volumes: &[Object], found: Option<&DynamicObject>) -> ForClaim {
    let named = claim.text("/spec/volumeName");
    if !named.is_empty() {
        let bound = claim.annotation(BOUND).is_some();
        return match volumes.iter().find(|volume| volume.name() == named) {
            Some(volume) if volume.at("/spec/claimRef").is_null() || refers(volume, claim) => ForClaim::Bind(volume.clone()),
            Some(_) if bound => lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly".to_owned()),
            Some(_) => {
                let message = format!("volume {named:?} already bound to a different claim.");
                ForClaim::Wait("Pending", Some(Event::warning("FailedBinding", message)))
            }
            None if bound => lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on this volume is lost!".to_owned()),
            None => ForClaim::Wait("Pending", None),
        };
    }
    let pinned = volumes.iter().find(|volume| !volume.at("/spec/claimRef").is_null() && refers(volume, claim) && !volume.deleting());
    if let Some(volume) = pinned {
        return ForClaim::Bind(volume.clone());
    }
    let waits = found.is_some_and(|class| class.text("/volumeBindingMode") == "WaitForFirstConsumer");
    let selected = claim.annotation(SELECTED);
    if waits && selected.is_none() {
        let message = "waiting for first consumer to be created before binding";
        return ForClaim::Wait("Pending", Some(Event::normal("WaitForFirstConsumer", message)));
    }
    if let Some(volume) = best(claim, volumes) {
        return ForClaim::Bind(volume.clone());
    }
    let name = class(claim);
    if name.is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return ForClaim::Wait("Pending", Some(Event::normal("FailedBinding", message)));
    }
    let Some(found) = found else {
        let message = format!("storageclass.storage.k8s.io {name:?} not found");
        return ForClaim::Wait("Pending", Some(Event::warning("ProvisioningFailed", message)));
    };
    match found.text("/provisioner") {
        PROVISIONER => ForClaim::Provision(provisioned(claim, found)),
        NONE => {
            let message = "no persistent volumes available for this claim and its class makes none";
            ForClaim::Wait("Pending", Some(Event::normal("FailedBinding", message)))
        }
        other => {
            let message = format!(
                "Waiting for a volume to be created either by the external provisioner '{other}' or manually by the system administrator. \
                 If volume creation is delayed, please verify that the provisioner is running and correctly registered."
            );
            let annotations = OF.iter().map(|key| ((*key).to_owned(), json!(other))).collect();
            ForClaim::Ask(annotations, Event::normal("ExternalProvisioning", message))
        }
    }
}

fn lost(reason: &'static str, message: String) -> ForClaim {
    ForClaim::Wait("Lost", Some(Event::warning(reason, message)))
}

fn amount(list: &Value) -> i128 {
    list["storage"].as_str().and_then(|text| Quantity::parse(text).ok()).map_or(0, Quantity::to_milli)
}

/// Returns the smallest volume that is free and meets the claim.
fn best<'a>(claim: &DynamicObject, volumes: &'a [Object]) -> Option<&'a Object> {
    let wanted = amount(claim.at("/spec/resources/requests"));
    let mode = |object: &DynamicObject| match object.text("/spec/volumeMode") {
        "" => "Filesystem".to_owned(),
        mode => mode.to_owned(),
    };
    let selector = claim.at("/spec/selector");
    let selected = |volume: &DynamicObject| {
        let empty = selector["matchLabels"].is_null() && selector["matchExpressions"].is_null();
        empty || selects(selector, volume.labels())
    };
    let fits = |volume: &&Object| {
        volume.at("/spec/claimRef").is_null()
            && !volume.deleting()
            && matches!(volume.text("/status/phase"), "" | "Pending" | "Available")
            && class(volume) == class(claim)
            && mode(volume) == mode(claim)
            && amount(volume.at("/spec/capacity")) >= wanted
            && items(claim, "/spec/accessModes").all(|mode| items(volume, "/spec/accessModes").any(|own| own == mode))
            && selected(volume)
    };
    volumes.iter().filter(fits).min_by_key(|volume| (amount(volume.at("/spec/capacity")), volume.name().to_owned()))
}

/// Builds a volume of the simulated provisioner, which stores no data.
fn provisioned(claim: &DynamicObject, class: &DynamicObject) -> Value {
    let mode = if claim.text("/spec/volumeMode").is_empty() { "Filesystem" } else { claim.text("/spec/volumeMode") };
    let policy = if class.text("/reclaimPolicy").is_empty() { "Delete" } else { class.text("/reclaimPolicy") };
    let name = format!("pvc-{}", claim.uid());
    let mut spec = json!({
        "capacity": {"storage": claim.at("/spec/resources/requests/storage")},
        "accessModes": claim.at("/spec/accessModes"),
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": class.name(),
        "volumeMode": mode,
        "claimRef": reference(claim),
        "csi": {"driver": PROVISIONER, "volumeHandle": name},
    });
    if class.at("/mountOptions").is_array() {
        spec["mountOptions"] = class.at("/mountOptions").clone();
    }
    json!({"metadata": {"name": name, "annotations": {PROVISIONED: PROVISIONER}}, "spec": spec})
}

/// Returns the reference of a volume to its claim.
pub fn reference(claim: &DynamicObject) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name(), "uid": claim.uid(),
        "apiVersion": "v1", "resourceVersion": claim.metadata.resource_version,
    })
}

/// Returns the merge patch that binds a volume to a claim; `None` if it is bound already.
pub fn bind_volume(volume: &DynamicObject, claim: &DynamicObject) -> Option<Value> {
    if volume.text("/spec/claimRef/uid") == claim.uid() {
        return None;
    }
    let mut patch = json!({
        "metadata": {"uid": volume.uid(), "resourceVersion": volume.metadata.resource_version},
        "spec": {"claimRef": reference(claim)},
    });
    if volume.at("/spec/claimRef").is_null() {
        patch["metadata"]["annotations"] = json!({BY_US: "yes"});
    }
    Some(patch)
}

/// Returns the merge patch that binds a claim to a volume; `None` if it is bound already.
pub fn bind_claim(claim: &DynamicObject, volume: &DynamicObject) -> Option<Value> {
    let named = claim.text("/spec/volumeName") == volume.name();
    if named && claim.annotation(BOUND).is_some() {
        return None;
    }
    let mut annotations = json!({BOUND: "yes"});
    if !named {
        annotations[BY_US] = json!("yes");
    }
    Some(json!({
        "metadata": {"uid": claim.uid(), "resourceVersion": claim.metadata.resource_version, "annotations": annotations},
        "spec": {"volumeName": volume.name()},
    }))
}

/// Returns the status of a bound claim.
pub fn bound_status(claim: &DynamicObject, volume: &DynamicObject) -> Value {
    let mut status = claim.at("/status").as_object().cloned().unwrap_or_default();
    status.insert("phase".into(), json!("Bound"));
    status.insert("accessModes".into(), volume.at("/spec/accessModes").clone());
    status.insert("capacity".into(), volume.at("/spec/capacity").clone());
    Value::Object(status)
}

/// Decides about a volume; `claims` finds a claim by namespace and name.
pub fn volume(volume: &DynamicObject, claims: impl Fn(&str, &str) -> Option<Object>) -> ForVolume {
    let reference = volume.at("/spec/claimRef");
    let text = |name: &str| reference[name].as_str().unwrap_or_default();
    if text("uid").is_empty() {
        // The volume is free, or reserved for a claim that is not bound to it yet.
        return ForVolume::Phase("Available", None);
    }
    let claim = claims(text("namespace"), text("name")).filter(|claim| claim.uid() == text("uid"));
    if let Some(claim) = claim {
        let mine = claim.text("/spec/volumeName") == volume.name();
        let before = volume.text("/status/phase");
        return ForVolume::Phase(if mine || before == "Bound" { "Bound" } else { "Available" }, None);
    }
    match volume.text("/spec/persistentVolumeReclaimPolicy") {
        "Delete" if volume.annotation(PROVISIONED) == Some(PROVISIONER) => ForVolume::Delete,
        "Delete" if volume.annotation(PROVISIONED).is_some() || !volume.at("/spec/csi").is_null() => ForVolume::Phase("Released", None),
        "Delete" => {
            let message = format!("error getting deleter volume plugin for volume {:?}: no deletable volume plugin matched", volume.name());
            ForVolume::Phase("Failed", Some(Event::warning("VolumeFailedDelete", message)))
        }
        "Recycle" => ForVolume::Phase("Failed", Some(Event::warning("VolumeFailedRecycle", "No recycler plugin found for the volume!"))),
        _ => ForVolume::Phase("Released", None),
    }
}

/// Returns the names of the claims that a pod uses, including its ephemeral ones.
pub fn claims_of(pod: &DynamicObject) -> Vec<String> {
    let of = |volume: &Value| match volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str) {
        Some(name) => Some(name.to_owned()),
        None => volume["ephemeral"].is_object().then(|| format!("{}-{}", pod.name(), volume["name"].as_str().unwrap_or_default())),
    };
    items(pod, "/spec/volumes").filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use std::sync::Arc;

    use super::*;

    fn object(value: Value) -> Object {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn pvc(spec: Value, annotations: Value) -> Object {
        let mut whole = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "c"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object(json!({"metadata": {"name": "data", "namespace": "n", "uid": "u", "annotations": annotations}, "spec": whole}))
    }

    fn pv(name: &str, size: &str, spec: Value, phase: &str) -> Object {
        let mut whole = json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": size}, "storageClassName": "c"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object(json!({"metadata": {"name": name, "uid": name}, "spec": whole, "status": {"phase": phase}}))
    }

    fn storage_class(provisioner: &str, mode: &str) -> Object {
        object(json!({"metadata": {"name": "c"}, "provisioner": provisioner, "volumeBindingMode": mode}))
    }

    fn shown(step: &ForClaim) -> String {
        match step {
            ForClaim::Wait(phase, event) => format!("{phase} {}", event.as_ref().map_or("", |event| event.reason)).trim_end().to_owned(),
            ForClaim::Provision(volume) => format!("provision {}", volume["metadata"]["name"].as_str().unwrap()),
            ForClaim::Ask(..) => "ask".to_owned(),
            ForClaim::Bind(volume) => format!("bind {}", volume.name()),
        }
    }

    /// KAPI-WL-01: static and dynamic binding, at once and for the first consumer.
    #[test]
    fn claims_get_volumes() {
        let sizes = [
            pv("small", "1Gi", json!({}), "Available"),
            pv("large", "50Gi", json!({}), "Available"),
            pv("right", "5Gi", json!({}), "Available"),
        ];
        let mine = json!({"claimRef": {"namespace": "n", "name": "data"}});
        let others = json!({"claimRef": {"namespace": "n", "name": "other", "uid": "o"}});
        let (now, later) = (storage_class(PROVISIONER, "Immediate"), storage_class(PROVISIONER, "WaitForFirstConsumer"));
        let (foreign, by_hand) = (storage_class("example.com/disk", "Immediate"), storage_class(NONE, "Immediate"));
        let done = json!({BOUND: "yes"});
        let none: &[Object] = &[];
        let cases: [(&str, Value, Value, Vec<Object>, Option<&Object>, &str); 15] = [
            ("smallest that fits", json!({}), json!({}), sizes.to_vec(), Some(&now), "bind right"),
            (
                "more modes than it has",
                json!({"accessModes": ["ReadWriteMany"]}),
                json!({}),
                sizes.to_vec(),
                Some(&by_hand),
                "Pending FailedBinding",
            ),
            ("other volume mode", json!({"volumeMode": "Block"}), json!({}), sizes.to_vec(), Some(&by_hand), "Pending FailedBinding"),
            (
                "labels",
                json!({"selector": {"matchLabels": {"a": "b"}}}),
                json!({}),
                sizes.to_vec(),
                Some(&by_hand),
                "Pending FailedBinding",
            ),
            ("kept for it", json!({}), json!({}), vec![pv("kept", "1Gi", mine, "Available")], Some(&later), "bind kept"),
            ("somebody's", json!({}), json!({}), vec![pv("taken", "9Gi", others.clone(), "Bound")], Some(&now), "provision pvc-u"),
            ("made", json!({}), json!({}), none.to_vec(), Some(&now), "provision pvc-u"),
            ("waits", json!({}), json!({}), sizes.to_vec(), Some(&later), "Pending WaitForFirstConsumer"),
            ("node chosen", json!({}), json!({SELECTED: "worker-1"}), none.to_vec(), Some(&later), "provision pvc-u"),
            ("no class there", json!({}), json!({}), none.to_vec(), None, "Pending ProvisioningFailed"),
            ("no class asked", json!({"storageClassName": ""}), json!({}), none.to_vec(), None, "Pending FailedBinding"),
            ("another provisioner", json!({}), json!({}), none.to_vec(), Some(&foreign), "ask"),
            ("named", json!({"volumeName": "small"}), json!({}), sizes.to_vec(), Some(&now), "bind small"),
            (
                "named and taken",
                json!({"volumeName": "taken"}),
                json!({}),
                vec![pv("taken", "9Gi", others, "Bound")],
                Some(&now),
                "Pending FailedBinding",
            ),
            ("lost", json!({"volumeName": "gone"}), done, none.to_vec(), Some(&now), "Lost ClaimLost"),
        ];
        for (name, spec, annotations, volumes, class, expected) in cases {
            let step = claim(&pvc(spec, annotations), &volumes, class.map(AsRef::as_ref));
            assert_eq!(shown(&step), expected, "{name}");
        }
    }

    /// KAPI-WL-01: phases and reclaim policies of volumes.
    #[test]
    fn volumes_follow_their_claims() {
        let bound = pvc(json!({"volumeName": "v"}), json!({}));
        let claims = |there: bool| {
            let bound = bound.clone();
            move |_: &str, _: &str| there.then(|| bound.clone())
        };
        let of =
            |policy: &str| json!({"claimRef": {"namespace": "n", "name": "data", "uid": "u"}, "persistentVolumeReclaimPolicy": policy});
        let phase = |step: ForVolume| match step {
            ForVolume::Phase(phase, _) => phase,
            ForVolume::Delete => "delete",
        };
        assert_eq!(phase(volume(&pv("v", "1Gi", json!({}), ""), claims(false))), "Available");
        assert_eq!(phase(volume(&pv("v", "1Gi", of("Delete"), ""), claims(true))), "Bound");
        assert_eq!(phase(volume(&pv("v", "1Gi", of("Retain"), "Bound"), claims(false))), "Released");
        assert_eq!(phase(volume(&pv("v", "1Gi", of("Delete"), "Bound"), claims(false))), "Failed");
        let made = provisioned(&bound, &storage_class(PROVISIONER, "Immediate"));
        assert_eq!(phase(volume(&object(made.clone()), claims(true))), "Available");
        assert_eq!(phase(volume(&object(made), claims(false))), "delete");
    }
}
