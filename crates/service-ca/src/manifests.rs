//! The objects that the service CA itself needs: its namespace, its account, and the rights that it uses and no more.

use serde_json::{Value, json};

use crate::inject::Taker;

/// Where the CA lives.
pub const NAMESPACE: &str = "openshift-service-ca";
/// The account that it runs as.
pub const ACCOUNT: &str = "service-ca";
/// The Lease of those who run it; upstream's name, so that ours and theirs do not work at the same time.
pub const LEASE: &str = "service-ca-controller-lock";
const ROLE: &str = "mainstay-service-ca";

/// Namespace, account, role and binding.
pub fn manifests() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let mut rules = vec![
        rule("", &["services"], &["get", "list", "watch", "patch"]),
        // Secrets of Services lie in any namespace, under names that the Services choose.
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
        // The bundle that it shows, made by itself.
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
