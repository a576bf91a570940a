//! The objects that both controllers need: their namespace, their accounts, and exactly the rights of OLM1-GEN-11.

use serde_json::{Value, json};

use crate::mirrors::{KINDS, MirrorKind};

/// operator-controller's account.
pub const OPERATOR_CONTROLLER: &str = "operator-controller-controller-manager";
/// catalogd's account.
pub const CATALOGD: &str = "catalogd-controller-manager";

const GROUP: &str = "olm.operatorframework.io";
const LIFECYCLE: &str = "lifecycle.mainstay.dev";

/// Namespace, accounts, roles and bindings; the CRDs come from `mainstay-api`.
pub fn manifests(namespace: &str) -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    let events = rule("events.k8s.io", &["events"], &["create", "patch"]);
    let everything = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        account(namespace, OPERATOR_CONTROLLER),
        account(namespace, CATALOGD),
        cluster_role(
            "operator-controller-manager-role",
            &[
                rule(GROUP, &["clusterextensions"], &["get", "list", "watch", "update", "patch"]),
                rule(GROUP, &["clusterextensions/status"], &["update", "patch"]),
                rule(GROUP, &["clusterextensions/finalizers"], &["update"]),
                rule(GROUP, &["clustercatalogs"], &read),
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
                // What the cluster's owners decide, and the changes that wait for them; of whether it has the kinds, too.
                rule(LIFECYCLE, &["lifecyclepolicies"], &read),
                rule(LIFECYCLE, &["changeplans"], &["get", "list", "watch", "create", "update", "patch"]),
                rule(LIFECYCLE, &["changeplans/status"], &["update", "patch"]),
                json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"],
                    "resourceNames": ["lifecyclepolicies.lifecycle.mainstay.dev", "changeplans.lifecycle.mainstay.dev"]}),
                rule("rbac.authorization.k8s.io", &["roles", "rolebindings", "clusterroles", "clusterrolebindings"], &["list", "watch"]),
                rule("", &["serviceaccounts"], &["get"]),
                rule("", &["serviceaccounts/token"], &["create"]),
                events.clone(),
            ],
        ),
        binding("operator-controller-manager-rolebinding", "operator-controller-manager-role", namespace, OPERATOR_CONTROLLER),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "operator-controller-manager-role", "namespace": namespace},
            "rules": [rule("", &["secrets"], &everything)],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "operator-controller-manager-rolebinding", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator-controller-manager-role"},
            "subjects": [{"kind": "ServiceAccount", "name": OPERATOR_CONTROLLER, "namespace": namespace}],
        }),
        cluster_role(
            "catalogd-manager-role",
            &[
                rule(GROUP, &["clustercatalogs"], &["get", "list", "watch", "update", "patch"]),
                rule(GROUP, &["clustercatalogs/status"], &["get", "update", "patch"]),
                rule(GROUP, &["clustercatalogs/finalizers"], &["update"]),
                events,
                // What the cluster says of mirrors (OLM1-DISC-02), and of whether it has the kinds for that.
                rule("config.openshift.io", &mirrors("config.openshift.io"), &read),
                rule("operator.openshift.io", &mirrors("operator.openshift.io"), &read),
                json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": read,
                    "resourceNames": KINDS.map(MirrorKind::definition)}),
            ],
        ),
        binding("catalogd-manager-rolebinding", "catalogd-manager-role", namespace, CATALOGD),
        cluster_role("operator-controller-clusterextension-editor-role", &[rule(GROUP, &["clusterextensions"], &everything)]),
        cluster_role("operator-controller-clusterextension-viewer-role", &[rule(GROUP, &["clusterextensions"], &read)]),
    ]
}

/// What a controller needs in its own namespace on a real cluster besides: its Lease, and for catalogd the way from its Service to the leader
/// (OLM1-CAT-18).
pub fn own_namespace(namespace: &str) -> Vec<Value> {
    let verbs = ["get", "create", "update", "patch"];
    let leases = json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs});
    // OpenShift lets addresses of pods be written only by who may write restricted ones.
    let slices = json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices", "endpointslices/restricted"], "verbs": verbs});
    [("operator-controller-own-namespace", OPERATOR_CONTROLLER, vec![leases.clone()]), ("catalogd-own-namespace", CATALOGD, vec![leases, slices])]
        .into_iter()
        .flat_map(|(name, account, rules)| {
            [
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules}),
                json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                    "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
                }),
            ]
        })
        .collect()
}

/// The kinds with mirror rules of a group.
fn mirrors(group: &str) -> Vec<&'static str> {
    KINDS.into_iter().filter(|kind| kind.group() == group).map(MirrorKind::plural).collect()
}

fn account(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
}

fn cluster_role(name: &str, rules: &[Value]) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, role: &str, namespace: &str, account: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    })
}
