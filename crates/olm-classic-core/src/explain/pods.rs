//! Evidence of an operator's pods besides its status: whether a program runs in them at all (OLM0-USER-13), and whether the annotations
//! of their namespace steer them (OLM0-ADMIN-44).

use std::collections::BTreeSet;

use jiff::Timestamp;
use mainstay_kinds::placement::{PROJECT_SELECTOR, Placement, SELECTOR, TOLERATIONS};
use serde_json::Value;

use super::{string, timestamp};
use crate::overview::condition;

/// The beginning of the ID of a container that no process stands behind.
const SIMULATED: &str = "simulated:";

/// Says that an operator is simulated, and which images would act.
pub fn simulated(pods: &[Value]) -> Option<String> {
    let mut images = BTreeSet::new();
    for status in pods.iter().flat_map(|pod| pod["status"]["containerStatuses"].as_array().into_iter().flatten()) {
        let runs = status["state"]["running"].is_object();
        if runs && status["containerID"].as_str().is_some_and(|id| id.starts_with(SIMULATED)) {
            images.insert(status["image"].as_str().unwrap_or_default());
        }
    }
    let first = images.iter().next()?;
    let (list, verb) = (images.iter().copied().collect::<Vec<_>>().join(", "), if images.len() == 1 { "image" } else { "images" });
    Some(format!(
        "the operator is simulated: its pods run on simulated nodes, so its custom resources are not reconciled. {verb} {list} would act: \
         mainstay up --run-image '{first}=PROGRAM' runs a program of this machine in its place"
    ))
}

