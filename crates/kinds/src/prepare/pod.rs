//! Pods: first status and quality of service.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Object, entry, put};
use crate::quantity::Quantity;
use crate::validate::APP_ARMOR;

pub(super) fn create(map: &mut Object) {
    grace_period(entry(map, "spec"));
    let spec = map.get("spec").cloned().unwrap_or(Value::Null);
    let mut status = Map::new();
    status.insert("phase".into(), json!("Pending"));
    status.insert("qosClass".into(), json!(qos_class(&spec)));
    if spec.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        status.insert(
            "conditions".into(),
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message,
                "lastProbeTime": null, "lastTransitionTime": null}]),
        );
    }
    map.insert("status".into(), Value::Object(status));
    labels_join_selectors(map);
    app_armor_from_annotations(map);
}

/// `matchLabelKeys` and `mismatchLabelKeys` mean the pod's own values of those labels, which join the selector beside them.
fn labels_join_selectors(map: &mut Object) {
    let labels = map.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(Value::Object(spec)) = map.get_mut("spec") else { return };
    if let Some(Value::Object(affinity)) = spec.get_mut("affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(Value::Object(terms)) = affinity.get_mut(kind) else { continue };
            for term in items(terms, "preferredDuringSchedulingIgnoredDuringExecution") {
                term.get_mut("podAffinityTerm").into_iter().for_each(|term| join(term, &labels));
            }
            items(terms, "requiredDuringSchedulingIgnoredDuringExecution").for_each(|term| join(term, &labels));
        }
    }
    items(spec, "topologySpreadConstraints").for_each(|constraint| join(constraint, &labels));
}

fn items<'a>(map: &'a mut Object, field: &str) -> impl Iterator<Item = &'a mut Value> {
    map.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn join(holder: &mut Value, labels: &Object) {
    let mut more: Vec<Value> = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in holder.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            more.extend(labels.get(key).map(|value| json!({"key": key, "operator": operator, "values": [value]})));
        }
    }
    // Without a selector nothing is selected, whatever joins it.
    if let Some(Value::Object(selector)) = holder.get_mut("labelSelector").filter(|_| !more.is_empty())
        && let Value::Array(expressions) = selector.entry("matchExpressions").or_insert_with(|| json!([]))
    {
        expressions.extend(more);
    }
}

/// The profile that an annotation names.
fn annotated(annotation: &str) -> Option<Value> {
    match (annotation, annotation.strip_prefix("localhost/")) {
        ("unconfined", _) => Some(json!({"type": "Unconfined"})),
        ("runtime/default", _) => Some(json!({"type": "RuntimeDefault"})),
        // A value that could not be a field is not copied into one.
        (_, Some(file)) if !file.is_empty() && file.trim() == file && file.len() <= 4095 => {
            Some(json!({"type": "Localhost", "localhostProfile": file}))
        }
        _ => None,
    }
}

/// AppArmor profiles were annotations once: those that no field says are copied into fields, which is all that newer kubelets read.
fn app_armor_from_annotations(map: &mut Object) {
    let annotations =
        map.get("metadata").and_then(|metadata| metadata.get("annotations")).and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(Value::Object(spec)) = map.get_mut("spec") else { return };
    if spec.get("os").and_then(|os| os.get("name")) == Some(&json!("windows")) {
        return;
    }
    let whole = spec.get("securityContext").and_then(|context| context.get("appArmorProfile")).cloned();
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items(spec, field).filter_map(Value::as_object_mut) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let annotation = annotations.get(&format!("{APP_ARMOR}{name}")).and_then(Value::as_str);
            let own = container.get("securityContext").and_then(|context| context.get("appArmorProfile"));
            if let Some(profile) = annotation.and_then(annotated).filter(|profile| own.is_none() && Some(profile) != whole.as_ref()) {
                entry(container, "securityContext").insert("appArmorProfile".into(), profile);
            }
        }
    }
}

pub(super) fn update(map: &mut Object) {
    grace_period(entry(map, "spec"));
}

/// Changes through `resize` and `ephemeralcontainers` touch resources and debugging containers, and some metadata, alone.
pub(super) fn through_subresource(new: &mut Object, old: &Object, subresource: &str) {
    let wanted = new.get("spec").cloned().unwrap_or(Value::Null);
    let before = old.get("spec").cloned().unwrap_or(Value::Null);
    let mut spec = before.clone();
    if subresource == "ephemeralcontainers" {
        if let Value::Object(spec) = &mut spec {
            put(spec, "ephemeralContainers", wanted.get("ephemeralContainers").cloned());
        }
    } else {
        let names = |spec: &Value, field: &str| -> Vec<Value> {
            let containers = spec.get(field).and_then(Value::as_array).into_iter().flatten();
            containers.map(|container| container.get("name").cloned().unwrap_or_default()).collect()
        };
        let count = |spec: &Value, field: &str| spec.get(field).and_then(Value::as_array).map_or(0, Vec::len);
        if ["containers", "initContainers"].iter().any(|field| count(&wanted, field) != count(&before, field)) {
            // Validation reports that containers may not be added or removed here.
            return;
        }
        for field in ["containers", "initContainers"] {
            if names(&wanted, field) != names(&before, field) {
                if let Value::Object(spec) = &mut spec {
                    put(spec, field, wanted.get(field).cloned());
                }
                continue;
            }
            let given = wanted.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
            let kept = spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut);
            for (container, given) in kept.zip(given) {
                put(container, "resources", given.get("resources").cloned());
                put(container, "resizePolicy", given.get("resizePolicy").cloned());
            }
        }
    }
    new.insert("spec".into(), spec);
    put(new, "status", old.get("status").cloned());
    let metadata = old.get("metadata").cloned().unwrap_or(Value::Null);
    for field in ["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        put(entry(new, "metadata"), field, metadata.get(field).cloned());
    }
}

