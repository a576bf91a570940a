//! Objects that are served under two versions: autoscalers (v1 and v2) and events (core and events.k8s.io).
//!
//! Both are stored once. What autoscaling/v1 can not say travels in annotations, as Kubernetes has it.

use serde_json::{Map, Value, json};

use crate::Gvk;
use crate::default::entry;

type Object = Map<String, Value>;

/// Kinds that a stored object can be shown as, beside its own.
pub fn convertible(gvk: &Gvk) -> bool {
    matches!(gvk.group_kind(), ("autoscaling", "HorizontalPodAutoscaler") | ("" | "events.k8s.io", "Event"))
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
        (("autoscaling", "HorizontalPodAutoscaler"), "v1", "v2") => autoscaler_to_v2(map),
        (("autoscaling", "HorizontalPodAutoscaler"), "v2", "v1") => autoscaler_to_v1(map),
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

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

fn is_cpu_share(metric: &Value, place: &str) -> bool {
    metric.get("type") == Some(&json!("Resource"))
        && metric.pointer("/resource/name") == Some(&json!("cpu"))
        && metric.pointer(&format!("/resource/{place}/averageUtilization")).is_some_and(Value::is_i64)
}

fn take_list(map: &mut Object, key: &str) -> Vec<Value> {
    match map.remove(key) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn annotate(map: &mut Object, key: &str, text: &str) {
    entry(entry(map, "metadata"), "annotations").insert(key.to_owned(), json!(text));
}

/// Takes an annotation's content; the annotations themselves go with the last of them.
fn annotated(map: &mut Object, key: &str) -> Option<Value> {
    let metadata = map.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    // What can not be read stays where users can see it.
    let parsed = serde_json::from_str(annotations.get(key)?.as_str()?).ok()?;
    annotations.remove(key);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    Some(parsed)
}

fn autoscaler_to_v1(map: &mut Object) {
    let spec = entry(map, "spec");
    let mut metrics = take_list(spec, "metrics");
    let behavior = spec.remove("behavior");
    if let Some(at) = metrics.iter().position(|metric| is_cpu_share(metric, "target")) {
        let metric = metrics.remove(at);
        let share = metric.pointer("/resource/target/averageUtilization").cloned().unwrap_or(Value::Null);
        spec.insert("targetCPUUtilizationPercentage".into(), share);
    }
    let status = entry(map, "status");
    let mut current = take_list(status, "currentMetrics");
    let conditions = take_list(status, "conditions");
    if let Some(at) = current.iter().position(|metric| is_cpu_share(metric, "current")) {
        let metric = current.remove(at);
        let share = metric.pointer("/resource/current/averageUtilization").cloned().unwrap_or(Value::Null);
        status.insert("currentCPUUtilizationPercentage".into(), share);
    }
    for count in ["currentReplicas", "desiredReplicas"] {
        status.entry(count).or_insert(json!(0));
    }
    for (key, metrics, place) in [(METRICS, metrics, "target"), (CURRENT_METRICS, current, "current")] {
        if !metrics.is_empty() {
            let shown: Vec<String> = metrics.iter().map(|metric| old_metric(metric, place)).collect();
            annotate(map, key, &format!("[{}]", shown.join(",")));
        }
    }
    if !conditions.is_empty() {
        annotate(map, CONDITIONS, &Value::Array(conditions).to_string());
    }
    if let Some(behavior) = behavior {
        annotate(map, BEHAVIOR, &behavior.to_string());
    }
}

fn autoscaler_to_v2(map: &mut Object) {
    let annotations = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].map(|key| annotated(map, key));
    let [metrics, current, conditions, behavior] = annotations;
    let list = |value: Option<Value>| match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let spec = entry(map, "spec");
    let mut all: Vec<Value> = list(metrics).iter().map(|metric| new_metric(metric, "target")).collect();
    if let Some(share) = spec.remove("targetCPUUtilizationPercentage").filter(|share| !share.is_null()) {
        let target = json!({"type": "Utilization", "averageUtilization": share});
        all.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    if !all.is_empty() {
        spec.insert("metrics".into(), Value::Array(all));
    }
    if let Some(behavior) = behavior {
        spec.insert("behavior".into(), behavior);
    }
    let status = entry(map, "status");
    let mut all: Vec<Value> = list(current).iter().map(|metric| new_metric(metric, "current")).collect();
    if let Some(share) = status.remove("currentCPUUtilizationPercentage").filter(|share| !share.is_null()) {
        all.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": share}}}));
    }
    status.insert("currentMetrics".into(), if all.is_empty() { Value::Null } else { Value::Array(all) });
    if let Some(conditions) = conditions {
        status.insert("conditions".into(), conditions);
    }
    // The counters that this version leaves out when they are zero.
    if status.get("currentReplicas") == Some(&json!(0)) {
        status.remove("currentReplicas");
    }
}

/// The member of a metric that holds its source.
fn source_of(kind: &str) -> &'static str {
    match kind {
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => "resource",
    }
}

/// Names of the older, flat form: the newer one nests amounts under `target` or `current`, and names under `metric`.
fn amounts(place: &str) -> [(&'static str, &'static str); 3] {
    if place == "target" {
        [("averageUtilization", "targetAverageUtilization"), ("averageValue", "targetAverageValue"), ("value", "targetValue")]
    } else {
        [("averageUtilization", "currentAverageUtilization"), ("averageValue", "currentAverageValue"), ("value", "currentValue")]
    }
}

fn old_metric(metric: &Value, place: &str) -> String {
    let kind = metric.get("type").and_then(Value::as_str).unwrap_or("Resource");
    let field = source_of(kind);
    let mut source = metric.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
    let nested = source.remove(place).unwrap_or(Value::Null);
    for (new, old) in amounts(place) {
        if let Some(value) = nested.get(new).filter(|value| !value.is_null()) {
            source.insert(old.to_owned(), value.clone());
        }
    }
    if let Some(Value::Object(mut identity)) = source.remove("metric") {
        if let Some(name) = identity.remove("name") {
            source.insert("metricName".into(), name);
        }
        if let Some(selector) = identity.remove("selector") {
            source.insert((if field == "external" { "metricSelector" } else { "selector" }).into(), selector);
        }
    }
    if let Some(object) = source.remove("describedObject") {
        source.insert("target".into(), object);
    }
    // The type stands first, as Kubernetes' own text has it.
    format!("{{\"type\":{},\"{field}\":{}}}", json!(kind), Value::Object(source))
}

fn new_metric(metric: &Value, place: &str) -> Value {
    let kind = metric.get("type").and_then(Value::as_str).unwrap_or("Resource");
    let field = source_of(kind);
    let mut source = metric.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(object) = source.remove("target") {
        source.insert("describedObject".into(), object);
    }
    let mut nested = Object::new();
    for (new, old) in amounts(place) {
        if let Some(value) = source.remove(old) {
            if place == "target" {
                let kind = match new {
                    "averageUtilization" => "Utilization",
                    "averageValue" => "AverageValue",
                    _ => "Value",
                };
                nested.insert("type".into(), json!(kind));
            }
            nested.insert(new.to_owned(), value);
        }
    }
    source.insert(place.to_owned(), Value::Object(nested));
    let mut identity = Object::new();
    for (old, new) in [("metricName", "name"), ("metricSelector", "selector"), ("selector", "selector")] {
        if let Some(value) = source.remove(old) {
            identity.insert(new.to_owned(), value);
        }
    }
    if !identity.is_empty() {
        source.insert("metric".into(), Value::Object(identity));
    }
    json!({"type": kind, field: source})
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
        let text = one["metadata"]["annotations"][METRICS].as_str().unwrap_or_default().to_owned();
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
