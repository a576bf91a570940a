//! Rules for the placement of pods: affinity, tolerations, spreading, gates.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::{Errors, all_invalid, has, int, labels, list, map, names, one_of_if_set, text, texts};

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
    let constraints = list(spec, "topologySpreadConstraints");
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        let skew = int(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.push(Error::invalid(&path.child("maxSkew"), skew, POSITIVE));
        }
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
        }
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            errors.push(Error::not_supported(&path.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]));
        }
        let same = |other: &Value| text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == action;
        if constraints[index + 1..].iter().any(same) {
            errors.push(Error::duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), format!("{{{key}, {action}}}")));
        }
        if let Some(domains) = int(constraint, "minDomains") {
            let path = path.child("minDomains");
            if domains <= 0 {
                errors.push(Error::invalid(&path, domains, POSITIVE));
            }
            if action != "DoNotSchedule" {
                let words = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(Error::invalid(&path, domains, words));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.extend(one_of_if_set(constraint, field, &path, &["Honor", "Ignore"]));
        }
        errors.extend(keys_of_labels(constraint, &path));
        errors.extend(labels::selector(constraint.get("labelSelector"), &path.child("labelSelector")));
    }
    errors
}

const POSITIVE: &str = "must be greater than zero";

/// Labels of the pod itself that join a selector: `matchLabelKeys`, and `mismatchLabelKeys` if the type has them.
fn keys_of_labels(holder: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let selector = holder.get("labelSelector").filter(|selector| !selector.is_null());
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let (keys, path) = (texts(holder, field), path.child(field));
        if !keys.is_empty() && selector.is_none() {
            errors.push(Error::forbidden(&path, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            errors.extend(all_invalid(&path.index(index), key, names::qualified(key)));
        }
    }
    let keys = texts(holder, "matchLabelKeys");
    if let Some(selector) = selector {
        // Admission has already put the keys into the selector: what is there twice was there before.
        let mut seen: Vec<&str> = map(selector, "matchLabels").into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        for expression in list(selector, "matchExpressions") {
            let key = text(expression, "key");
            if let Some(index) = keys.iter().rposition(|own| *own == key).filter(|_| seen.contains(&key)) {
                errors.push(Error::invalid(&path.index(index), key, "exists in both matchLabelKeys and labelSelector"));
            }
            seen.push(key);
        }
    }
    let others = texts(holder, "mismatchLabelKeys");
    for (index, key) in keys.iter().enumerate().filter(|(_, key)| others.contains(key)) {
        let words = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.push(Error::invalid(&path.child("matchLabelKeys").index(index), *key, words));
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
                let value = text(toleration, "value");
                if !value.is_empty() {
                    errors.push(Error::invalid(&path.child("operator"), value, "value must be empty when `operator` is 'Exists'"));
                }
            }
            // TaintTolerationComparisonOperators is off, and named all the same.
            operator @ ("Lt" | "Gt") => {
                errors.push(Error::not_supported(&path.child("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]));
            }
            other => errors.push(Error::not_supported(&path.child("operator"), other, &["Equal", "Exists"])),
        }
        if !effect.is_empty() && !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            errors.push(Error::not_supported(&path.child("effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]));
        }
    }
    errors
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
            errors.extend(node_term(term.get("preference").unwrap_or(&Value::Null), Strength::Preferred, &path.child("preference")));
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
    for namespace in texts(term, "namespaces") {
        errors.extend(all_invalid(&path.child("namespace"), namespace, names::label(namespace)));
    }
    errors.extend(keys_of_labels(term, path));
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
    }
    errors.extend(all_invalid(&path.child("topologyKey"), key, names::qualified(key)));
    errors
}

/// The strength of a term, a preference or a demand: only a demand must name values that labels can have.
#[derive(Clone, Copy, PartialEq)]
enum Strength {
    Preferred,
    Required,
}

/// Terms that select nodes.
pub(super) fn node_selector(selector: &Value, path: &Path) -> Errors {
    let terms = list(selector, "nodeSelectorTerms");
    let path = path.child("nodeSelectorTerms");
    if terms.is_empty() {
        return vec![Error::required(&path, "must have at least one node selector term")];
    }
    terms.iter().enumerate().flat_map(|(index, term)| node_term(term, Strength::Required, &path.index(index))).collect()
}

fn node_term(term: &Value, strength: Strength, path: &Path) -> Errors {
    let mut errors = Vec::new();
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        errors.extend(node_labels(expression, strength, &path.child("matchExpressions").index(index)));
    }
    for (index, expression) in list(term, "matchFields").iter().enumerate() {
        errors.extend(node_fields(expression, &path.child("matchFields").index(index)));
    }
    errors
}

const UNKNOWN_OPERATOR: &str = "not a valid selector operator";

fn node_labels(expression: &Value, strength: Strength, path: &Path) -> Errors {
    let mut errors = Vec::new();
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
        other => errors.push(Error::invalid(&path.child("operator"), other, UNKNOWN_OPERATOR)),
    }
    let key = text(expression, "key");
    errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
    if strength == Strength::Required {
        for (index, value) in texts(expression, "values").iter().enumerate() {
            errors.extend(all_invalid(&path.child("values").index(index), value, names::label_value(value)));
        }
    }
    errors
}

/// A node by its name, the one field that can be selected by.
fn node_fields(expression: &Value, path: &Path) -> Errors {
    let mut errors = Vec::new();
    let values = texts(expression, "values");
    match text(expression, "operator") {
        "In" | "NotIn" if values.len() != 1 => {
            let words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(Error::required(&path.child("values"), words));
        }
        "In" | "NotIn" => {}
        other => errors.push(Error::invalid(&path.child("operator"), other, UNKNOWN_OPERATOR)),
    }
    match text(expression, "key") {
        "metadata.name" => {
            for (index, value) in values.iter().enumerate() {
                errors.extend(all_invalid(&path.child("values").index(index), value, names::subdomain(value)));
            }
        }
        other => errors.push(Error::invalid(&path.child("key"), other, "not a valid field selector key")),
    }
    errors
}
