//! Disruption budgets and autoscalers.

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, has, int, internal, labels, list, names, resources, text, workloads};
use crate::Gvk;
use crate::quantity::Quantity;

pub(super) fn disruption_budget(object: &Value) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = Vec::new();
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        let shown = internal::shown("PodDisruptionBudgetSpec", spec);
        errors.push(Error::invalid(&path, shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = spec.get(field) {
            errors.extend(workloads::int_or_percent(value, &path.child(field)));
            errors.extend(workloads::at_most_all(value, &path.child(field)));
        }
    }
    errors.extend(labels::selector(spec.get("selector"), &path.child("selector")));
    let policy = text(spec, "unhealthyPodEvictionPolicy");
    if has(spec, "unhealthyPodEvictionPolicy") && !["AlwaysAllow", "IfHealthyBudget"].contains(&policy) {
        errors.push(Error::not_supported(&path.child("unhealthyPodEvictionPolicy"), policy, &["AlwaysAllow", "IfHealthyBudget"]));
    }
    errors
}

pub(super) fn autoscaler(gvk: &Gvk, object: &Value) -> Errors {
    if gvk.kind != "HorizontalPodAutoscaler" {
        return scale(object);
    }
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let min = int(spec, "minReplicas");
    if let Some(min) = min.filter(|min| *min < 1) {
        errors.push(Error::invalid(&path.child("minReplicas"), min, "must be greater than or equal to 1"));
    }
    let max = int(spec, "maxReplicas").unwrap_or(0);
    match max {
        0 => errors.push(Error::required(&path.child("maxReplicas"), "must be set and greater than 0")),
        max if max < 0 => errors.push(Error::invalid(&path.child("maxReplicas"), max, "must be greater than or equal to 1")),
        _ => {}
    }
    if min.is_some_and(|min| max < min) {
        errors.push(Error::invalid(&path.child("maxReplicas"), max, "must be greater than or equal to `minReplicas`"));
    }
    errors.extend(scale_target(spec.get("scaleTargetRef").unwrap_or(&Value::Null), &path.child("scaleTargetRef")));
    if min == Some(0) && list(spec, "metrics").iter().all(|metric| !["Object", "External"].contains(&text(metric, "type"))) {
        let words = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(Error::forbidden(&path.child("metrics"), words));
    }
    if let Some(share) = int(spec, "targetCPUUtilizationPercentage").filter(|share| *share < 1) {
        // The older version is read as the newer one.
        let path = path.child("metrics").index(0).children(&["resource", "target", "averageUtilization"]);
        errors.push(Error::invalid(&path, share, "must be greater than 0"));
    }
    for (index, metric) in list(spec, "metrics").iter().enumerate() {
        errors.extend(self::metric(metric, &path.child("metrics").index(index)));
    }
    if let Some(behavior) = spec.get("behavior") {
        for field in ["scaleUp", "scaleDown"] {
            if let Some(rules) = behavior.get(field) {
                errors.extend(scaling_rules(rules, &path.child("behavior").child(field)));
            }
        }
    }
    errors
}

fn scale(object: &Value) -> Errors {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    super::not_negative(spec, "replicas", &Path::new("spec"))
}

fn scale_target(target: &Value, path: &Path) -> Errors {
    let mut errors = reference(target, path);
    let version = text(target, "apiVersion");
    if version.matches('/').count() > 1 {
        errors.push(Error::invalid(&path.child("apiVersion"), version, format!("unexpected GroupVersion string: {version}")));
    } else if version.is_empty() || (!version.contains('/') && version != "v1") {
        errors.push(Error::invalid(&path.child("apiVersion"), version, "apiVersion must specify API group"));
    }
    errors
}

fn reference(target: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for field in ["kind", "name"] {
        let value = text(target, field);
        if value.is_empty() {
            errors.push(Error::required(&path.child(field), ""));
        } else {
            errors.extend(all_invalid(&path.child(field), value, names::path_segment(value)));
        }
    }
    errors
}

/// Types of metrics and the fields of their sources, in the order in which sources are looked at.
const METRICS: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn metric(metric: &Value, path: &Path) -> Errors {
    let kind = text(metric, "type");
    let mut errors = Vec::new();
    if kind.is_empty() {
        errors.push(Error::required(&path.child("type"), "must specify a metric source type"));
    }
    let expected = METRICS.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    let unknown = || {
        let mut known: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
        known.sort_unstable();
        Error::not_supported(&path.child("type"), kind, &known)
    };
    if expected.is_none() {
        errors.push(unknown());
    }
    let present: Vec<&str> = METRICS.iter().map(|(_, field)| *field).filter(|field| has(metric, field)).collect();
    // Only the first source is looked into, be it the expected one or not.
    if let Some(first) = present.first() {
        errors.extend(metric_source(first, &metric[*first], &path.child(first)));
    }
    match expected {
        // Kubernetes finds it twice: as a type, and as a source without a case.
        None => errors.push(unknown()),
        Some(field) if !has(metric, field) => {
            errors.push(Error::required(&path.child(field), "must populate information for the given metric source"));
        }
        Some(_) => {}
    }
    if present.len() != 1 {
        let others = present.iter().filter(|field| expected != Some(**field));
        errors.extend(others.map(|other| Error::forbidden(&path.child(other), "must populate the given metric source only")));
    }
    errors
}

