//! Upkeep of the default roles and bindings: missing parts are added, additions by users stay.

use serde_json::{Map, Value, json};

use crate::escalation::has_aggregation_rule;
use crate::{Error, covers, parse_binding, parse_rules};

/// The annotation that switches the upkeep off if it is `"false"`.
pub const AUTOUPDATE_ANNOTATION: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The step that brings a default object to its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconciled {
    /// No change is needed.
    Nothing,
    /// It may differ, but its annotation says to leave it unchanged.
    Protected,
    /// It does not exist.
    Create(Value),
    /// It lacks something; this is the object with the addition.
    Update(Value),
    /// It binds another role, which cannot be changed in place: delete it and create this one.
    Recreate(Value),
}

/// Compares a live role or binding with the default one; extra rules, subjects, labels and annotations of the live one are kept.
pub fn reconcile(live: Option<&Value>, wanted: &Value) -> Result<Reconciled, Error> {
    let Some(live) = live else { return Ok(Reconciled::Create(wanted.clone())) };
    if live.pointer("/metadata/annotations").and_then(|a| a.get(AUTOUPDATE_ANNOTATION)).and_then(Value::as_str) == Some("false") {
        return Ok(Reconciled::Protected);
    }
    let mut result = live.clone();
    let mut changed = add_missing_entries(&mut result, wanted, "annotations");
    changed |= add_missing_entries(&mut result, wanted, "labels");
    if wanted.get("roleRef").is_some() {
        let (live_binding, wanted_binding) = (parse_binding(live)?, parse_binding(wanted)?);
        if live_binding.role_ref != wanted_binding.role_ref {
            let mut fresh = wanted.clone();
            add_missing_entries(&mut fresh, live, "annotations");
            add_missing_entries(&mut fresh, live, "labels");
            return Ok(Reconciled::Recreate(fresh));
        }
        let missing = wanted_binding.subjects.iter().filter(|s| !live_binding.subjects.contains(s)).map(|s| json!(s)).collect::<Vec<_>>();
        changed |= append(&mut result, "subjects", missing);
    } else if has_aggregation_rule(wanted) {
        let selectors =
            |role: &Value| role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array).cloned().unwrap_or_default();
        let held = selectors(live);
        let missing: Vec<Value> = selectors(wanted).into_iter().filter(|s| !held.contains(s)).collect();
        if !missing.is_empty() {
            let mut all = held;
            all.extend(missing);
            result["aggregationRule"] = json!({ "clusterRoleSelectors": all });
            changed = true;
        }
    } else {
        let missing = covers(&parse_rules(live)?, &parse_rules(wanted)?).into_iter().map(|rule| json!(rule)).collect();
        changed |= append(&mut result, "rules", missing);
    }
    Ok(if changed { Reconciled::Update(result) } else { Reconciled::Nothing })
}

fn append(object: &mut Value, field: &str, missing: Vec<Value>) -> bool {
    if missing.is_empty() {
        return false;
    }
    let mut list = object.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    list.extend(missing);
    object[field] = Value::Array(list);
    true
}

fn add_missing_entries(object: &mut Value, wanted: &Value, field: &str) -> bool {
    let Some(entries) = wanted.pointer("/metadata").and_then(|m| m.get(field)).and_then(Value::as_object) else { return false };
    let mut held: Map<String, Value> =
        object.pointer("/metadata").and_then(|m| m.get(field)).and_then(Value::as_object).cloned().unwrap_or_default();
    let before = held.len();
    for (key, value) in entries {
        held.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if held.len() == before {
        return false;
    }
    object["metadata"][field] = Value::Object(held);
    true
}
