//! Accounts, roles and bindings of a CSV (OLM0-CSV-16 to OLM0-CSV-19).

use std::collections::BTreeMap;

use mainstay_bundle::go::{conform, to_string_as};
use mainstay_bundle::{Csv, Permissions};
use mainstay_golang::json::{Html, write_string};
use serde_json::{Value, json};

use crate::hash;
use crate::owner::Owner;

const RBAC: &str = "rbac.authorization.k8s.io";
/// The label with the hash of a role's rules or a binding's content.
pub const HASH_LABEL: &str = "olm.permissions.hash";

/// The objects of one service account, in the order of the CSV.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OperatorPermissions {
    /// The account.
    pub service_account: Value,
    /// Roles.
    pub roles: Vec<Value>,
    /// Their bindings.
    pub role_bindings: Vec<Value>,
    /// ClusterRoles.
    pub cluster_roles: Vec<Value>,
    /// Their bindings.
    pub cluster_role_bindings: Vec<Value>,
}

/// A CSV whose install strategy is none that there is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unrecognized install strategy")]
pub struct UnrecognizedStrategy;

/// Checks that a CSV has the one install strategy that there is.
pub fn check_strategy(csv: &Csv) -> Result<(), UnrecognizedStrategy> {
    if csv.object["spec"]["install"]["strategy"] == "deployment" { Ok(()) } else { Err(UnrecognizedStrategy) }
}

/// The objects of a CSV by service account. They carry no apiVersion and kind, as upstream writes them into plans.
pub fn of(csv: &Csv, owner: &Owner<'_>) -> Result<BTreeMap<String, OperatorPermissions>, UnrecognizedStrategy> {
    check_strategy(csv)?;
    let mut all: BTreeMap<String, OperatorPermissions> = BTreeMap::new();
    for entry in &csv.permissions {
        let account = all.entry(entry.service_account.clone()).or_insert_with(|| {
            let metadata = json!({"name": entry.service_account, "namespace": owner.namespace, "ownerReferences": [owner.reference()]});
            OperatorPermissions { service_account: json!({"metadata": metadata}), ..OperatorPermissions::default() }
        });
        let hashed = content_hash(owner, None, entry);
        let name = hash::joined_name(&format!("{}-{}", owner.name, entry.service_account), &hashed);
        let owned = |hash: String| {
            let mut metadata = json!({"name": name, "namespace": owner.namespace, "ownerReferences": [owner.reference()]});
            metadata["labels"] = labels(owner, hash);
            metadata
        };
        account.roles.push(json!({"metadata": owned(rules_hash(entry)), "rules": entry.entry["rules"]}));
        let (subjects, role) = (subjects(owner, entry), role_ref("Role", &name));
        let metadata = owned(binding_hash(&role, &subjects));
        account.role_bindings.push(json!({"metadata": metadata, "roleRef": role, "subjects": subjects}));
    }
    for entry in &csv.cluster_permissions {
        let account = all.entry(entry.service_account.clone()).or_insert_with(|| {
            // Upstream leaves the namespace of such an account to the plan's.
            let metadata = json!({"name": entry.service_account, "ownerReferences": [owner.reference()]});
            OperatorPermissions { service_account: json!({"metadata": metadata}), ..OperatorPermissions::default() }
        });
        let name = hash::joined_name(owner.name, &content_hash(owner, Some(owner.namespace), entry));
        let metadata = json!({"name": name, "labels": labels(owner, rules_hash(entry))});
        account.cluster_roles.push(json!({"metadata": metadata, "rules": entry.entry["rules"]}));
        let (subjects, role) = (subjects(owner, entry), role_ref("ClusterRole", &name));
        // Upstream gives the bindings of cluster roles a namespace, which the API server ignores.
        let metadata = json!({"name": name, "namespace": owner.namespace, "labels": labels(owner, binding_hash(&role, &subjects))});
        account.cluster_role_bindings.push(json!({"metadata": metadata, "roleRef": role, "subjects": subjects}));
    }
    for granted in all.values_mut() {
        written("ServiceAccount", std::slice::from_mut(&mut granted.service_account));
        written("rbac.Role", &mut granted.roles);
        written("rbac.RoleBinding", &mut granted.role_bindings);
        written("rbac.ClusterRole", &mut granted.cluster_roles);
        written("rbac.ClusterRoleBinding", &mut granted.cluster_role_bindings);
    }
    Ok(all)
}

/// Leaves out what Go leaves out.
fn written(kind: &str, objects: &mut [Value]) {
    for object in objects {
        // An object that was made of values of these types fits them.
        if let Ok(conformed) = conform(kind, object) {
            *object = conformed;
        }
    }
}

fn labels(owner: &Owner<'_>, hash: String) -> Value {
    let mut labels = owner.labels();
    labels.insert(HASH_LABEL.to_owned(), Value::String(hash));
    Value::Object(labels)
}

fn subjects(owner: &Owner<'_>, entry: &Permissions) -> Value {
    let mut subject = json!({"kind": "ServiceAccount", "name": entry.service_account});
    if !owner.namespace.is_empty() {
        subject["namespace"] = json!(owner.namespace);
    }
    json!([subject])
}

fn role_ref(kind: &str, name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": kind, "name": name})
}

/// The hash that is part of the name: of the CSV's name, the namespace of cluster-wide permissions, and the entry.
fn content_hash(owner: &Owner<'_>, namespace: Option<&str>, entry: &Permissions) -> String {
    let mut json = String::from("{");
    for (key, value) in [("\"name\":", Some(owner.name)), ("\"namespace\":", namespace)] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            json.push_str(key);
            write_string(&mut json, value, Html::Escaped);
            json.push(',');
        }
    }
    json.push_str("\"permission\":");
    json.push_str(&to_string_as("operators.StrategyDeploymentPermissions", &entry.entry));
    json.push('}');
    hash::of_encoded(&json)
}

fn rules_hash(entry: &Permissions) -> String {
    let rules = match entry.entry["rules"].as_array() {
        Some(rules) => {
            let rules: Vec<String> = rules.iter().map(|rule| to_string_as("rbac.PolicyRule", rule)).collect();
            format!("[{}]", rules.join(","))
        }
        None => "null".to_owned(),
    };
    hash::of(&rules)
}

fn binding_hash(role: &Value, subjects: &Value) -> String {
    let role = to_string_as("rbac.RoleRef", role);
    let subjects: Vec<String> = subjects.as_array().into_iter().flatten().map(|subject| to_string_as("rbac.Subject", subject)).collect();
    hash::of(&format!("{{\"RoleRef\":{role},\"Subjects\":[{}]}}", subjects.join(",")))
}
