//! Roles that administrators give to people: cluster-admin, and the aggregated admin, edit and view with their parts.

use serde_json::{Value, json};

use super::{READ, READ_WRITE, WRITE, cluster_role, metadata, rule};
use crate::PolicyRule;

pub(super) fn roles() -> Vec<Value> {
    vec![
        cluster_role("cluster-admin", &[PolicyRule::resources(&["*"], &["*"], &["*"]), PolicyRule::urls(&["*"], &["*"])]),
        aggregated("admin", None),
        aggregated("edit", Some("admin")),
        aggregated("view", Some("edit")),
        part_of("admin", &admin()),
        part_of("edit", &edit()),
        part_of("view", &view()),
    ]
}

fn label(target: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{target}")
}

/// A role that collects others; it may itself be part of the next higher one.
fn aggregated(name: &str, part_of: Option<&str>) -> Value {
    let mut metadata = metadata(name, "");
    if let Some(target) = part_of {
        metadata["labels"][label(target)] = "true".into();
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { label(name): "true" } }] },
        "rules": null,
    })
}

fn part_of(target: &str, rules: &[PolicyRule]) -> Value {
    let mut role = cluster_role(&format!("system:aggregate-to-{target}"), rules);
    role["metadata"]["labels"][label(target)] = "true".into();
    role
}

fn admin() -> Vec<PolicyRule> {
    vec![
        rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        rule(READ_WRITE, "rbac.authorization.k8s.io", "roles rolebindings"),
    ]
}

fn edit() -> Vec<PolicyRule> {
    vec![
        rule(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
        rule("impersonate", "core", "serviceaccounts"),
        rule(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
        rule("create", "core", "pods/eviction"),
        rule(
            WRITE,
            "core",
            "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy",
        ),
        rule("create", "core", "serviceaccounts/token"),
        rule(WRITE, "core events.k8s.io", "events"),
        rule(
            WRITE,
            "apps",
            "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale",
        ),
        rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
        rule(WRITE, "batch", "cronjobs jobs"),
        rule(
            WRITE,
            "extensions",
            "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale \
             replicationcontrollers/scale",
        ),
        rule(WRITE, "policy", "poddisruptionbudgets"),
        rule(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
        rule(READ_WRITE, "coordination.k8s.io", "leases"),
        rule(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    ]
}

fn view() -> Vec<PolicyRule> {
    vec![
        rule(
            READ,
            "core",
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
             replicationcontrollers/scale serviceaccounts services services/status",
        ),
        rule(
            READ,
            "core",
            "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status",
        ),
        rule(READ, "core", "namespaces"),
        rule(READ, "core events.k8s.io", "events"),
        rule(READ, "discovery.k8s.io", "endpointslices"),
        rule(
            READ,
            "apps",
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets \
             replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
        ),
        rule(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        rule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        rule(
            READ,
            "extensions",
            "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies \
             replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
        ),
        rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        rule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        rule(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
    ]
}
