//! Service accounts, roles and bindings of a CSV.

use std::collections::BTreeSet;

use mainstay_golang::big_int_text;
use serde_json::{Value, json};
use sha2::{Digest, Sha224};

use super::{Site, joined_name, object};
use crate::csv::{Csv, Permissions};
use crate::go;

/// The account of an entry without a name. It exists in every namespace and is not rendered.
const DEFAULT: &str = "default";
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn service_accounts(csv: &Csv, site: &Site<'_>) -> Vec<Value> {
    let names: BTreeSet<_> = csv.permissions.iter().chain(&csv.cluster_permissions).map(account).filter(|name| *name != DEFAULT).collect();
    names.into_iter().map(|name| object("v1", "ServiceAccount", name, Some(site.namespace))).collect()
}

/// A Role and RoleBinding of each entry of `permissions` in each target namespace; none when all namespaces are targeted.
pub(super) fn roles(csv: &Csv, site: &Site<'_>) -> Vec<Value> {
    let mut objects = Vec::new();
    if site.all_namespaces() {
        return objects;
    }
    for namespace in site.targets {
        for entry in &csv.permissions {
            objects.extend(pair(csv, entry, &entry.entry, Some(namespace), site));
        }
    }
    objects
}

/// A ClusterRole and ClusterRoleBinding of each entry of `clusterPermissions`, and of `permissions` when all namespaces are targeted.
pub(super) fn cluster_roles(csv: &Csv, site: &Site<'_>) -> Vec<Value> {
    let mut objects: Vec<Value> = csv.cluster_permissions.iter().flat_map(|entry| pair(csv, entry, &entry.entry, None, site)).collect();
    if site.all_namespaces() {
        for entry in &csv.permissions {
            let mut promoted = entry.entry.clone();
            let rule = json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]});
            match promoted["rules"].as_array_mut() {
                Some(rules) => rules.push(rule),
                None => promoted["rules"] = json!([rule]),
            }
            objects.extend(pair(csv, entry, &promoted, None, site));
        }
    }
    objects
}

fn account(entry: &Permissions) -> &str {
    if entry.service_account.is_empty() { DEFAULT } else { &entry.service_account }
}

/// A role and its binding. `content` is the entry that the name is a hash of.
fn pair(csv: &Csv, entry: &Permissions, content: &Value, namespace: Option<&str>, site: &Site<'_>) -> [Value; 2] {
    let name = joined_name(&format!("{}-{}", csv.name, account(entry)), &hash(content));
    let (role_kind, binding_kind) = if namespace.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
    let api_version = format!("{RBAC}/v1");
    let mut role = object(&api_version, role_kind, &name, namespace);
    role["rules"] = content["rules"].clone();
    let mut binding = object(&api_version, binding_kind, &name, namespace);
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": account(entry), "namespace": site.namespace}]);
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": role_kind, "name": name});
    [role, binding]
}

/// SHA-224 of the entry as Go encodes it, with the newline that Go's encoder ends with, as a number in base 36.
fn hash(entry: &Value) -> String {
    let mut text = go::to_string_as("operators.StrategyDeploymentPermissions", entry);
    text.push('\n');
    big_int_text(&Sha224::digest(text.as_bytes()), 36)
}
