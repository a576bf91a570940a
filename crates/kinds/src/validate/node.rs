//! Nodes.

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::{Errors, all_invalid, flag, internal, list, map, names, one_of, resources, text, texts};

const AVOIDED_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// Findings about the annotation with pods that the scheduler should keep away.
fn avoided_pods(object: &Value) -> Errors {
    let annotations = object.get("metadata").and_then(|metadata| map(metadata, "annotations"));
    let given = annotations.and_then(|annotations| annotations.get(AVOIDED_PODS)).and_then(Value::as_str);
    let Some(given) = given.filter(|given| !given.is_empty()) else { return Vec::new() };
    let path = Path::new("metadata").child("annotations");
    let read = match mainstay_golang::json_reader::parse(given.as_bytes()) {
        Ok(read) => read,
        Err(error) => return vec![Error::invalid(&path.child("AvoidPods"), AVOIDED_PODS, error.to_string())],
    };
    let mut errors = Vec::new();
    for (index, pods) in list(&read, "preferAvoidPods").iter().enumerate() {
        let path = path.child(AVOIDED_PODS).index(index).child("PodSignature");
        match pods.pointer("/podSignature/podController").filter(|controller| !controller.is_null()) {
            None => errors.push(Error::required(&path, "")),
            Some(controller) if !flag(controller, "controller") => {
                let path = path.child("PodController").child("Controller");
                errors.push(Error::invalid(&path, false, "must point to a controller"));
            }
            Some(_) => {}
        }
    }
    errors
}

pub(super) fn node(object: &Value) -> Errors {
    let mut errors = avoided_pods(object);
    errors.extend(taints(object));
    errors.extend(amounts(object));
    let ranges = object.get("spec").map_or_else(Vec::new, |spec| texts(spec, "podCIDRs"));
    let path = Path::new("spec").child("podCIDRs");
    for (index, range) in ranges.iter().enumerate() {
        errors.extend(all_invalid(&path.index(index), range, names::cidr(range)));
    }
    if ranges.len() > 1 {
        let families: Vec<Option<bool>> = ranges.iter().map(|range| names::range(range).map(|(ip, _)| ip.is_ipv4())).collect();
        if let Some(index) = families.iter().position(Option::is_none) {
            let words = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {})",
                ranges[index]
            );
            errors.push(Error::internal(&path, words));
        }
        let both = families.iter().all(Option::is_some) && families.contains(&Some(true)) && families.contains(&Some(false));
        if !both || ranges.len() > 2 {
            errors.push(Error::invalid(&path, json!(ranges), "may specify no more than one CIDR for each IP family"));
        }
    }
    errors
}

fn taints(object: &Value) -> Errors {
    const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut errors = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in object.get("spec").map_or(&[] as &[Value], |spec| list(spec, "taints")).iter().enumerate() {
        let path = Path::new("metadata").child("taints").index(index);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
        let messages = names::label_value(value);
        if !messages.is_empty() {
            errors.push(Error::invalid(&path.child("value"), value, messages.join(";")));
        }
        errors.extend(one_of(taint, "effect", &path, EFFECTS));
        if seen.contains(&(key, effect)) {
            let mut error = Error::duplicate(&path, internal::shown("Taint", taint));
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            errors.push(error);
        } else {
            seen.push((key, effect));
        }
    }
    errors
}

fn amounts(object: &Value) -> Errors {
    let mut errors = Vec::new();
    for field in ["capacity", "allocatable"] {
        let amounts = object.get("status").and_then(|status| map(status, field));
        for (name, value) in amounts.into_iter().flatten() {
            errors.extend(resources::amount_is_valid(name, value, &Path::new("status").child(field).child(name)));
        }
    }
    errors
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let null = Value::Null;
    let (spec, before) = (new.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    let mut errors = amounts(new);
    let addresses = new.get("status").map_or(&[] as &[Value], |status| list(status, "addresses"));
    for (index, address) in addresses.iter().enumerate().filter(|(index, address)| addresses[..*index].contains(address)) {
        errors.push(Error::duplicate(&Path::new("status").child("addresses").index(index), internal::shown("NodeAddress", address)));
    }
    // Both are set once, by the operator of the node.
    let (ranges, known) = (texts(spec, "podCIDRs"), texts(before, "podCIDRs"));
    let changes = match known.len() {
        0 => 0,
        count if count != ranges.len() => 1,
        _ => known.iter().zip(&ranges).filter(|(one, other)| one != other).count(),
    };
    for _ in 0..changes {
        let words = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(Error::forbidden(&Path::new("spec").child("podCIDRs"), words));
    }
    let id = text(before, "providerID");
    if !id.is_empty() && id != text(spec, "providerID") {
        let words = "node updates may not change providerID except from \"\" to valid";
        errors.push(Error::forbidden(&Path::new("spec").child("providerID"), words));
    }
    errors.extend(taints(new));
    if text(spec, "externalID") != text(before, "externalID") {
        errors.push(Error::forbidden(&Path::new("spec").child("externalID"), "may not be updated"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints() {
        let given = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "Odd"}]}});
        let errors: Vec<String> = node(&given).iter().map(Error::to_string).collect();
        assert_eq!(errors.len(), 2);
        assert!(errors[0].starts_with("metadata.taints[1]: Duplicate value"), "{}", errors[0]);
        assert!(node(&json!({"metadata": {"name": "n"}})).is_empty());
    }
}
