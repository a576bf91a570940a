//! The objects that the loop itself needs: namespaces, its account, and the permissions that it uses.

use serde_json::{Value, json};

/// The namespace of the account.
pub const NAMESPACE: &str = "openshift-network-operator";
/// The account, and the field manager of what it writes.
pub const ACCOUNT: &str = "network-extras";
/// Its Lease; upstream's name, so that upstream's network operator and this one do not work at the same time.
pub const LEASE: &str = "network-operator-lock";
/// The namespace of the user's settings.
pub(crate) const SETTINGS: &str = "openshift-config";
/// The namespace of the merged bundle.
pub(crate) const MANAGED: &str = "openshift-config-managed";

/// Returns the namespaces, account, role and binding.
pub fn manifests() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    let config = "config.openshift.io";
    let rules = vec![
        // ConfigMaps of any namespace may ask for the bundle.
        rule("", &["configmaps"], &["get", "list", "watch", "create", "patch"]),
        rule(config, &["proxies", "infrastructures", "networks"], &read),
        rule(config, &["proxies/status"], &["update"]),
        rule(config, &["clusteroperators"], &["get", "list", "watch", "create"]),
        json!({"apiGroups": [config], "resources": ["clusteroperators/status"], "verbs": ["update"], "resourceNames": ["network"]}),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &read),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let mut objects: Vec<Value> =
        [NAMESPACE, SETTINGS, MANAGED].map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).into();
    objects.extend([
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "mainstay-network-extras"}, "rules": rules}),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "mainstay-network-extras"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "mainstay-network-extras"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }),
    ]);
    objects
}
