//! The plan for a StatefulSet, pod by pod in order (KAPI-WL-01).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use crate::object::{Object, Read as _, controller_reference, items, put};
use crate::pod;
use crate::replicaset::plan::BURST;
use crate::revision::HASH;

/// The label with the pod's own name.
const NAME: &str = "statefulset.kubernetes.io/pod-name";
const INDEX: &str = "apps.kubernetes.io/pod-index";

/// The facts that a decision rests on.
pub struct Facts<'a> {
    /// The StatefulSet.
    pub set: &'a DynamicObject,
    /// Its pods.
    pub pods: &'a [Object],
    /// The name of the revision of the current template.
    pub update: &'a str,
    /// The name of the revision that is fully rolled out.
    pub current: &'a str,
    /// The current time.
    pub now: Timestamp,
}

/// A step of the plan.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// The pod of this ordinal is created, with the update revision or the current one.
    Make {
        /// The ordinal.
        ordinal: i64,
        /// The name of its revision.
        revision: String,
    },
    /// A pod is deleted.
    Delete(Object),
}

/// Returns the ordinal of a pod of this StatefulSet.
pub fn ordinal(set: &DynamicObject, pod: &DynamicObject) -> Option<i64> {
    pod.name().strip_prefix(set.name())?.strip_prefix('-')?.parse().ok()
}

fn wanted(set: &DynamicObject) -> std::ops::Range<i64> {
    let start = set.int("/spec/ordinals/start").unwrap_or_default();
    start..start + set.int("/spec/replicas").unwrap_or(1)
}

fn revision(pod: &DynamicObject) -> &str {
    pod.labels().get(HASH).map(String::as_str).unwrap_or_default()
}

/// Decides the next steps, at most [`BURST`]: their changes wake the controller for the next ones.
pub fn plan(facts: &Facts<'_>) -> Vec<Step> {
    let set = facts.set;
    let ordered = set.text("/spec/podManagementPolicy") != "Parallel";
    let min_ready = set.int("/spec/minReadySeconds").unwrap_or_default();
    let healthy = |pod: &Object| !pod.deleting() && pod::available(pod, min_ready, facts.now);
    let range = wanted(set);
    let partition = set.int("/spec/updateStrategy/rollingUpdate/partition").unwrap_or_default();
    let rolling = set.text("/spec/updateStrategy/type") != "OnDelete";
    let mut by_ordinal: BTreeMap<i64, &Object> = BTreeMap::new();
    for pod in facts.pods {
        if let Some(number) = ordinal(set, pod) {
            by_ordinal.entry(number).or_insert(pod);
        }
    }
    let mut steps = Vec::new();
    for number in range.clone() {
        if steps.len() == BURST {
            return steps;
        }
        let Some(pod) = by_ordinal.get(&number).copied() else {
            let old = rolling && number < partition + range.start;
            let revision = if old { facts.current } else { facts.update };
            steps.push(Step::Make { ordinal: number, revision: revision.to_owned() });
            if ordered {
                return steps;
            }
            continue;
        };
        if pod::finished(pod) && !pod.deleting() {
            steps.push(Step::Delete(pod.clone()));
            if ordered {
                return steps;
            }
            continue;
        }
        if ordered && !healthy(pod) {
            return steps;
        }
    }
    // Surplus pods are deleted, the highest ordinal first. If ordered, they go one at a time, once the pods before them are healthy.
    let mut surplus: Vec<&Object> =
        facts.pods.iter().filter(|pod| ordinal(set, pod).is_none_or(|number| !range.contains(&number))).collect();
    surplus.sort_by_cached_key(|pod| std::cmp::Reverse(ordinal(set, pod)));
    for pod in surplus {
        if steps.len() == BURST {
            return steps;
        }
        if !pod.deleting() {
            steps.push(Step::Delete(pod.clone()));
        }
        if ordered {
            return steps;
        }
    }
    if !steps.is_empty() || !rolling {
        return steps;
    }
    for number in range.clone().rev().take_while(|number| *number >= partition + range.start) {
        let Some(pod) = by_ordinal.get(&number).copied() else { continue };
        if revision(pod) != facts.update && !pod.deleting() {
            return vec![Step::Delete(pod.clone())];
        }
        if !healthy(pod) {
            return Vec::new();
        }
    }
    Vec::new()
}

