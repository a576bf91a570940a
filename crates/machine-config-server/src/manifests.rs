//! The objects that the server needs: its account and permissions, and the account that machines join with.

use mainstay_machine_config_core::NAMESPACE;
use serde_json::{Value, json};

/// The account of the server.
pub const ACCOUNT: &str = "machine-config-server";
/// The account of machines until they have certificates of their own.
const BOOTSTRAPPER: &str = "node-bootstrapper";
/// The Secret with its token.
pub(crate) const TOKEN: &str = "node-bootstrapper-token";
/// The ConfigMap with the authority of the API, where it is another one than that of the token.
pub(crate) const KUBECONFIG_DATA: &str = "kubeconfig-data";
const ROLE: &str = "mainstay-machine-config-server";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns accounts, token, roles and bindings.
pub fn manifests() -> Vec<Value> {
    let version = format!("{RBAC}/v1");
    let read = ["get", "list", "watch"];
    let rules = json!([
        {"apiGroups": ["machineconfiguration.openshift.io"], "resources": ["machineconfigs", "machineconfigpools", "controllerconfigs"], "verbs": read},
        {"apiGroups": ["config.openshift.io"], "resources": ["infrastructures"], "verbs": read},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": read},
    ]);
    let own = json!([
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [TOKEN], "verbs": read},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [KUBECONFIG_DATA], "verbs": read},
    ]);
    let subject = |name: &str| json!([{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]);
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}});
    let binding = |kind: &str, name: &str, role: (&str, &str), who: &str| {
        let mut binding = json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": role.0, "name": role.1}, "subjects": subject(who),
        });
        if kind == "RoleBinding" {
            binding["metadata"]["namespace"] = json!(NAMESPACE);
        }
        binding
    };
    vec![
        account(ACCOUNT),
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": rules}),
        binding("ClusterRoleBinding", ROLE, ("ClusterRole", ROLE), ACCOUNT),
        json!({"apiVersion": version, "kind": "Role", "metadata": {"name": ROLE, "namespace": NAMESPACE}, "rules": own}),
        binding("RoleBinding", ROLE, ("Role", ROLE), ACCOUNT),
        account(BOOTSTRAPPER),
        // The role of those who join is part of every cluster.
        binding("ClusterRoleBinding", "system-bootstrap-node-bootstrapper", ("ClusterRole", "system:node-bootstrapper"), BOOTSTRAPPER),
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": TOKEN, "namespace": NAMESPACE, "annotations": {"kubernetes.io/service-account.name": BOOTSTRAPPER}},
        }),
    ]
}
