//! The objects that the service CA itself needs: its namespace, its account, and the minimal permissions that it uses.

use serde_json::{Value, json};

use crate::inject::Taker;

/// The namespace of the CA.
pub const NAMESPACE: &str = "openshift-service-ca";
/// The service account of the CA.
pub const ACCOUNT: &str = "service-ca";
/// The Lease that elects the active instance. It has upstream's name, so that Mainstay's and upstream's never work at the same time.
pub const LEASE: &str = "service-ca-controller-lock";
const ROLE: &str = "mainstay-service-ca";

/// Returns the namespace, account, role and binding.
pub fn manifests() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let mut rules = vec![
        rule("", &["services"], &["get", "list", "watch", "patch"]),
        // The Secrets of Services are in any namespace, under names that the Services choose.
        rule("", &["secrets"], &["get", "list", "watch", "create", "patch"]),
    ];
    for taker in Taker::ALL {
        let resource = taker.resource();
        rules.push(rule(&resource.group, &[&resource.plural], &["get", "list", "watch", "patch"]));
    }
    rules.extend([
        rule("events.k8s.io", &["events"], &["create", "patch"]),
        rule("operator.openshift.io", &["servicecas"], &["get", "list", "watch"]),
        rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "create"]),
        json!({"apiGroups": ["config.openshift.io"], "resources": ["clusteroperators/status"], "verbs": ["update"],
            "resourceNames": [ACCOUNT]}),
    ]);
    let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE});
    let group = "rbac.authorization.k8s.io";
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": rules}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE}, "subjects": [subject],
        }),
        // The ConfigMap with the bundle, which the CA creates itself.
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": ROLE, "namespace": NAMESPACE},
            "rules": [rule("", &["configmaps"], &["create"])],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": ROLE, "namespace": NAMESPACE},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": ROLE}, "subjects": [subject],
        }),
    ]
}
