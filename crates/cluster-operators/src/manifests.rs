//! The objects that the loops need: the namespace, their account, and the permissions that they use.

use serde_json::{Value, json};

/// The namespace of the account.
pub const NAMESPACE: &str = "mainstay-cluster-operators";
/// The account, and the field manager of what it writes.
pub const ACCOUNT: &str = "status-player";

/// Returns the namespace, account, role and binding.
pub fn manifests() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let config = "config.openshift.io";
    let rules = vec![
        rule(config, &["clusteroperators"], &["get", "list", "watch", "patch"]),
        rule(config, &["clusteroperators/status"], &["update"]),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "list", "watch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "mainstay-status-player"}, "rules": rules}),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "mainstay-status-player"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "mainstay-status-player"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }),
    ]
}
