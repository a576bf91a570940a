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
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    std::iter::once(namespace).chain(account(ACCOUNT, &rules)).collect()
}

/// Returns an account of a loop with the permissions that it uses, in the namespace that [`manifests`] has.
pub(crate) fn account(name: &str, rules: &[Value]) -> Vec<Value> {
    let group = "rbac.authorization.k8s.io";
    let (version, role) = (format!("{group}/v1"), format!("mainstay-{name}"));
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}),
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": role}, "rules": rules}),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": role},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        }),
    ]
}