fn metric_source(field: &str, source: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    match field {
        "resource" | "containerResource" => {
            let name = text(source, "name");
            if name.is_empty() {
                errors.push(Error::required(&path.child("name"), "must specify a resource name"));
            } else if field == "containerResource" {
                errors.extend(resources::container_resource_name(name, &path.child("name")));
            }
            if field == "containerResource" {
                let container = text(source, "container");
                if container.is_empty() {
                    errors.push(Error::required(&path.child("container"), "must specify a container"));
                } else {
                    errors.extend(all_invalid(&path.child("container"), container, names::label(container)));
                }
            }
        }
        _ => {
            if field == "object" {
                errors.extend(reference(source.get("describedObject").unwrap_or(&Value::Null), &path.child("describedObject")));
            }
            let name = source.pointer("/metric/name").and_then(Value::as_str).unwrap_or_default();
            let own = path.child("metric").child("name");
            if name.is_empty() {
                errors.push(Error::required(&own, "must specify a metric name"));
            } else {
                errors.extend(all_invalid(&own, name, names::path_segment(name)));
            }
        }
    }
    let target = source.get("target").unwrap_or(&Value::Null);
    errors.extend(metric_target(target, &path.child("target")));
    errors.extend(one_target(field, target, &path.child("target")));
    errors
}

/// Findings about the values of a target: those that a source needs, and those that exclude each other.
fn one_target(field: &str, target: &Value, path: &Path) -> Errors {
    let (value, average, share) = (has(target, "value"), has(target, "averageValue"), has(target, "averageUtilization"));
    let (average_path, value_path) = (path.child("averageValue"), path.child("value"));
    let (neither, both, told, other) = match field {
        "pods" => {
            let missing = Error::required(&average_path, "must specify a positive target averageValue");
            return if average { Vec::new() } else { vec![missing] };
        }
        "object" => (!value && !average, false, "must set either a target value or averageValue", ""),
        "external" => (
            !value && !average,
            value && average,
            "must set either a target value for metric or a per-pod target",
            "may not set both a target value for metric and a per-pod target",
        ),
        _ => (
            !share && !average,
            share && average,
            "must set either a target raw value or a target utilization",
            "may not set both a target raw value and a target utilization",
        ),
    };
    let mut errors = Vec::new();
    if neither {
        let path = if field.ends_with("esource") { path.child("averageUtilization") } else { average_path.clone() };
        errors.push(Error::required(&path, told));
    }
    if both {
        errors.push(Error::forbidden(if field == "external" { &value_path } else { &average_path }, other));
    }
    errors
}

fn metric_target(target: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.push(Error::required(&path.child("type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        errors.push(Error::invalid(&path.child("type"), kind, "must be either Utilization, Value, or AverageValue"));
    }
    if let Some(share) = int(target, "averageUtilization").filter(|share| *share < 1) {
        errors.push(Error::invalid(&path.child("averageUtilization"), share, "must be greater than 0"));
    }
    for field in ["value", "averageValue"] {
        let amount = target.get(field).and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok());
        if amount.is_some_and(|amount| amount <= Quantity::ZERO) {
            errors.push(Error::invalid(&path.child(field), target.get(field), "must be positive"));
        }
    }
    errors
}

fn scaling_rules(rules: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    if let Some(seconds) = int(rules, "stabilizationWindowSeconds") {
        if seconds < 0 {
            errors.push(Error::invalid(&path.child("stabilizationWindowSeconds"), seconds, "must be greater than or equal to zero"));
        } else if seconds > 3600 {
            errors.push(Error::invalid(&path.child("stabilizationWindowSeconds"), seconds, "must be less than or equal to 3600"));
        }
    }
    let select = text(rules, "selectPolicy");
    if has(rules, "selectPolicy") && !["Disabled", "Max", "Min"].contains(&select) {
        errors.push(Error::not_supported(&path.child("selectPolicy"), select, &["Disabled", "Max", "Min"]));
    }
    if list(rules, "policies").is_empty() {
        errors.push(Error::required(&path.child("policies"), "must specify at least one Policy"));
    }
    for (index, policy) in list(rules, "policies").iter().enumerate() {
        let path = path.child("policies").index(index);
        let kind = text(policy, "type");
        if !["Percent", "Pods"].contains(&kind) {
            errors.push(Error::not_supported(&path.child("type"), kind, &["Percent", "Pods"]));
        }
        for (field, most) in [("value", None), ("periodSeconds", Some(1800))] {
            let value = int(policy, field).unwrap_or(0);
            if value <= 0 {
                errors.push(Error::invalid(&path.child(field), json!(value), "must be greater than zero"));
            } else if most.is_some_and(|most| value > most) {
                errors.push(Error::invalid(&path.child(field), json!(value), "must be less than or equal to 1800"));
            }
        }
    }
    errors
}
