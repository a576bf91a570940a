//! The facts about pods that controllers read.

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::object::{Read as _, condition, controller_reference, parse_time};

/// Returns true if a pod has ended, successfully or not.
pub fn finished(pod: &DynamicObject) -> bool {
    matches!(pod.text("/status/phase"), "Succeeded" | "Failed")
}

/// Returns true if a pod counts for its controller: it has neither ended nor is it being deleted.
pub fn active(pod: &DynamicObject) -> bool {
    !finished(pod) && !pod.deleting()
}

/// Returns true if a pod is ready.
pub fn ready(pod: &DynamicObject) -> bool {
    condition(pod.at("/status/conditions"), "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// Returns the time since which a pod is ready.
pub fn ready_since(pod: &DynamicObject) -> Option<Timestamp> {
    let ready = condition(pod.at("/status/conditions"), "Ready").filter(|ready| ready["status"] == "True")?;
    parse_time(&ready["lastTransitionTime"])
}

/// Returns true if a pod has been ready for `min_ready_seconds`.
pub fn available(pod: &DynamicObject, min_ready_seconds: i64, now: Timestamp) -> bool {
    ready(pod)
        && (min_ready_seconds == 0
            || ready_since(pod)
                .is_some_and(|since| since.saturating_add(SignedDuration::from_secs(min_ready_seconds)).is_ok_and(|at| at <= now)))
}

/// Returns the highest restart count of a pod's containers.
pub fn restarts(pod: &DynamicObject) -> i64 {
    let statuses = pod.at("/status/containerStatuses").as_array().into_iter().flatten();
    statuses.filter_map(|status| status["restartCount"].as_i64()).max().unwrap_or_default()
}

/// Builds a pod from a template, for a controller.
pub fn from_template(template: &Value, api_version: &str, kind: &str, owner: &DynamicObject) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{}-", owner.name()),
            "namespace": owner.namespace(),
            "ownerReferences": [controller_reference(api_version, kind, owner)],
        },
        "spec": template.get("spec").cloned().unwrap_or_else(|| json!({})),
    });
    for name in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{name}")).filter(|value| !value.is_null()) {
            pod["metadata"][name] = value.clone();
        }
    }
    pod
}

/// Returns an integer, or a percentage of `total` rounded up or down.
pub fn scaled(value: &Value, total: i64, round_up: bool) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap_or_default(),
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%').and_then(|percent| percent.parse().ok()).unwrap_or_default();
            let product = percent * total;
            if round_up { (product + 99) / 100 } else { product / 100 }
        }
        _ => 0,
    }
}
