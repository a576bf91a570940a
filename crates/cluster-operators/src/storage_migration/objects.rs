//! The CRDs of migrations, and the account of the loop with the permissions that it uses.

use serde_json::{Value, json};

/// The group of the kinds.
pub(super) const GROUP: &str = "migration.k8s.io";
/// Their version.
pub(super) const API_VERSION: &str = "migration.k8s.io/v1alpha1";
/// The namespace of the account.
pub const NAMESPACE: &str = "openshift-kube-storage-version-migrator";
/// The account, and the field manager of what it writes.
pub const ACCOUNT: &str = "storage-version-migrator";

/// The Lease of the loop where several processes could run it.
pub const LEASE: &str = "storage-version-migrator-lock";

/// Returns the CRDs of migrations and of their record.
pub fn definitions() -> [Value; 2] {
    let text = || json!({"type": "string"});
    let texts = |fields: &[&str]| -> Value { fields.iter().map(|field| ((*field).to_owned(), text())).collect() };
    let migration = json!({
        "spec": {"type": "object", "required": ["resource"], "properties": {
            "resource": {"type": "object", "properties": texts(&["group", "version", "resource"])},
            "continueToken": text(),
        }},
        "status": {"type": "object", "properties": {"conditions": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type", "status"], "properties": {
                "type": text(), "status": text(), "reason": text(), "message": text(),
                "lastUpdateTime": {"type": "string", "format": "date-time"},
            }},
        }}},
    });
    let state = json!({
        "spec": {"type": "object", "properties": {"resource": {"type": "object", "properties": texts(&["group", "resource"])}}},
        "status": {"type": "object", "properties": {
            "currentStorageVersionHash": text(), "persistedStorageVersionHashes": {"type": "array", "items": text()},
            "lastHeartbeat": {"type": "string", "format": "date-time"},
        }},
    });
    [definition("StorageVersionMigration", "storageversionmigrations", &migration), definition("StorageState", "storagestates", &state)]
}

/// Returns the namespace, the account and its role.
///
/// The account reads and writes objects of any kind, as that is what a migration is. It creates, patches and deletes none but its own.
pub fn manifests() -> Vec<Value> {
    let group = "rbac.authorization.k8s.io";
    let name = "mainstay-storage-version-migrator";
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [
                rule("*", &["*"], &["get", "list", "update"]),
                rule(GROUP, &["storageversionmigrations", "storagestates"], &["create", "delete", "patch", "watch"]),
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["watch"]),
                rule("config.openshift.io", &["clusteroperators"], &["watch"]),
            ],
        }),
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }),
    ]
}

fn definition(kind: &str, plural: &str, properties: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        // The group is one of Kubernetes' own, whose CRDs name their approval.
        "metadata": {"name": format!("{plural}.{GROUP}"), "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/747",
        }},
        "spec": {
            "group": GROUP, "scope": "Cluster",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    })
}
