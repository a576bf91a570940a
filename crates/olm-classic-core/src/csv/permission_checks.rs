//! The checks that the accounts of a CSV exist and may do what it asks for (OLM0-CSV-09).

use std::collections::BTreeMap;

use mainstay_bundle::Permissions;
use mainstay_bundle::go::to_string_as;
use mainstay_rbac::PolicyRule;
use serde_json::{Value, json};

use super::Member;
use crate::rules::{Granted, InvalidRule};

/// The accounts of a CSV, and the roles and bindings that count for them.
#[derive(Debug, Default)]
pub struct PermissionFacts {
    /// The accounts that are there, by name, with their owners (`metadata.ownerReferences`).
    pub accounts: BTreeMap<String, Value>,
    /// The roles and bindings.
    pub granted: Granted,
}

/// Why permissions cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UncheckedPermissions {
    /// A rule is none.
    #[error(transparent)]
    Rule(#[from] InvalidRule),
    /// A rule cannot be read.
    #[error("rule invalid: {0}")]
    Unreadable(String),
}

/// Returns true if all are met, and the statuses by account.
pub(crate) fn statuses(csv: &Member, facts: &PermissionFacts) -> Result<(bool, Vec<Value>), UncheckedPermissions> {
    let mut found = BTreeMap::new();
    let own = check(csv, &csv.csv.permissions, &csv.namespace, facts, &mut found)?;
    let cluster = check(csv, &csv.csv.cluster_permissions, "", facts, &mut found)?;
    Ok((own && cluster, found.into_values().collect()))
}

/// Returns whether the accounts of a CSV may do in every namespace what it asks for in one; else roles are to be lifted (OLM0-OG-17).
pub fn holds_everywhere(csv: &Member, facts: &PermissionFacts) -> bool {
    holds_in(csv, facts, "")
}

/// Returns whether the accounts of a CSV may do in a namespace what it asks for in its own (OLM0-OG-18).
pub fn holds_in(csv: &Member, facts: &PermissionFacts, namespace: &str) -> bool {
    check(csv, &csv.csv.permissions, namespace, facts, &mut BTreeMap::new()).unwrap_or_default()
}

fn check(
    csv: &Member,
    permissions: &[Permissions],
    namespace: &str,
    facts: &PermissionFacts,
    statuses: &mut BTreeMap<String, Value>,
) -> Result<bool, UncheckedPermissions> {
    let mut all_met = true;
    for entry in permissions {
        let name = &entry.service_account;
        let status = statuses.entry(name.clone()).or_insert_with(
            || json!({"group": "", "version": "v1", "kind": "ServiceAccount", "name": name, "status": "Present", "message": ""}),
        );
        let mut tell = |met: &str, message: &str| {
            status["status"] = json!(met);
            status["message"] = json!(message);
        };
        let Some(owners) = facts.accounts.get(name) else {
            tell("NotPresent", "Service account does not exist");
            all_met = false;
            continue;
        };
        if is_of_another(owners, csv) {
            tell("PresentNotSatisfied", "Service account is owned by another ClusterServiceVersion");
            all_met = false;
            continue;
        }
        let scope = if namespace.is_empty() { "cluster" } else { "namespaced" };
        for rule in entry.entry["rules"].as_array().into_iter().flatten() {
            let parsed: PolicyRule =
                serde_json::from_value(rule.clone()).map_err(|error| UncheckedPermissions::Unreadable(error.to_string()))?;
            let satisfied = facts.granted.satisfies((&csv.namespace, name), namespace, &parsed)?;
            if !satisfied {
                all_met = false;
                status["status"] = json!("PresentNotSatisfied");
                status["message"] = json!("Policy rule not satisfied for service account");
            }
            let dependent = json!({
                "group": "rbac.authorization.k8s.io", "kind": "PolicyRule", "version": "v1",
                "status": if satisfied { "Satisfied" } else { "NotSatisfied" },
                "message": format!("{scope} rule:{}", to_string_as("rbac.PolicyRule", rule)),
            });
            match status["dependents"].as_array_mut() {
                Some(dependents) => dependents.push(dependent),
                None => status["dependents"] = json!([dependent]),
            }
        }
    }
    Ok(all_met)
}

/// Returns whether an object is owned by CSVs, and not by this one.
fn is_of_another(owners: &Value, csv: &Member) -> bool {
    let csvs: Vec<&Value> = owners.as_array().into_iter().flatten().filter(|owner| owner["kind"] == "ClusterServiceVersion").collect();
    !csvs.is_empty() && !csvs.iter().any(|owner| owner["uid"] == *csv.uid)
}
