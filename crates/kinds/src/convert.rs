//! Objects that are served under two versions: autoscalers (v1 and v2) and events (core and events.k8s.io).
//!
//! Both are stored once. Content that autoscaling/v1 cannot express travels in annotations, as Kubernetes has it.

mod autoscaler;

use serde_json::{Map, Value, json};

use crate::Gvk;
use crate::default::entry;

type Object = Map<String, Value>;

/// Kinds that a stored object can be shown as, beside its own.
pub fn convertible(gvk: &Gvk) -> bool {
    matches!(gvk.group_kind(), ("autoscaling", "HorizontalPodAutoscaler") | ("" | "events.k8s.io", "Event"))
}

/// The version that can say everything, unless it is the object's own: Kubernetes prepares and checks objects in that form.
pub fn hub(gvk: &Gvk) -> Option<Gvk> {
    let autoscaler = gvk.group_kind() == ("autoscaling", "HorizontalPodAutoscaler") && gvk.version == "v1";
    autoscaler.then(|| Gvk::new("autoscaling", "v2", &gvk.kind))
}

/// Reduces what a client wrote to what is left of it after a conversion into the hub's form and back: annotations that carry fields of other
/// versions determine these fields, or are dropped.
pub fn settle(gvk: &Gvk, object: &mut Value) {
    if let Some(hub) = hub(gvk) {
        convert(object, &hub);
        convert(object, gvk);
    } else if gvk.group_kind() == ("autoscaling", "HorizontalPodAutoscaler")
        && let Value::Object(map) = object
    {
        autoscaler::take_annotations(map);
    }
}

/// Turns an object into another version of its kind. Objects that exist in one version only stay as they are.
pub fn convert(object: &mut Value, to: &Gvk) {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let from = Gvk::of(&text("apiVersion"), &text("kind"));
    if from == *to || from.kind != to.kind {
        return;
    }
    let Value::Object(map) = object else { return };
    match (from.group_kind(), from.version.as_str(), to.version.as_str()) {
        (("autoscaling", "HorizontalPodAutoscaler"), "v1", "v2") => autoscaler::to_v2(map),
        (("autoscaling", "HorizontalPodAutoscaler"), "v2", "v1") => autoscaler::to_v1(map),
        (("", "Event"), ..) if to.group == "events.k8s.io" => rename(map, false),
        (("events.k8s.io", "Event"), ..) if to.group.is_empty() => rename(map, true),
        _ => return,
    }
    map.insert("apiVersion".into(), json!(to.api_version()));
}

/// Fields of events by their core names and their newer ones.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename(map: &mut Object, to_core: bool) {
    for (core, newer) in EVENT_FIELDS {
        let (from, to) = if to_core { (newer, core) } else { (core, newer) };
        if let Some(value) = map.remove(*from) {
            map.insert((*to).to_owned(), value);
        }
    }
    if to_core {
        for always in ["involvedObject", "source"] {
            entry(map, always);
        }
        for always in ["reportingComponent", "reportingInstance"] {
            map.entry(always).or_insert(json!(""));
        }
        for time in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            map.entry(time).or_insert(Value::Null);
        }
    } else {
        for time in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
            map.entry(time).or_insert(Value::Null);
        }
        for always in ["regarding", "deprecatedSource"] {
            entry(map, always);
        }
        // Not always written in this version.
        for optional in ["reportingController", "reportingInstance"] {
            if map.get(optional) == Some(&json!("")) {
                map.remove(optional);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(version: &str) -> Gvk {
        Gvk::new("autoscaling", version, "HorizontalPodAutoscaler")
    }

    /// KAPI-REST-07: an autoscaler written as v1 reads as v2 and back; what v1 can not hold becomes an annotation.
    #[test]
    fn autoscalers_in_both_versions() {
        let one = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}, "status": {"currentReplicas": 0, "desiredReplicas": 0}});
        let mut two = one.clone();
        convert(&mut two, &v("v2"));
        assert_eq!(
            two["spec"],
            json!({"maxReplicas": 3, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]})
        );
        assert_eq!(two["apiVersion"], "autoscaling/v2");
        convert(&mut two, &v("v1"));
        assert_eq!(two, one);

        let memory =
            json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}});
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": "1"}}});
        let two = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "m"},
            "spec": {"maxReplicas": 3, "metrics": [memory, pods], "behavior": {"scaleDown": {"selectPolicy": "Max"}}},
            "status": {"currentMetrics": null, "desiredReplicas": 0}});
        let mut one = two.clone();
        convert(&mut one, &v("v1"));
        let text = one["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"].as_str().unwrap_or_default().to_owned();
        assert!(text.starts_with("[{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\",\"targetAverageValue\":\"100Mi\"}}"), "{text}");
        convert(&mut one, &v("v2"));
        assert_eq!(one, two);
    }

    /// KAPI-REST-07: one event, two groups.
    #[test]
    fn events_in_both_groups() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"name": "x"}, "message": "m", "source": {},
            "firstTimestamp": null, "lastTimestamp": null, "eventTime": null, "reportingComponent": "", "reportingInstance": ""});
        let mut newer = core.clone();
        convert(&mut newer, &Gvk::new("events.k8s.io", "v1", "Event"));
        assert_eq!(
            (&newer["note"], &newer["regarding"]["name"], &newer["apiVersion"]),
            (&json!("m"), &json!("x"), &json!("events.k8s.io/v1"))
        );
        convert(&mut newer, &Gvk::new("", "v1", "Event"));
        assert_eq!(newer, core);
    }
}
