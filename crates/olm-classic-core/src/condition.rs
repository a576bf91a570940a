//! OperatorConditions: what is kept of them, and whether an operator may be upgraded (OLM0-COND).

use mainstay_bundle::Csv;
use serde_json::{Value, json};

use crate::deployments::MANAGED_LABEL;
use crate::owner::Owner;

/// The apiVersion that is written.
pub const API_VERSION: &str = "operators.coreos.com/v2";
/// The one condition with an effect.
pub(crate) const UPGRADEABLE: &str = "Upgradeable";

/// Why an operator may not be upgraded (OLM0-COND-07).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotUpgradeable {
    /// The operator or an administrator says so.
    #[error("the operator is not upgradeable: {0}")]
    Refused(String),
    /// The operator speaks of an earlier generation.
    #[error("the operatorcondition status \"{UPGRADEABLE}\"=\"{0}\" is outdated")]
    Outdated(String),
}

/// Judges the OperatorCondition of an installed CSV; none allows every upgrade.
pub fn upgradeable(object: Option<&Value>) -> Result<(), NotUpgradeable> {
    let Some(object) = object else { return Ok(()) };
    let find = |list: &Value| list.as_array().into_iter().flatten().find(|each| each["type"] == UPGRADEABLE).cloned();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(told) = find(&object["spec"]["overrides"]) {
        return if told["status"] == "True" { Ok(()) } else { Err(NotUpgradeable::Refused(text(&told["message"]))) };
    }
    let Some(told) = find(&object["status"]["conditions"]) else { return Ok(()) };
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    if number(&told["observedGeneration"]) != number(&object["metadata"]["generation"]) {
        return Err(NotUpgradeable::Outdated(text(&told["status"])));
    }
    if told["status"] == "False" { Err(NotUpgradeable::Refused(text(&told["message"]))) } else { Ok(()) }
}

/// The OperatorCondition of a CSV; conditions and overrides are left to others (OLM0-COND-01, OLM0-COND-03).
pub fn desired(csv: &Csv, owner: &Owner<'_>) -> Value {
    let mut accounts: Vec<&str> = Vec::new();
    for entry in csv.cluster_permissions.iter().chain(&csv.permissions) {
        if !entry.service_account.is_empty() && !accounts.contains(&entry.service_account.as_str()) {
            accounts.push(&entry.service_account);
        }
    }
    if accounts.is_empty() {
        accounts.push("default");
    }
    let deployments: Vec<&str> =
        csv.deployments.iter().map(|deployment| deployment.name.as_str()).filter(|name| !name.is_empty()).collect();
    let mut reference = owner.reference();
    reference["controller"] = json!(true);
    json!({
        "apiVersion": API_VERSION, "kind": "OperatorCondition",
        "metadata": {"name": owner.name, "namespace": owner.namespace, "ownerReferences": [reference]},
        "spec": {"serviceAccounts": accounts, "deployments": deployments},
    })
}

/// The Role and RoleBinding by which an operator writes its OperatorCondition (OLM0-COND-02).
pub fn roles(object: &Value) -> [Value; 2] {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let name = &object["metadata"]["name"];
    let reference = json!({
        "apiVersion": API_VERSION, "kind": "OperatorCondition", "name": name, "uid": object["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": false,
    });
    let metadata = json!({
        "name": name, "namespace": object["metadata"]["namespace"], "labels": {MANAGED_LABEL.0: MANAGED_LABEL.1},
        "ownerReferences": [reference],
    });
    let rules = json!([{
        "apiGroups": ["operators.coreos.com"], "resources": ["operatorconditions", "operatorconditions/status"],
        "resourceNames": [name], "verbs": ["get", "update", "patch"],
    }]);
    let accounts = object["spec"]["serviceAccounts"].as_array().into_iter().flatten();
    // An account without a namespace is one of the binding's.
    let subjects: Vec<Value> = accounts.map(|name| json!({"kind": "ServiceAccount", "name": name})).collect();
    [
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata, "subjects": subjects,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        }),
    ]
}

/// The status of an OperatorCondition: what its spec says, with the generation it was said in (OLM0-COND-04). `None` if nothing changes.
pub fn status(object: &Value) -> Option<Value> {
    let generation = &object["metadata"]["generation"];
    let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut changed = false;
    for told in object["spec"]["conditions"].as_array().into_iter().flatten() {
        let mut told = told.clone();
        told["observedGeneration"] = generation.clone();
        if let Some(known) = conditions.iter_mut().find(|each| each["type"] == told["type"]) {
            if known["status"] == told["status"] {
                told["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            changed |= *known != told;
            *known = told;
        } else {
            changed = true;
            conditions.push(told);
        }
    }
    changed.then(|| {
        let mut status = object["status"].clone();
        if !status.is_object() {
            status = json!({});
        }
        status["conditions"] = json!(conditions);
        status
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn object(overrides: &Value, conditions: &Value) -> Value {
        json!({"metadata": {"generation": 3}, "spec": {"overrides": overrides, "conditions": conditions}})
    }

    /// OLM0-COND-04 to OLM0-COND-07: overrides win in both directions, what is outdated blocks, and silence does not.
    #[test]
    fn upgrades() {
        let told = |status: &str| {
            json!([{"type": "Upgradeable", "status": status, "reason": "R", "message": "migrating",
            "lastTransitionTime": "2024-01-01T00:00:00Z"}])
        };
        let refused = Err(NotUpgradeable::Refused("migrating".to_owned()));
        let judge = |overrides: &Value, conditions: &Value| {
            let mut object = object(overrides, conditions);
            if let Some(status) = status(&object) {
                object["status"] = status;
                assert_eq!(super::status(&object), None, "the second time changes nothing");
            }
            upgradeable(Some(&object))
        };
        assert_eq!(upgradeable(None), Ok(()));
        assert_eq!(judge(&json!([]), &json!([])), Ok(()));
        assert_eq!(judge(&json!([]), &told("True")), Ok(()));
        assert_eq!(judge(&json!([]), &told("False")), refused);
        assert_eq!(judge(&told("True"), &told("False")), Ok(()));
        assert_eq!(judge(&told("False"), &told("True")), refused);
        let mut outdated = object(&json!([]), &told("True"));
        outdated["status"] = status(&outdated).unwrap();
        outdated["metadata"]["generation"] = json!(4);
        let error = upgradeable(Some(&outdated)).unwrap_err().to_string();
        assert_eq!(error, "the operatorcondition status \"Upgradeable\"=\"True\" is outdated");
    }
}
