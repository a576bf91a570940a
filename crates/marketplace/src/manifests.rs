//! The account of the marketplace and its permissions.

use mainstay_olm_classic_core::hub::NAMESPACE;
use serde_json::{Value, json};

/// The account, the field manager of what it writes, and the name of its ClusterOperator without the ending.
pub const ACCOUNT: &str = "marketplace-operator";
/// Its Lease; upstream's name, so that upstream's marketplace and this one do not work at the same time.
pub const LEASE: &str = "marketplace-operator-lock";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the namespace and the account with exactly the permissions that the marketplace needs.
pub fn manifests() -> Vec<Value> {
    let version = format!("{RBAC}/v1");
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ACCOUNT},
            "rules": [
                rule("config.openshift.io", &["operatorhubs"], &read),
                rule("config.openshift.io", &["operatorhubs/status"], &["update"]),
                rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "create"]),
                rule("config.openshift.io", &["clusteroperators/status"], &["update"]),
                rule("operators.coreos.com", &["catalogsources"], &read),
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &read),
                rule("events.k8s.io", &["events"], &["create", "patch"]),
            ],
        }),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ACCOUNT}, "subjects": subjects,
        }),
        json!({
            "apiVersion": version, "kind": "Role", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
            "rules": [rule("operators.coreos.com", &["catalogsources"], &["create", "patch", "delete"])],
        }),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": ACCOUNT}, "subjects": subjects,
        }),
    ]
}
