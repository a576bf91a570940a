//! The objects of settings, by the ClusterOperator that they belong to.

use mainstay_cluster_version_core::stand_in::{Candidate, SIMULATED};
use serde_json::{Value, json};

const OPERATOR: &str = "operator.openshift.io/v1";
const CONFIG: &str = "config.openshift.io/v1";

/// The settings of operators: ClusterOperator, kind, name. All begin as managed.
const OPERATORS: [(&str, &str, &str); 15] = [
    ("etcd", "Etcd", "cluster"),
    ("kube-apiserver", "KubeAPIServer", "cluster"),
    ("kube-controller-manager", "KubeControllerManager", "cluster"),
    ("kube-scheduler", "KubeScheduler", "cluster"),
    ("config-operator", "Config", "cluster"),
    ("authentication", "Authentication", "cluster"),
    ("openshift-apiserver", "OpenShiftAPIServer", "cluster"),
    ("openshift-controller-manager", "OpenShiftControllerManager", "cluster"),
    ("service-ca", "ServiceCA", "cluster"),
    ("kube-storage-version-migrator", "KubeStorageVersionMigrator", "cluster"),
    ("csi-snapshot-controller", "CSISnapshotController", "cluster"),
    ("storage", "Storage", "cluster"),
    ("console", "Console", "cluster"),
    ("network", "Network", "cluster"),
    ("dns", "DNS", "default"),
];

/// The configuration of the cluster that begins empty: ClusterOperator and kind; all are named `cluster`.
const SINGLETONS: [(&str, &str); 16] = [
    ("config-operator", "APIServer"),
    ("config-operator", "Authentication"),
    ("openshift-controller-manager", "Build"),
    ("config-operator", "Console"),
    ("config-operator", "DNS"),
    ("config-operator", "FeatureGate"),
    ("config-operator", "Image"),
    ("config-operator", "Infrastructure"),
    ("config-operator", "Ingress"),
    ("config-operator", "Network"),
    ("config-operator", "Node"),
    ("config-operator", "OAuth"),
    ("config-operator", "Project"),
    ("config-operator", "Proxy"),
    ("config-operator", "Scheduler"),
    ("marketplace", "OperatorHub"),
];

/// Returns the objects that are made once and belong to the user from then on.
///
/// Each says that no operand stands behind it. A user who deletes one gets it back with the next pass over the release, as from the operator
/// that is played.
pub fn objects() -> Vec<Candidate> {
    let operators = OPERATORS
        .iter()
        .map(|(owner, kind, name)| of(owner, made(OPERATOR, kind, "", name, "spec", &json!({"managementState": "Managed"}))));
    let singletons = SINGLETONS.iter().map(|(owner, kind)| of(owner, made(CONFIG, kind, "", "cluster", "spec", &json!({}))));
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "simulated", "annotations": {SIMULATED: "true", "storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "mainstay.dev/simulated", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let others = vec![
        of("monitoring", namespace("openshift-monitoring")),
        of("monitoring", made("v1", "ConfigMap", "openshift-monitoring", "cluster-monitoring-config", "data", &json!({"config.yaml": ""}))),
        of("ingress", namespace("openshift-ingress")),
        of("ingress", namespace("openshift-ingress-operator")),
        of("ingress", made(OPERATOR, "IngressController", "openshift-ingress-operator", "default", "spec", &json!({}))),
        of("openshift-samples", namespace("openshift")),
        of("storage", class),
    ];
    operators.chain(singletons).chain(others).collect()
}

fn of(operator: &str, object: Value) -> Candidate {
    Candidate { operator: operator.to_owned(), object }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": {SIMULATED: "true"}}})
}

fn made(api_version: &str, kind: &str, namespace: &str, name: &str, field: &str, content: &Value) -> Value {
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": {SIMULATED: "true"}}, field: content});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}