/// The obstacle to a pod: no node takes it, or what its containers wait for.
pub fn obstacle(pod: &Value) -> Option<String> {
    let unscheduled = condition(&pod["status"], "PodScheduled").filter(|condition| condition["status"] == "False");
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let waiting = statuses.map(|status| &status["state"]["waiting"]).filter(|waiting| waiting["reason"] != "ContainerCreating");
    let says: Vec<String> = unscheduled
        .into_iter()
        .chain(waiting)
        .filter_map(|each| {
            let (reason, message) = (each["reason"].as_str()?, each["message"].as_str().unwrap_or_default());
            Some(if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") })
        })
        .collect();
    (!says.is_empty()).then(|| says.join("; "))
}

/// The label selector of a Deployment's pods, as kubectl takes it; none if labels alone do not say it.
pub fn selector(deployment: &Value) -> Option<String> {
    let labels = deployment["spec"]["selector"]["matchLabels"].as_object()?;
    let pairs: Option<Vec<String>> = labels.iter().map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    pairs.filter(|pairs| !pairs.is_empty()).map(|pairs| pairs.join(","))
}

/// Says that annotations of the namespace have no effect on the pods of an operator, or not yet.
pub fn placement(namespace: &Value, pods: &[Value]) -> Vec<String> {
    let name = string(namespace, "/metadata/name");
    let placement = match Placement::of(namespace) {
        Ok(placement) => placement,
        Err(refusal) => return vec![format!("{refusal}; where the annotation counts, it refuses every new pod")],
    };
    let selector = if namespace["metadata"]["annotations"][SELECTOR].is_string() { SELECTOR } else { PROJECT_SELECTOR };
    let mut notes = Vec::new();
    let unselected = |pod: &&Value| placement.selector.iter().any(|(key, value)| pod["spec"]["nodeSelector"][key] != value.as_str());
    let list = |pod: &Value| pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let untolerated = |pod: &&Value| {
        // A wider toleration of the pod's own may have taken the place of one.
        let own = list(pod);
        placement
            .tolerations
            .iter()
            .any(|wanted| !own.iter().any(|one| one == wanted || (one["key"] == wanted["key"] && one["operator"] == "Exists")))
    };
    let found = [(selector, pods.iter().find(unselected)), (TOLERATIONS, pods.iter().find(untolerated))];
    for (annotation, pod) in found.into_iter().filter_map(|(annotation, pod)| Some((annotation, pod?))) {
        let pod_name = string(pod, "/metadata/name");
        let older =
            written(namespace, annotation).zip(timestamp(&pod["metadata"]["creationTimestamp"])).is_some_and(|(at, made)| made <= at);
        notes.push(if older {
            format!("annotation {annotation} of namespace {name} does not concern pod {pod_name}, which is older; a new pod gets what it says")
        } else {
            format!(
                "annotation {annotation} of namespace {name} has no effect: pod {pod_name} was created without it, because this cluster has no \
                 admission step for it; spec.config.nodeSelector and spec.config.tolerations of the subscription place the operator anywhere"
            )
        });
    }
    notes
}

/// Returns the time at which an annotation was last written, as its manager says.
fn written(object: &Value, annotation: &str) -> Option<Timestamp> {
    let managers = object["metadata"]["managedFields"].as_array()?;
    let owns = |one: &&Value| one["fieldsV1"]["f:metadata"]["f:annotations"].get(format!("f:{annotation}")).is_some();
    managers.iter().filter(owns).filter_map(|one| timestamp(&one["time"])).max()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "tables of cases")]
    use serde_json::json;

    use super::*;

    fn pod(id: &str, image: &str) -> Value {
        json!({"status": {"containerStatuses": [{"image": image, "containerID": id, "state": {"running": {}}}]}})
    }

    /// OLM0-USER-13: an operator whose pods are simulated is said to be, with its images; one that runs is not, nor is one that waits.
    #[test]
    fn simulated_operators_are_told() {
        let note =
            simulated(&[pod("simulated://1", "b:1"), pod("simulated://2", "a:1"), pod("process://7-1", "real:1")]).unwrap_or_default();
        assert!(note.contains("images a:1, b:1 would act: mainstay up --run-image 'a:1=PROGRAM'"), "{note}");
        assert_eq!(simulated(&[pod("process://7-1", "real:1"), pod("containerd://8", "real:1")]), None);
        let mut waits = pod("simulated://1", "a:1");
        waits["status"]["containerStatuses"][0]["state"] = json!({"waiting": {}});
        assert_eq!(simulated(&[waits]), None);
        assert_eq!(simulated(&[]), None);
    }

    /// OLM0-ADMIN-06: a pod that no node takes says why, as does one whose image cannot be pulled.
    #[test]
    fn obstacles_of_pods() {
        let message = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";
        let pending =
            json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}});
        assert_eq!(obstacle(&pending), Some(format!("Unschedulable: {message}")));
        let state = |waiting: Value| json!({"status": {"containerStatuses": [{"state": {"waiting": waiting}}]}});
        assert_eq!(obstacle(&state(json!({"reason": "ImagePullBackOff"}))), Some("ImagePullBackOff".to_owned()));
        assert_eq!(obstacle(&state(json!({"reason": "ContainerCreating"}))), None);
        assert_eq!(obstacle(&pod("simulated://1", "a:1")), None);
        let deployment = json!({"spec": {"selector": {"matchLabels": {"app": "a", "tier": "b"}}}});
        assert_eq!(selector(&deployment), Some("app=a,tier=b".to_owned()));
        assert_eq!(selector(&json!({"spec": {"selector": {}}})), None);
    }

    /// OLM0-ADMIN-44: an annotation that a cluster does not heed is said to have no effect; a pod that is older than it is said to be older.
    #[test]
    fn annotations_without_effect_are_told() {
        let annotations = json!({PROJECT_SELECTOR: "kind=operators", TOLERATIONS: "[{\"key\": \"myoperator\", \"operator\": \"Exists\"}]"});
        let fields = json!({"f:metadata": {"f:annotations": {format!("f:{PROJECT_SELECTOR}"): {}, format!("f:{TOLERATIONS}"): {}}}});
        let namespace = json!({"metadata": {"name": "team", "annotations": annotations, "managedFields": [{"time": "2026-01-01T10:00:00Z", "fieldsV1": fields}]}});
        let pod = |created: &str, spec: Value| json!({"metadata": {"name": "p", "creationTimestamp": created}, "spec": spec});
        let placed = json!({"nodeSelector": {"kind": "operators"}, "tolerations": [{"key": "myoperator", "operator": "Exists"}]});
        assert_eq!(placement(&namespace, &[pod("2026-01-01T11:00:00Z", placed)]), Vec::<String>::new());
        let without = placement(&namespace, &[pod("2026-01-01T11:00:00Z", json!({}))]);
        assert_eq!(without.len(), 2);
        for (note, annotation) in without.iter().zip([PROJECT_SELECTOR, TOLERATIONS]) {
            assert!(
                note.starts_with(&format!("annotation {annotation} of namespace team has no effect: pod p was created without it")),
                "{note}"
            );
        }
        let older = placement(&namespace, &[pod("2026-01-01T09:00:00Z", json!({}))]);
        assert!(older.len() == 2 && older.iter().all(|note| note.contains("does not concern pod p, which is older")), "{older:?}");
        assert_eq!(placement(&json!({"metadata": {"name": "team"}}), &[pod("2026-01-01T09:00:00Z", json!({}))]), Vec::<String>::new());
        let broken = placement(&json!({"metadata": {"name": "team", "annotations": {PROJECT_SELECTOR: "x"}}}), &[]);
        assert!(broken[0].contains("cannot be read: \"x\" is not of the form KEY=VALUE"), "{broken:?}");
    }
}
