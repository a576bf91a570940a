//! The objects that the cluster operator needs: its namespace, its account, and exactly the permissions that it uses.

use serde_json::{Value, json};

use super::controller::KINDS;
use crate::manifests::{CATALOGD, COMBINED, OPERATOR_CONTROLLER};

/// The namespace of the operator.
pub const NAMESPACE: &str = "openshift-cluster-olm-operator";
/// The account of the operator.
pub const ACCOUNT: &str = "cluster-olm-operator";
/// The operator's Lease; upstream's name, so that upstream's operator and this one do not work at the same time.
pub const LEASE: &str = "cluster-olm-operator-lock";
/// The CRD without which the operator has nothing to do.
pub const DEFINITION: &str = "olms.operator.openshift.io";

/// Returns namespace, account, roles and bindings. `system` is the namespace of both controllers.
pub fn manifests(system: &str) -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let named = |group: &str, resource: &str, verbs: &[&str], names: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs, "resourceNames": names});
    let read = ["get", "list", "watch"];
    let definitions = KINDS.map(|kind| format!("{}.{}", kind.plural, kind.group));
    let definitions: Vec<&str> = definitions.iter().map(String::as_str).collect();
    let cluster = [
        named("apiextensions.k8s.io", "customresourcedefinitions", &read, &definitions),
        rule("olm.operatorframework.io", &["clusterextensions"], &read),
        rule("olm.operatorframework.io", &["clustercatalogs"], &["get", "list", "watch", "create", "patch"]),
        rule("operator.openshift.io", &["olms"], &read),
        named("operator.openshift.io", "olms/status", &["update"], &["cluster"]),
        rule("config.openshift.io", &["clusterversions", "featuregates", "proxies"], &read),
        rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "create"]),
        named("config.openshift.io", "clusteroperators/status", &["update"], &["olm"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    let here = [
        rule("", &["secrets"], &["list"]),
        rule("apps", &["deployments"], &["list", "watch"]),
        named("apps", "deployments", &["get", "patch"], &[CATALOGD, OPERATOR_CONTROLLER, COMBINED]),
    ];
    let (version, group) = ("rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io");
    let subject = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let role = |kind: &str| json!({"apiGroup": group, "kind": kind, "name": ACCOUNT});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": cluster}),
        json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT}, "roleRef": role("ClusterRole"), "subjects": subject}),
        json!({"apiVersion": version, "kind": "Role", "metadata": {"name": ACCOUNT, "namespace": system}, "rules": here}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": {"name": ACCOUNT, "namespace": system}, "roleRef": role("Role"), "subjects": subject}),
    ]
}
