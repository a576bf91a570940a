//! The roles and bindings of every cluster: Kubernetes 1.34's default policy.
//!
//! The tables hold only the differences from role to role; the objects made from them carry the bootstrapping label and the autoupdate
//! annotation, so that [`crate::reconcile`] may keep them.

mod controllers;
mod namespaced;
mod system;
mod user;

use serde_json::{Value, json};

use crate::reconcile::AUTOUPDATE_ANNOTATION;
use crate::{MASTERS_GROUP, PolicyRule, RBAC_GROUP, Subject};

/// Every default object: ClusterRoles, ClusterRoleBindings, Roles, RoleBindings.
pub fn objects() -> Vec<Value> {
    let mut all = cluster_roles();
    all.extend(cluster_role_bindings());
    all.extend(namespaced::roles());
    all.extend(namespaced::role_bindings());
    all
}

/// The default ClusterRoles.
pub fn cluster_roles() -> Vec<Value> {
    let mut roles = user::roles();
    roles.extend(system::roles());
    roles.extend(controllers::table().iter().map(|(name, rules)| cluster_role(&controllers::role_name(name), rules)));
    roles
}

/// The default ClusterRoleBindings.
pub fn cluster_role_bindings() -> Vec<Value> {
    let mut bindings = vec![
        cluster_binding("cluster-admin", &[group(MASTERS_GROUP)]),
        cluster_binding("system:monitoring", &[group("system:monitoring")]),
        cluster_binding("system:discovery", &[group("system:authenticated")]),
        cluster_binding("system:basic-user", &[group("system:authenticated")]),
        cluster_binding("system:public-info-viewer", &[group("system:authenticated"), group("system:unauthenticated")]),
        cluster_binding("system:node-proxier", &[user("system:kube-proxy")]),
        cluster_binding("system:kube-controller-manager", &[user("system:kube-controller-manager")]),
        cluster_binding("system:kube-dns", &[account("kube-dns")]),
        cluster_binding("system:kube-scheduler", &[user("system:kube-scheduler")]),
        cluster_binding("system:volume-scheduler", &[user("system:kube-scheduler")]),
        cluster_binding("system:node", &[]),
        cluster_binding("system:service-account-issuer-discovery", &[group("system:serviceaccounts")]),
    ];
    bindings.extend(controllers::table().iter().map(|(name, _)| cluster_binding(&controllers::role_name(name), &[account(name)])));
    bindings
}

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const READ_WRITE: &str = "create delete deletecollection get list patch update watch";

/// A rule from blank-separated lists; `core` stands for the core group.
fn rule(verbs: &str, groups: &str, resources: &str) -> PolicyRule {
    PolicyRule {
        verbs: sorted(verbs),
        api_groups: groups.split_whitespace().map(|g| if g == "core" { String::new() } else { g.to_owned() }).collect(),
        resources: sorted(resources),
        ..PolicyRule::default()
    }
}

fn urls(urls: &str) -> PolicyRule {
    PolicyRule { verbs: sorted("get"), non_resource_urls: sorted(urls), ..PolicyRule::default() }
}

fn events() -> PolicyRule {
    rule("create patch update", "core events.k8s.io", "events")
}

fn sorted(list: &str) -> Vec<String> {
    let mut items: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
    items.sort();
    items
}

fn metadata(name: &str, namespace: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
        "annotations": { AUTOUPDATE_ANNOTATION: "true" },
    });
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    metadata
}

fn cluster_role(name: &str, rules: &[PolicyRule]) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata(name, ""), "rules": rules })
}

fn cluster_binding(role: &str, subjects: &[Subject]) -> Value {
    binding("ClusterRoleBinding", &metadata(role, ""), "ClusterRole", role, subjects)
}

fn binding(kind: &str, metadata: &Value, role_kind: &str, role: &str, subjects: &[Subject]) -> Value {
    let mut object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": { "apiGroup": RBAC_GROUP, "kind": role_kind, "name": role },
    });
    if !subjects.is_empty() {
        object["subjects"] = json!(subjects);
    }
    object
}

fn subject(kind: &str, name: &str) -> Subject {
    Subject { kind: kind.to_owned(), api_group: RBAC_GROUP.to_owned(), name: name.to_owned(), namespace: String::new() }
}

fn group(name: &str) -> Subject {
    subject("Group", name)
}

fn user(name: &str) -> Subject {
    subject("User", name)
}

fn account(name: &str) -> Subject {
    Subject { kind: "ServiceAccount".to_owned(), api_group: String::new(), name: name.to_owned(), namespace: "kube-system".to_owned() }
}
