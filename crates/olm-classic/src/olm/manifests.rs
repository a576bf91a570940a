//! The account of both operators with its permissions, and the roles that OLM gives to users (OLM0-OG-16).
//!
//! The other objects of a fresh cluster are in `olm_classic_core::fresh`.

use serde_json::{Value, json};

use super::{ACCOUNT, NAMESPACE};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the account with its permissions, and the roles that users get (OLM0-OG-16). Their namespace must exist.
pub fn manifests() -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let mut own = |object: Value| all.push(object);
    own(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}));
    own(cluster_role(
        "system:controller:operator-lifecycle-manager",
        &json!({}),
        &json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["watch", "list", "get", "create", "update", "patch", "delete", "deletecollection", "escalate", "bind"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]),
    ));
    own(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "olm-operator-binding-openshift-operator-lifecycle-manager"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:controller:operator-lifecycle-manager"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }));
    own(cluster_role(
        "aggregate-olm-edit",
        &json!({"rbac.authorization.k8s.io/aggregate-to-admin": "true", "rbac.authorization.k8s.io/aggregate-to-edit": "true"}),
        &json!([
            {"apiGroups": ["operators.coreos.com"], "resources": ["subscriptions"], "verbs": ["create", "update", "patch", "delete"]},
            {"apiGroups": ["operators.coreos.com"], "resources": ["clusterserviceversions", "catalogsources", "installplans", "subscriptions"],
                "verbs": ["delete"]},
        ]),
    ));
    let view = ["clusterserviceversions", "catalogsources", "installplans", "subscriptions", "operatorgroups"];
    own(cluster_role(
        "aggregate-olm-view",
        &json!({
            "rbac.authorization.k8s.io/aggregate-to-admin": "true", "rbac.authorization.k8s.io/aggregate-to-edit": "true",
            "rbac.authorization.k8s.io/aggregate-to-view": "true",
        }),
        &json!([
            {"apiGroups": ["operators.coreos.com"], "resources": view, "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["packages.operators.coreos.com"], "resources": ["packagemanifests", "packagemanifests/icon"],
                "verbs": ["get", "list", "watch"]},
        ]),
    ));
    all
}

fn cluster_role(name: &str, labels: &Value, rules: &Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": rules})
}