/// Builds the pod of an ordinal.
pub fn body(set: &DynamicObject, template: &Value, number: i64, revision: &str) -> Value {
    let name = format!("{}-{number}", set.name());
    let mut body = pod::from_template(template, "apps/v1", "StatefulSet", set);
    body["metadata"]["name"] = json!(name);
    for (label, value) in [(NAME, name.as_str()), (HASH, revision), (INDEX, &number.to_string())] {
        body["metadata"]["labels"][label] = json!(value);
    }
    body["spec"]["hostname"] = json!(name);
    if !set.text("/spec/serviceName").is_empty() {
        body["spec"]["subdomain"] = json!(set.text("/spec/serviceName"));
    }
    let mut volumes: Vec<Value> = Vec::new();
    for claim in items(set, "/spec/volumeClaimTemplates") {
        let volume = claim["metadata"]["name"].as_str().unwrap_or_default();
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": format!("{volume}-{name}")}}));
    }
    let own = body["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    // A claim replaces a volume of the same name.
    let kept: Vec<Value> = own.into_iter().filter(|one| !volumes.iter().any(|claim| claim["name"] == one["name"])).collect();
    volumes.extend(kept);
    if !volumes.is_empty() {
        body["spec"]["volumes"] = json!(volumes);
    }
    body
}

/// Returns the claims of an ordinal.
pub fn claims(set: &DynamicObject, number: i64) -> Vec<Value> {
    items(set, "/spec/volumeClaimTemplates")
        .map(|template| {
            let volume = template["metadata"]["name"].as_str().unwrap_or_default();
            let mut claim = json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": format!("{volume}-{}-{number}", set.name()), "namespace": set.namespace()},
                "spec": template["spec"],
            });
            if template["metadata"]["annotations"].is_object() {
                claim["metadata"]["annotations"] = template["metadata"]["annotations"].clone();
            }
            let mut labels = template["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            labels.extend(set.at("/spec/selector/matchLabels").as_object().cloned().unwrap_or_default());
            claim["metadata"]["labels"] = Value::Object(labels);
            claim
        })
        .collect()
}

/// Returns the owners that a claim should have by the retention policy; `None` if it has them. `pod` is the pod of its ordinal.
pub fn owners(set: &DynamicObject, claim: &DynamicObject, pod: &DynamicObject, number: i64) -> Option<Vec<Value>> {
    let deletes = |when: &str| set.at("/spec/persistentVolumeClaimRetentionPolicy")[when] == "Delete";
    let condemned = !wanted(set).contains(&number);
    let present = claim.metadata.owner_references.as_deref().unwrap_or_default();
    let is_set = |owner: &OwnerReference| owner.kind == "StatefulSet" && owner.name == set.name();
    let is_pod = |owner: &OwnerReference| owner.kind == "Pod" && owner.name == pod.name();
    // What belongs to an earlier set or pod of the name is left to the garbage collector.
    if present.iter().any(|owner| is_set(owner) && owner.uid != set.uid() || is_pod(owner) && owner.uid != pod.uid()) {
        return None;
    }
    // Beside another controller nothing is added: an object has one.
    let managed = deletes("whenScaled") || deletes("whenDeleted");
    let foreign = managed && present.iter().any(|owner| !is_set(owner) && !is_pod(owner) && owner.controller == Some(true));
    let with_pod = deletes("whenScaled") && condemned && !foreign;
    let with_set = deletes("whenDeleted") && !(deletes("whenScaled") && condemned) && !foreign;
    let has = |uid: &str| present.iter().any(|owner| owner.uid == uid);
    let controls_not = present.iter().any(|owner| (is_set(owner) || is_pod(owner)) && owner.controller != Some(true));
    if has(set.uid()) == with_set && has(pod.uid()) == with_pod && !controls_not {
        return None;
    }
    let others = present.iter().filter(|owner| !is_set(owner) && !is_pod(owner));
    let mut owners: Vec<Value> = others.map(|owner| json!(owner)).collect();
    if with_set {
        owners.push(controller_reference("apps/v1", "StatefulSet", set));
    }
    if with_pod {
        owners.push(controller_reference("v1", "Pod", pod));
    }
    Some(owners)
}

