//! The objects that the loop itself needs: its namespace, its account, and the permissions that it uses.

use serde_json::{Value, json};

use crate::NAMESPACE;

/// The account, and the field manager of what it writes.
pub const ACCOUNT: &str = "cloud-credential-operator";
/// Its Lease; upstream's name, so that upstream's operator and this one do not work at the same time.
pub const LEASE: &str = "cloud-credential-operator-leader";

/// Returns the namespace, account, role and binding.
pub fn manifests() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    let rules = vec![
        // The Secrets are in the namespaces, and have the names, that requests choose.
        rule("", &["secrets"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule("", &["namespaces", "configmaps"], &read),
        rule("cloudcredential.openshift.io", &["credentialsrequests"], &["get", "list", "watch", "patch"]),
        rule("cloudcredential.openshift.io", &["credentialsrequests/status"], &["update"]),
        rule("operator.openshift.io", &["cloudcredentials"], &read),
        rule("config.openshift.io", &["authentications", "infrastructures", "clusterversions"], &read),
        rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "create"]),
        json!({"apiGroups": ["config.openshift.io"], "resources": ["clusteroperators/status"], "verbs": ["update"], "resourceNames": ["cloud-credential"]}),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &read),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "mainstay-cloud-credential"}, "rules": rules}),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "mainstay-cloud-credential"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "mainstay-cloud-credential"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }),
    ]
}