/// A negative grace period has always meant the shortest one.
fn grace_period(spec: &mut Object) {
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), json!(1));
    }
}

/// The class of a pod does not change with what its node reports.
pub(super) fn status(new: &mut Object, old: &Object) {
    let before = old.get("status").cloned().unwrap_or_default();
    let status = entry(new, "status");
    if status.get("qosClass").and_then(Value::as_str).unwrap_or_default().is_empty() {
        put(status, "qosClass", before.get("qosClass").cloned());
    }
    // A client that does not know observed generations removes none.
    keep_observed_generation(status, &before);
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        let known = before.get("conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(earlier) = known.iter().find(|earlier| earlier.get("type") == condition.get("type")) {
                keep_observed_generation(condition, earlier);
            }
        }
    }
    super::gates::status_of_pods(status);
}

fn keep_observed_generation(now: &mut Object, before: &Value) {
    let is_set = |value: Option<&Value>| value.and_then(Value::as_i64).is_some_and(|generation| generation != 0);
    if !is_set(now.get("observedGeneration"))
        && let Some(known) = before.get("observedGeneration").filter(|known| is_set(Some(known)))
    {
        now.insert("observedGeneration".to_owned(), known.clone());
    }
}

/// The quality of service that a pod's requests and limits of CPU and memory give it: `Guaranteed`, `Burstable` or `BestEffort`.
pub fn qos_class(spec: &Value) -> &'static str {
    let mut requests: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut limits: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut guaranteed = true;
    let containers = ["containers", "initContainers"].iter().filter_map(|field| spec.get(*field)).filter_map(Value::as_array).flatten();
    let own = spec.get("resources").filter(|resources| resources.get("requests").is_some() || resources.get("limits").is_some());
    let resources: Vec<&Value> = match own {
        // Resources of the pod as a whole replace those of its containers.
        Some(own) => vec![own],
        None => containers.map(|container| container.get("resources").unwrap_or(&Value::Null)).collect(),
    };
    for resources in resources {
        let mut limited = 0;
        for (list, sum) in [("requests", &mut requests), ("limits", &mut limits)] {
            let Some(Value::Object(amounts)) = resources.get(list) else { continue };
            for name in ["cpu", "memory"] {
                let Some(amount) = amounts.get(name).and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok()) else { continue };
                if amount.sign().is_gt() {
                    let total = sum.entry(name).or_insert(Quantity::ZERO);
                    *total = total.plus(amount);
                    limited += usize::from(list == "limits");
                }
            }
        }
        guaranteed &= limited == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let equal = requests.len() == limits.len() && requests.iter().all(|(name, amount)| limits.get(name) == Some(amount));
    if guaranteed && equal { "Guaranteed" } else { "Burstable" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-REST-01: what annotations and labels of a new pod say beside its fields goes into the fields.
    #[test]
    fn annotations_and_labels_go_into_fields() {
        let Value::Object(mut pod) = json!({
            "metadata": {"labels": {"a": "b"}, "annotations": {
                format!("{APP_ARMOR}one"): "localhost/x", format!("{APP_ARMOR}two"): "unconfined",
                format!("{APP_ARMOR}three"): "runtime/default", format!("{APP_ARMOR}four"): "odd"}},
            "spec": {
                "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "one"}, {"name": "two", "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
                    {"name": "three"}, {"name": "four"}],
                "topologySpreadConstraints": [{"labelSelector": {}, "matchLabelKeys": ["a", "none"]}, {"matchLabelKeys": ["a"]}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}, "mismatchLabelKeys": ["a"]}]}},
            },
        }) else {
            panic!("not an object");
        };
        create(&mut pod);
        let pod = Value::Object(pod);
        let of = |index: usize| pod.pointer(&format!("/spec/containers/{index}/securityContext"));
        assert_eq!(of(0), Some(&json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}})));
        assert_eq!(of(1), Some(&json!({"appArmorProfile": {"type": "RuntimeDefault"}})));
        assert_eq!((of(2), of(3)), (None, None));
        let joined = json!([
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}, "matchLabelKeys": ["a", "none"]},
            {"matchLabelKeys": ["a"]}]);
        assert_eq!(pod["spec"]["topologySpreadConstraints"], joined);
        let term = &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(term["labelSelector"]["matchExpressions"][1], json!({"key": "a", "operator": "NotIn", "values": ["b"]}));
    }
}
