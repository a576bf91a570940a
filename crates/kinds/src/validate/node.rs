//! Nodes.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::{Errors, all_invalid, has, list, map, names, text, texts};
use crate::quantity::Quantity;

pub(super) fn node(object: &Value) -> Errors {
    let null = Value::Null;
    let (spec, status) = (object.get("spec").unwrap_or(&null), object.get("status").unwrap_or(&null));
    let path = Path::new("spec");
    let mut errors = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in list(spec, "taints").iter().enumerate() {
        let path = Path::new("metadata").child("taints").index(index);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        errors.extend(all_invalid(&path.child("key"), key, names::qualified(key)));
        errors.extend(all_invalid(&path.child("value"), value, names::label_value(value)));
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if effect.is_empty() {
            errors.push(Error::required(&path.child("effect"), ""));
        } else if !effects.contains(&effect) {
            errors.push(Error::not_supported(&path.child("effect"), effect, &effects));
        }
        if seen.contains(&(key, effect)) {
            errors.push(Error::duplicate(&path, taint));
        }
        seen.push((key, effect));
    }
    for (index, range) in texts(spec, "podCIDRs").iter().enumerate() {
        errors.extend(all_invalid(&path.child("podCIDRs").index(index), range, names::cidr(range)));
    }
    for field in ["capacity", "allocatable"] {
        for (name, value) in map(status, field).into_iter().flatten() {
            let path = Path::new("status").child(field).key(name);
            errors.extend(all_invalid(&path, name, names::qualified(name)));
            if value.as_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(|amount| amount < Quantity::ZERO) {
                errors.push(Error::invalid(&path, value, "must be greater than or equal to 0"));
            }
        }
    }
    errors
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let null = Value::Null;
    let (spec, before) = (new.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    let mut errors = Vec::new();
    for field in ["podCIDRs", "providerID"] {
        // Both are given once, by whoever runs the node.
        if has(before, field) && spec.get(field) != before.get(field) {
            let words = "node updates may not change podCIDR except from \"\" to valid";
            let words = if field == "podCIDRs" { words } else { "node updates may not change providerID except from \"\" to valid" };
            errors.push(Error::forbidden(&Path::new("spec").child(field), words));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
