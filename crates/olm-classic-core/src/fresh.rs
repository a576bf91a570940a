//! The objects of a cluster with OLM classic before anything is installed (OLM0-API-33).

use mainstay_objects::{Expect, Step};
use serde_json::{Value, json};

use crate::hub;

/// The namespace whose OperatorGroup watches all namespaces.
pub const GLOBAL_OPERATORS: &str = "openshift-operators";
/// The namespace of OLM itself.
pub const OLM: &str = "openshift-operator-lifecycle-manager";
/// The namespace whose ClusterServiceVersions every authenticated user reads.
pub const SHARED: &str = "openshift";

const RBAC: &str = "rbac.authorization.k8s.io";
const VIEWER: &str = "copied-csv-viewer";
/// The role of those who read the whole cluster.
const CLUSTER_READER: &str = "cluster-reader";

/// Returns the steps that make the objects. Settings (OLMConfig, OperatorHub, OperatorGroups) are made once and belong to the administrator
/// from then on. `disable_catalogs` is the OperatorHub with which the cluster starts (OLM0-HUB-12).
///
/// The aggregated ClusterRoles (OLM0-OG-16) are not among them.
pub fn steps(disable_catalogs: bool) -> Vec<Step> {
    let kept = |object: Value| Step::Apply { object, force: true, expect: Expect::default() };
    let namespaces = [GLOBAL_OPERATORS, OLM, hub::NAMESPACE, SHARED];
    let namespaces = namespaces.map(|name| kept(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})));
    let group = |name: &str, namespace: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": namespace});
        Step::CreateOnce(json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": metadata, "spec": spec}))
    };
    let version = format!("{RBAC}/v1");
    let readers = ["cluster-reader", "view"].map(|to| json!({"matchLabels": {format!("{RBAC}/aggregate-to-{to}"): "true"}}));
    let mut steps = Vec::from(namespaces);
    steps.extend([
        group("global-operators", GLOBAL_OPERATORS, json!({})),
        group("olm-operators", OLM, json!({"targetNamespaces": [OLM]})),
        Step::CreateOnce(json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}})),
        Step::CreateOnce(hub::operator_hub(disable_catalogs)),
        kept(json!({
            "apiVersion": version, "kind": "Role", "metadata": {"name": VIEWER, "namespace": SHARED},
            "rules": [{"apiGroups": ["operators.coreos.com"], "resources": ["clusterserviceversions"], "verbs": ["get", "list", "watch"]}],
        })),
        // What those who may read the whole cluster have; a platform's own stays as it is (OLM0-USER-11).
        Step::CreateOnce(json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": {"name": CLUSTER_READER}, "rules": [],
            "aggregationRule": {"clusterRoleSelectors": readers},
        })),
        kept(json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": {"name": format!("{VIEWER}s"), "namespace": SHARED},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": VIEWER},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:authenticated"}],
        })),
    ]);
    steps
}
