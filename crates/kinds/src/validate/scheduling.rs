//! Where a pod may run: affinity, tolerations, spreading, gates.

use mainstay_schema::field::{BadValue, Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, has, int, labels, list, names, text, texts};

pub(super) fn scheduling_gates(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        let path = path.index(index);
        errors.extend(all_invalid(&path, name, names::qualified(name)));
        if seen.contains(&name) {
            errors.push(Error::duplicate(&path, name));
        }
        seen.push(name);
    }
    errors
}

pub(super) fn spread_constraints(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = path.index(index);
        let skew = int(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.push(Error::invalid(&path.child("maxSkew"), skew, "must be greater than zero"));
        }
        let key = text(constraint, "topologyKey");
        if key.is_empty() {
            errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
        } else {
            errors.extend(all_invalid(&path.child("topologyKey"), key, names::qualified(key)));
        }
        let action = text(constraint, "whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            errors.push(Error::not_supported(&path.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]));
        }
        errors.extend(labels::selector(constraint.get("labelSelector"), &path.child("labelSelector")));
    }
    errors
}

pub(super) fn tolerations(spec: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, toleration) in list(spec, "tolerations").iter().enumerate() {
        let path = path.index(index);
        let (key, operator, effect) = (text(toleration, "key"), text(toleration, "operator"), text(toleration, "effect"));
        if !key.is_empty() {
            errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
        }
        if key.is_empty() && operator != "Exists" {
            let words = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(Error::invalid(&path.child("operator"), operator, words));
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            errors.push(Error::invalid(&path.child("effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"));
        }
        match operator {
            "Equal" | "" => {
                let value = text(toleration, "value");
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    errors.push(Error::invalid(&path.child("operator"), value, messages.join(";")));
                }
            }
            "Exists" => {
                if !text(toleration, "value").is_empty() {
                    let words = "value must be empty when `operator` is 'Exists'";
                    errors.push(Error::invalid(&path.child("operator"), shown_toleration(toleration), words));
                }
            }
            other => errors.push(Error::not_supported(&path.child("operator"), other, &["Equal", "Exists"])),
        }
        if !effect.is_empty() && !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            errors.push(Error::not_supported(&path.child("effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]));
        }
    }
    errors
}

fn shown_toleration(toleration: &Value) -> BadValue {
    let member = |field: &str| json!(text(toleration, field)).to_string();
    let seconds = toleration.get("tolerationSeconds").map_or_else(|| "null".to_owned(), Value::to_string);
    BadValue::Json(format!(
        "{{\"Key\":{},\"Operator\":{},\"Value\":{},\"Effect\":{},\"TolerationSeconds\":{seconds}}}",
        member("key"),
        member("operator"),
        member("value"),
        member("effect")
    ))
}

pub(super) fn affinity(spec: &Value, path: &Path) -> Errors {
    let Some(affinity) = spec.get("affinity") else { return Vec::new() };
    let mut errors = Vec::new();
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(node) = affinity.get("nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(selector) = node.get(required) {
            errors.extend(node_selector(selector, &path.child(required)));
        }
        for (index, term) in list(node, preferred).iter().enumerate() {
            let path = path.child(preferred).index(index);
            errors.extend(weight(term, &path));
            errors.extend(node_term(term.get("preference").unwrap_or(&Value::Null), &path.child("preference")));
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.get(kind) else { continue };
        let path = path.child(kind);
        for (index, term) in list(pods, required).iter().enumerate() {
            errors.extend(pod_term(term, &path.child(required).index(index)));
        }
        for (index, term) in list(pods, preferred).iter().enumerate() {
            let path = path.child(preferred).index(index);
            errors.extend(weight(term, &path));
            errors.extend(pod_term(term.get("podAffinityTerm").unwrap_or(&Value::Null), &path.child("podAffinityTerm")));
        }
    }
    errors
}

fn weight(term: &Value, path: &Path) -> Errors {
    let weight = int(term, "weight").unwrap_or(0);
    if (1..=100).contains(&weight) { Vec::new() } else { vec![Error::invalid(&path.child("weight"), weight, "must be in the range 1-100")] }
}

fn pod_term(term: &Value, path: &Path) -> Errors {
    let mut errors = labels::selector(term.get("labelSelector"), &path.child("labelSelector"));
    errors.extend(labels::selector(term.get("namespaceSelector"), &path.child("namespaceSelector")));
    for (index, namespace) in texts(term, "namespaces").iter().enumerate() {
        errors.extend(all_invalid(&path.child("namespace").index(index), namespace, names::label(namespace)));
    }
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
    }
    errors.extend(if key.is_empty() { Vec::new() } else { all_invalid(&path.child("topologyKey"), key, names::qualified(key)) });
    errors
}

/// Terms that select nodes.
pub(super) fn node_selector(selector: &Value, path: &Path) -> Errors {
    let terms = list(selector, "nodeSelectorTerms");
    let path = path.child("nodeSelectorTerms");
    if terms.is_empty() {
        return vec![Error::required(&path, "must have at least one node selector term")];
    }
    terms.iter().enumerate().flat_map(|(index, term)| node_term(term, &path.index(index))).collect()
}

fn node_term(term: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let values = list(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(Error::required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.push(Error::forbidden(&path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors.push(Error::required(&path.child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator")),
        }
        let key = text(expression, "key");
        errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
    }
    errors
}
