//! What a fresh cluster holds of the OLM operator (OLM0-API-33, OLM0-OG-16, OLM0-OG-26).

use serde_json::{Value, json};

use super::{ACCOUNT, NAMESPACE};

/// The namespace that every user may read CSVs in.
const READ: &str = "openshift";
/// The namespace of operators for all namespaces.
const OPERATORS: &str = "openshift-operators";
/// The namespace of global catalogs.
const MARKETPLACE: &str = "openshift-marketplace";
const RBAC: &str = "rbac.authorization.k8s.io";

/// An object, and whether it is created once and then left to its users.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The object.
    pub object: Value,
    /// True if it is created if it is absent, and never reset.
    pub is_users: bool,
}

/// The objects in the order in which they can be applied.
pub fn manifests() -> Vec<Manifest> {
    let mut all: Vec<Manifest> = Vec::new();
    let mut own = |object: Value| all.push(Manifest { object, is_users: false });
    for name in [OPERATORS, NAMESPACE, MARKETPLACE, READ] {
        own(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
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
    own(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": "copied-csv-viewer", "namespace": READ},
        "rules": [{"apiGroups": ["operators.coreos.com"], "resources": ["clusterserviceversions"], "verbs": ["get", "list", "watch"]}],
    }));
    own(json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "copied-csv-viewers", "namespace": READ},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "copied-csv-viewer"},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:authenticated"}],
    }));
    let group = |name: &str, namespace: &str, spec: Value| json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": name, "namespace": namespace}, "spec": spec});
    own(group("global-operators", OPERATORS, json!({})));
    own(group("olm-operators", NAMESPACE, json!({"targetNamespaces": [NAMESPACE]})));
    let config = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}});
    all.push(Manifest { object: config, is_users: true });
    all
}

fn cluster_role(name: &str, labels: &Value, rules: &Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": rules})
}
