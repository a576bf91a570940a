//! Default Roles and RoleBindings of kube-system and kube-public.

use serde_json::{Value, json};

use super::{READ, account, binding, events, metadata, rule, user};
use crate::{PolicyRule, Subject};

const SYSTEM: &str = "kube-system";
const PUBLIC: &str = "kube-public";

pub(super) fn roles() -> Vec<Value> {
    vec![
        role(
            SYSTEM,
            "extension-apiserver-authentication-reader",
            &[rule(READ, "core", "configmaps").named(&["extension-apiserver-authentication"])],
        ),
        role(SYSTEM, "system:controller:bootstrap-signer", &[rule(READ, "core", "secrets")]),
        role(SYSTEM, "system:controller:cloud-provider", &[rule("create get list watch", "core", "configmaps")]),
        role(SYSTEM, "system:controller:token-cleaner", &[rule("delete get list watch", "core", "secrets"), events()]),
        leader_role("kube-controller-manager"),
        leader_role("kube-scheduler"),
        role(
            PUBLIC,
            "system:controller:bootstrap-signer",
            &[rule(READ, "core", "configmaps"), rule("update", "core", "configmaps").named(&["cluster-info"]), events()],
        ),
    ]
}

pub(super) fn role_bindings() -> Vec<Value> {
    let leader = |name: &str| {
        let role = format!("system::leader-locking-{name}");
        role_binding(SYSTEM, &role, &role, &[user(&format!("system:{name}")), account(name)])
    };
    let controller = |namespace: &str, name: &str| {
        let role = format!("system:controller:{name}");
        role_binding(namespace, &role, &role, &[account(name)])
    };
    vec![
        role_binding(
            SYSTEM,
            "system::extension-apiserver-authentication-reader",
            "extension-apiserver-authentication-reader",
            &[user("system:kube-controller-manager"), user("system:kube-scheduler")],
        ),
        leader("kube-controller-manager"),
        leader("kube-scheduler"),
        controller(SYSTEM, "bootstrap-signer"),
        controller(SYSTEM, "cloud-provider"),
        controller(SYSTEM, "token-cleaner"),
        controller(PUBLIC, "bootstrap-signer"),
    ]
}

/// Leader election by a Lease in kube-system.
fn leader_role(name: &str) -> Value {
    let role_name = format!("system::leader-locking-{name}");
    role(SYSTEM, &role_name, &[rule("create get list update watch", "coordination.k8s.io", "leases")])
}

fn role(namespace: &str, name: &str, rules: &[PolicyRule]) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata(name, namespace), "rules": rules })
}

fn role_binding(namespace: &str, name: &str, role: &str, subjects: &[Subject]) -> Value {
    binding("RoleBinding", &metadata(name, namespace), "Role", role, subjects)
}
