//! Conversion of the one built-in kind that is served in two versions: HorizontalPodAutoscaler v1 and v2.
//!
//! Version 1 knows one metric, the CPU utilization. What else version 2 says is kept in annotations, as Kubernetes does.

use serde_json::{Map, Value, json};

use crate::object::metadata_mut;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// Makes a v2 autoscaler of a v1 one.
pub fn autoscaler_to_v2(object: &mut Value) {
    let spec_behavior = take_annotation(object, BEHAVIOR);
    let mut metrics: Vec<Value> = match take_annotation(object, METRICS) {
        Some(Value::Array(list)) => list.iter().map(metric_to_v2).collect(),
        _ => Vec::new(),
    };
    let conditions = take_annotation(object, CONDITIONS);
    let mut current: Vec<Value> = match take_annotation(object, CURRENT) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
            metrics.insert(
                0,
                json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}),
            );
        }
        if !metrics.is_empty() {
            spec.insert("metrics".into(), metrics.into());
        }
        if let Some(behavior) = spec_behavior {
            spec.insert("behavior".into(), behavior);
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        if let Some(percent) = status.remove("currentCPUUtilizationPercentage") {
            current.insert(0, json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}));
        }
        status.entry("currentMetrics").or_insert(if current.is_empty() { Value::Null } else { current.into() });
        if let Some(conditions) = conditions {
            status.insert("conditions".into(), conditions);
        }
    }
}

/// Makes a v1 autoscaler of a v2 one.
pub fn autoscaler_to_v1(object: &mut Value) {
    let mut annotations = Map::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let metrics = spec.remove("metrics").unwrap_or_default();
        let mut others = Vec::new();
        for metric in metrics.as_array().into_iter().flatten() {
            let target = metric.pointer("/resource/target/averageUtilization");
            match target {
                Some(percent) if metric["type"] == "Resource" && metric["resource"]["name"] == "cpu" => {
                    spec.insert("targetCPUUtilizationPercentage".into(), percent.clone());
                }
                _ => others.push(metric_to_v1(metric)),
            }
        }
        if !others.is_empty() {
            annotations.insert(METRICS.into(), format!("[{}]", others.join(",")).into());
        }
        if let Some(behavior) = spec.remove("behavior") {
            annotations.insert(BEHAVIOR.into(), behavior.to_string().into());
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        let current = status.remove("currentMetrics").unwrap_or_default();
        let mut others = Vec::new();
        for metric in current.as_array().into_iter().flatten() {
            match metric.pointer("/resource/current/averageUtilization") {
                Some(percent) if metric["resource"]["name"] == "cpu" => {
                    status.insert("currentCPUUtilizationPercentage".into(), percent.clone());
                }
                _ => others.push(metric.clone()),
            }
        }
        if !others.is_empty() {
            annotations.insert(CURRENT.into(), Value::from(others).to_string().into());
        }
        if let Some(conditions) = status.remove("conditions").filter(|conditions| !conditions.is_null()) {
            annotations.insert(CONDITIONS.into(), conditions.to_string().into());
        }
    }
    if !annotations.is_empty() {
        let all = metadata_mut(object).entry("annotations").or_insert_with(|| json!({}));
        if let Some(all) = all.as_object_mut() {
            all.extend(annotations);
        }
    }
}

fn take_annotation(object: &mut Value, name: &str) -> Option<Value> {
    let metadata = metadata_mut(object);
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(name);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    serde_json::from_str(text?.as_str()?).ok()
}

/// Targets of v1 stand beside the metric: `targetAverageValue` for v2's `target.averageValue`.
const TARGETS: [(&str, &str, &str); 3] = [
    ("targetAverageUtilization", "averageUtilization", "Utilization"),
    ("targetAverageValue", "averageValue", "AverageValue"),
    ("targetValue", "value", "Value"),
];

fn source(metric: &Value) -> (String, Value) {
    let kind = metric["type"].as_str().unwrap_or_default();
    let mut letters = kind.chars();
    let member: String = letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect();
    let source = metric[member.as_str()].clone();
    (member, source)
}

/// A metric as the annotation has it: text, since Kubernetes writes its members in the order of its struct.
fn metric_to_v1(metric: &Value) -> String {
    let (member, source) = source(metric);
    let mut members = Vec::new();
    let mut put = |key: &str, value: &Value| members.push(format!("{}:{value}", Value::from(key)));
    if let Some(object) = source.get("describedObject") {
        put("target", object);
    }
    if let Some(name) = source.get("name") {
        put("name", name);
    } else {
        if let Some(name) = source.pointer("/metric/name") {
            put("metricName", name);
        }
        if let Some(selector) = source.pointer("/metric/selector") {
            put(if member == "external" { "metricSelector" } else { "selector" }, selector);
        }
    }
    for (flat, nested, _) in TARGETS {
        if let Some(value) = source.pointer(&format!("/target/{nested}")) {
            let flat = if member == "object" && nested == "averageValue" { "averageValue" } else { flat };
            put(flat, value);
        }
    }
    if let Some(container) = source.get("container") {
        put("container", container);
    }
    format!("{{\"type\":{},{}:{{{}}}}}", metric["type"], Value::from(member.as_str()), members.join(","))
}

fn metric_to_v2(metric: &Value) -> Value {
    let (member, mut source) = source(metric);
    if let Some(map) = source.as_object_mut() {
        let mut target = Map::new();
        for (flat, nested, kind) in TARGETS {
            if let Some(value) = map.remove(flat) {
                target.entry("type").or_insert(kind.into());
                target.insert(nested.into(), value);
            }
        }
        if member == "object" {
            if let Some(value) = map.remove("averageValue") {
                target.insert("type".into(), "AverageValue".into());
                target.insert("averageValue".into(), value);
            }
            if let Some(object) = map.remove("target") {
                map.insert("describedObject".into(), object);
            }
        }
        map.insert("target".into(), target.into());
        if let Some(name) = map.remove("metricName") {
            let mut named = json!({"name": name});
            if let Some(selector) = map.remove("metricSelector").or_else(|| map.remove("selector")) {
                named["selector"] = selector;
            }
            map.insert("metric".into(), named);
        }
    }
    json!({"type": metric["type"], member: source})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-REST-07: an autoscaler survives the way to v1 and back.
    #[test]
    fn autoscalers_survive_conversion() {
        let v2 = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}},
            {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "1k"}}},
        ]}});
        let mut object = v2.clone();
        autoscaler_to_v1(&mut object);
        assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 50);
        autoscaler_to_v2(&mut object);
        assert_eq!(object, v2);
    }
}
