//! The account of the package server and its permissions.

use serde_json::{Value, json};

use crate::front;
use crate::manifest::GROUP;
use crate::register::{NAMESPACE, SERVICE};

/// The account, and the field manager of what it writes.
pub const ACCOUNT: &str = "packageserver";
const RBAC: &str = "rbac.authorization.k8s.io";
const ROLE: &str = "system:controller:packageserver";

/// Returns the account with exactly the permissions that the package server needs. Their namespaces must exist.
pub fn manifests() -> Vec<Value> {
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let api_service = format!("v1.{GROUP}");
    let version = format!("{RBAC}/v1");
    let keep = ["get", "list", "watch", "patch", "update"];
    let role = json!({
        "apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ROLE},
        "rules": [
            {"apiGroups": ["operators.coreos.com"], "resources": ["catalogsources"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
            {"apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"], "resourceNames": [api_service], "verbs": keep},
            {"apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [NAMESPACE], "verbs": ["get", "patch"]},
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]},
        ],
    });
    let services = json!({
        "apiVersion": version, "kind": "Role", "metadata": {"name": ROLE, "namespace": NAMESPACE},
        "rules": [
            {"apiGroups": [""], "resources": ["services"], "resourceNames": [SERVICE], "verbs": keep},
            {"apiGroups": [""], "resources": ["services"], "verbs": ["create"]},
            // The address of the process that serves, where one of several does; OpenShift asks for the permission for restricted ones.
            {"apiGroups": [""], "resources": ["endpoints"], "resourceNames": [SERVICE], "verbs": ["get", "patch"]},
            {"apiGroups": [""], "resources": ["endpoints", "endpoints/restricted"], "verbs": ["create"]},
        ],
    });
    let authentication = json!({
        "apiVersion": version, "kind": "Role", "metadata": {"name": ROLE, "namespace": front::NAMESPACE},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [front::CONFIG_MAP], "verbs": ["get", "list", "watch"]}],
    });
    let binding = |namespace: Option<&str>| {
        let (kind, role) = if namespace.is_some() { ("RoleBinding", "Role") } else { ("ClusterRoleBinding", "ClusterRole") };
        let mut binding = json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": RBAC, "kind": role, "name": ROLE}, "subjects": subjects,
        });
        if let Some(namespace) = namespace {
            binding["metadata"]["namespace"] = json!(namespace);
        }
        binding
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        role,
        services,
        authentication,
        binding(None),
        binding(Some(NAMESPACE)),
        binding(Some(front::NAMESPACE)),
    ]
}
