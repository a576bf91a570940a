//! The objects that the operator needs: its namespace, its account, and the permissions that it uses.

pub use mainstay_machine_config_core::NAMESPACE;
use serde_json::{Value, json};

/// The account, and the field manager of what it writes.
pub const ACCOUNT: &str = "machine-config-operator";
/// The Lease that elects the active instance. It has upstream's name, so that ours and upstream's never work at the same time.
pub const LEASE: &str = "machine-config-controller";
const ROLE: &str = "mainstay-machine-config";

/// Returns namespace, account, roles and bindings.
pub fn manifests() -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let group = "machineconfiguration.openshift.io";
    let (read, write) = (["get", "list", "watch"], ["get", "list", "watch", "create", "update", "patch", "delete"]);
    let named = |mut rule: Value, names: &[&str]| {
        rule["resourceNames"] = json!(names);
        rule
    };
    let rules = [
        rule(
            group,
            &[
                "machineconfigs",
                "machineconfigpools",
                "controllerconfigs",
                "kubeletconfigs",
                "containerruntimeconfigs",
                "machineconfignodes",
            ],
            &write,
        ),
        rule(
            group,
            &[
                "machineconfigpools/status",
                "controllerconfigs/status",
                "kubeletconfigs/status",
                "containerruntimeconfigs/status",
                "machineconfignodes/status",
            ],
            &["update"],
        ),
        // Owner references that block the deletion of their owners, where that is admitted.
        rule(group, &["machineconfigpools/finalizers", "kubeletconfigs/finalizers", "containerruntimeconfigs/finalizers"], &["update"]),
        rule("operator.openshift.io", &["machineconfigurations"], &["get", "list", "watch", "create"]),
        rule("operator.openshift.io", &["machineconfigurations/status"], &["update"]),
        rule("operator.openshift.io", &["imagecontentsourcepolicies"], &read),
        rule(
            "config.openshift.io",
            &["images", "imagedigestmirrorsets", "imagetagmirrorsets", "infrastructures", "nodes", "proxies", "clusterversions"],
            &read,
        ),
        rule("config.openshift.io", &["clusteroperators"], &["get", "list", "watch", "create"]),
        named(rule("config.openshift.io", &["clusteroperators/status"], &["update"]), &["machine-config"]),
        rule("", &["nodes"], &["get", "list", "watch", "patch"]),
        named(rule("", &["secrets"], &read), &["pull-secret"]),
        rule("", &["pods"], &["get", "list"]),
        rule("", &["pods/eviction"], &["create"]),
        rule("apps", &["daemonsets", "deployments"], &["get"]),
        rule("policy", &["poddisruptionbudgets"], &["get", "list"]),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &read),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    let rbac = "rbac.authorization.k8s.io";
    let version = format!("{rbac}/v1");
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let local = |namespace: &str, rules: Value| {
        [
            json!({"apiVersion": version, "kind": "Role", "metadata": {"name": ROLE, "namespace": namespace}, "rules": rules}),
            json!({
                "apiVersion": version, "kind": "RoleBinding", "metadata": {"name": ROLE, "namespace": namespace},
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": ROLE}, "subjects": subjects,
            }),
        ]
    };
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": rules}),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ROLE}, "subjects": subjects,
        }),
    ];
    all.extend(local(NAMESPACE, json!([rule("", &["configmaps"], &write)])));
    all
}