/// Returns the status; the update revision becomes the current revision once every pod has it and is ready.
pub fn status(facts: &Facts<'_>) -> Value {
    let set = facts.set;
    let min_ready = set.int("/spec/minReadySeconds").unwrap_or_default();
    let living: Vec<&Object> = facts.pods.iter().filter(|pod| ordinal(set, pod).is_some()).collect();
    let number = |of: &dyn Fn(&Object) -> bool| living.iter().filter(|pod| of(pod)).count() as i64;
    let replicas = number(&|_| true);
    let ready = number(&|pod| pod::ready(pod) && !pod.deleting());
    let updated = number(&|pod| revision(pod) == facts.update && !pod.deleting());
    let mut current = number(&|pod| revision(pod) == facts.current && !pod.deleting());
    let mut name = facts.current;
    let range = wanted(set);
    let all = range.end - range.start;
    if updated == all && replicas == all && ready == all {
        name = facts.update;
        current = updated;
    }
    let mut status = Map::new();
    put(&mut status, "observedGeneration", set.metadata.generation.unwrap_or_default());
    status.insert("replicas".into(), json!(replicas));
    put(&mut status, "readyReplicas", ready);
    put(&mut status, "currentReplicas", current);
    put(&mut status, "updatedReplicas", updated);
    status.insert("currentRevision".into(), json!(name));
    status.insert("updateRevision".into(), json!(facts.update));
    status.insert("collisionCount".into(), json!(set.int("/status/collisionCount").unwrap_or_default()));
    let available = number(&|pod| pod::available(pod, min_ready, facts.now) && !pod.deleting());
    status.insert("availableReplicas".into(), json!(available));
    Value::Object(status)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use std::sync::Arc;

    use super::*;

    fn object(value: Value) -> Object {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn set(spec: Value) -> Object {
        let mut whole = json!({"replicas": 3, "template": {}});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object(json!({"metadata": {"name": "s", "uid": "s"}, "spec": whole}))
    }

    /// `+` ready, `-` not; the revision follows.
    fn pods(text: &str) -> Vec<Object> {
        let of = |(number, text): (usize, &str)| {
            let (state, revision) = text.split_at(1);
            let status =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": if state == "+" { "True" } else { "False" }}]});
            let name = format!("s-{number}");
            object(json!({"metadata": {"name": name, "uid": name, "labels": {HASH: revision}}, "spec": {}, "status": status}))
        };
        text.split_whitespace().enumerate().filter(|(_, text)| *text != ".").map(of).collect()
    }

    /// KAPI-WL-01: pods in order, updates from the last to the first, partitions.
    #[test]
    fn steps() {
        let parallel = || json!({"podManagementPolicy": "Parallel"});
        let partition = |at: i64| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": at}}});
        for (name, spec, present, expected) in [
            ("first", json!({}), "", "make 0 new"),
            ("second waits", json!({}), "-new", ""),
            ("second", json!({}), "+new", "make 1 new"),
            ("all at once", parallel(), "-new", "make 1 new, make 2 new"),
            ("a hole is filled first", json!({}), "+new . +new", "make 1 new"),
            ("updated from the end", json!({}), "+old +old +old", "delete s-2"),
            ("waits for what is updated", json!({}), "+old +old -new", ""),
            ("the next", json!({}), "+old +old +new", "delete s-1"),
            ("not beyond the partition", partition(2), "+old +old +new", ""),
            ("old below the partition", partition(2), ". +old +new", "make 0 old"),
            ("by hand", json!({"updateStrategy": {"type": "OnDelete"}}), "+old +old +old", ""),
            ("fewer", json!({"replicas": 1}), "+new +new +new", "delete s-2"),
            ("other numbers", json!({"ordinals": {"start": 1}, "replicas": 2}), ". +new", "make 2 new"),
        ] {
            let (set, pods) = (set(spec), pods(present));
            let facts = Facts { set: &set, pods: &pods, update: "new", current: "old", now: "2026-01-01T00:00:00Z".parse().unwrap() };
            let shown: Vec<String> = plan(&facts)
                .iter()
                .map(|step| match step {
                    Step::Make { ordinal, revision } => format!("make {ordinal} {revision}"),
                    Step::Delete(pod) => format!("delete {}", pod.name()),
                })
                .collect();
            assert_eq!(shown.join(", "), expected, "{name}");
        }
    }

    /// KAPI-WL-01: however many pods are missing or too many, so many are made or deleted in one go, and then the next.
    #[test]
    fn many_steps_are_taken_in_turns() {
        let parallel = |replicas: i64| set(json!({"podManagementPolicy": "Parallel", "replicas": replicas}));
        let present = pods(&"+new ".repeat(BURST + 7));
        let ordinals = |set: &Object, pods: &[Object]| {
            let steps = plan(&Facts { set, pods, update: "new", current: "old", now: "2026-01-01T00:00:00Z".parse().unwrap() });
            let number = |step: &Step| match step {
                Step::Make { ordinal, .. } => *ordinal,
                Step::Delete(pod) => -ordinal(set, pod).unwrap(),
            };
            steps.iter().map(number).collect::<Vec<_>>()
        };
        let burst = BURST as i64;
        assert_eq!(ordinals(&parallel(1_000_000), &[]), (0..burst).collect::<Vec<_>>());
        assert_eq!(ordinals(&parallel(1_000_000), &present), (burst + 7..2 * burst + 7).collect::<Vec<_>>());
        assert_eq!(ordinals(&parallel(burst + 9), &present), [burst + 7, burst + 8]);
        assert_eq!(ordinals(&parallel(0), &present), (7..burst + 7).rev().map(|number| -number).collect::<Vec<_>>());
    }

    /// KAPI-WL-01: whom claims go with.
    #[test]
    fn claims_are_kept_or_not() {
        let owners = |deleted: &str, scaled: &str, number: i64, present: Value| {
            let set = set(json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled}}));
            let claim = object(json!({"metadata": {"name": "c", "ownerReferences": present}}));
            let pod = object(json!({"metadata": {"name": format!("s-{number}"), "uid": "pod"}}));
            let owners = super::owners(&set, &claim, &pod, number)?;
            Some(owners.iter().map(|owner| owner["uid"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" "))
        };
        let owner = |uid: &str, controller: bool| json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": uid, "controller": controller}]);
        let of_set = || owner("s", true);
        let other = || json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o", "controller": true}]);
        assert_eq!(owners("Delete", "Retain", 0, owner("s", false)).as_deref(), Some("s"), "a reference that does not control is repaired");
        assert_eq!(owners("Delete", "Delete", 0, other()), None, "a claim of another owner is left alone");
        assert_eq!(owners("Retain", "Retain", 0, other()), None);
        assert_eq!(owners("Delete", "Retain", 0, owner("earlier", true)), None, "so is that of an earlier set");
        assert_eq!(owners("Retain", "Retain", 0, json!([])), None);
        assert_eq!(owners("Retain", "Retain", 0, of_set()).as_deref(), Some(""));
        assert_eq!(owners("Delete", "Retain", 5, json!([])).as_deref(), Some("s"));
        assert_eq!(owners("Delete", "Retain", 0, of_set()), None);
        assert_eq!(owners("Retain", "Delete", 0, json!([])), None);
        assert_eq!(owners("Delete", "Delete", 3, of_set()).as_deref(), Some("pod"));
    }
}
