//! The objects that the Machine API needs: its kinds and their rules, its namespace, its account, and the permissions that it uses.

use mainstay_machine_core::cluster_api::{CLUSTER_API, INFRASTRUCTURE};
use serde_json::{Value, json};

use crate::kinds::NAMESPACE;

/// The service account of the controllers.
pub const ACCOUNT: &str = "machine-api-controllers";
/// The Lease that elects the active instance.
pub const LEASE: &str = "cluster-api-provider-machineset-leader";
/// The Deployment of a Machine API that is not this one.
pub const OTHER: &str = "machine-api-operator";
/// The ClusterOperators that are reported.
pub const OPERATORS: [&str; 3] = ["machine-api", "machine-approver", "control-plane-machine-set"];
const ROLE: &str = "mainstay-machine-api";
/// The namespace of etcd's guard pods and of the member model.
const ETCD_NAMESPACE: &str = mainstay_machine_core::etcd::NAMESPACE;
const GUARDS_ROLE: &str = "mainstay-etcd-guards";
const SIMULATED_ROLE: &str = "mainstay-simulated-instances";
/// The namespace of the account that asks for nodes' first certificates.
const CONFIG_NAMESPACE: &str = "openshift-machine-config-operator";

/// Returns the definitions of the kinds.
///
/// # Errors
/// A checked-in definition is no YAML.
pub fn definitions() -> Result<Vec<Value>, mainstay_yaml::Error> {
    Ok(mainstay_api::machine_manifests()?.into_iter().map(|manifest| manifest.definition).collect())
}

/// Returns the rules of the kinds, the namespace, account, role and binding.
pub fn manifests() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let machines = ["machines", "machinesets", "machinehealthchecks", "controlplanemachinesets"];
    let statuses = ["machines/status", "machinesets/status", "machinehealthchecks/status", "controlplanemachinesets/status"];
    let rules = vec![
        rule("machine.openshift.io", &machines, &["get", "list", "watch", "create", "update", "patch", "delete"]),
        rule("machine.openshift.io", &statuses, &["get", "update", "patch"]),
        // Owner references that block the deletion of their owner.
        rule("machine.openshift.io", &["machinesets/finalizers", "controlplanemachinesets/finalizers"], &["update"]),
        rule("", &["nodes"], &["get", "list", "watch", "patch", "delete"]),
        rule("", &["pods"], &["get", "list"]),
        rule("", &["pods/eviction"], &["create"]),
        rule("apps", &["daemonsets"], &["get", "list"]),
        rule("policy", &["poddisruptionbudgets"], &["get", "list", "watch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
        rule("config.openshift.io", &["infrastructures"], &["get", "list", "watch"]),
        rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "create"]),
        json!({
            "apiGroups": ["config.openshift.io"], "resources": ["clusteroperators/status"], "verbs": ["update"],
            "resourceNames": OPERATORS,
        }),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "list", "watch"]),
        rule("certificates.k8s.io", &["certificatesigningrequests"], &["get", "list", "watch"]),
        rule("certificates.k8s.io", &["certificatesigningrequests/approval"], &["update"]),
        json!({
            "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve"],
            "resourceNames": ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"],
        }),
        json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["machine-approver-config"]}),
        // Instances that Cluster API makes: their changes wake machines.
        rule(CLUSTER_API, &["machines"], &["get", "list", "watch"]),
        // Whether another Machine API is here.
        json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"], "resourceNames": [OTHER]}),
    ];
    let group = "rbac.authorization.k8s.io";
    let version = "rbac.authorization.k8s.io/v1";
    let mut all = mainstay_api::machine::machine_rules();
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let own = json!([
        // What instances boot with, and the same in the form of Cluster API.
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "delete"]},
        {"apiGroups": [CLUSTER_API], "resources": ["machines"], "verbs": ["create", "patch", "delete"]},
        {"apiGroups": [CLUSTER_API], "resources": ["clusters"], "verbs": ["get"]},
        // Templates and what is cloned from them: the kinds are those of the infrastructure.
        {"apiGroups": [INFRASTRUCTURE], "resources": ["*"], "verbs": ["get", "create", "delete"]},
    ]);
    all.extend([
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": rules}),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE}, "subjects": subjects,
        }),
        json!({"apiVersion": version, "kind": "Role", "metadata": {"name": ROLE, "namespace": NAMESPACE}, "rules": own}),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": {"name": ROLE, "namespace": NAMESPACE},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": ROLE}, "subjects": subjects,
        }),
    ]);
    all
}

/// Returns what the simulated provider needs, and its kubelets, to ask for certificates as real ones do.
pub fn simulation_manifests() -> Vec<Value> {
    let group = "rbac.authorization.k8s.io";
    let binding = |name: &str, subject: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:node-bootstrapper"}, "subjects": [subject],
        })
    };
    let instances = json!([
        {"apiGroups": ["sim.mainstay.dev"], "resources": ["siminstances"], "verbs": ["get", "list", "watch", "create", "delete"]},
        {"apiGroups": ["sim.mainstay.dev"], "resources": ["simetcdmembers"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": ["sim.mainstay.dev"], "resources": ["simetcdmembers/status"], "verbs": ["update"]},
    ]);
    let guards = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]);
    let account = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE});
    let version = "rbac.authorization.k8s.io/v1";
    vec![
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": SIMULATED_ROLE}, "rules": instances}),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": SIMULATED_ROLE},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": SIMULATED_ROLE}, "subjects": [account],
        }),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ETCD_NAMESPACE}}),
        json!({"apiVersion": version, "kind": "Role", "metadata": {"name": GUARDS_ROLE, "namespace": ETCD_NAMESPACE}, "rules": guards}),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": {"name": GUARDS_ROLE, "namespace": ETCD_NAMESPACE},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": GUARDS_ROLE}, "subjects": [account],
        }),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONFIG_NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "node-bootstrapper", "namespace": CONFIG_NAMESPACE}}),
        binding(
            "system-bootstrap-node-bootstrapper",
            json!({"kind": "ServiceAccount", "name": "node-bootstrapper", "namespace": CONFIG_NAMESPACE}),
        ),
        binding("mainstay-simulated-nodes", json!({"apiGroup": group, "kind": "Group", "name": "system:nodes"})),
    ]
}
