//! The objects that both controllers need: their namespace, their accounts, and exactly the permissions of OLM1-GEN-11.

use mainstay_image_source::mirrors::{KINDS, MirrorKind};
use serde_json::{Value, json};

use crate::deployment::CATALOGD_SERVICE;
use crate::endpoint::slice_of;

/// operator-controller's account.
pub const OPERATOR_CONTROLLER: &str = "operator-controller-controller-manager";
/// catalogd's account.
pub const CATALOGD: &str = "catalogd-controller-manager";

/// operator-controller's Lease; upstream's name, so that upstream's controller and this one do not work at the same time.
pub const OPERATOR_CONTROLLER_LEASE: &str = "9c4404e7.operatorframework.io";
/// catalogd's Lease; upstream's name, too.
pub const CATALOGD_LEASE: &str = "catalogd-operator-lock";
/// The account of both controllers in one process.
pub const COMBINED: &str = "mainstay-olm-v1";

/// The accounts of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accounts {
    /// operator-controller's.
    pub operator_controller: &'static str,
    /// catalogd's.
    pub catalogd: &'static str,
}

impl Accounts {
    /// One account for each controller.
    pub const SEPARATE: Self = Self { operator_controller: OPERATOR_CONTROLLER, catalogd: CATALOGD };
    /// One account for both controllers, with exactly the permissions of both.
    pub const COMBINED: Self = Self { operator_controller: COMBINED, catalogd: COMBINED };

    /// Returns each name once.
    fn names(self) -> Vec<&'static str> {
        if self.operator_controller == self.catalogd { vec![self.catalogd] } else { vec![self.operator_controller, self.catalogd] }
    }

    /// Returns the accounts as subjects of a binding, each once.
    pub fn subjects(self, namespace: &str) -> Vec<Value> {
        self.names().into_iter().map(|name| subject(name, namespace)).collect()
    }
}

const GROUP: &str = "olm.operatorframework.io";
const LIFECYCLE: &str = "lifecycle.mainstay.dev";

/// The label of the roles that let operator-controller act as one account. Its value is the extension that they are for.
pub const TOKEN_LABEL: &str = "lifecycle.mainstay.dev/token-for";

/// Returns namespace, accounts, roles and bindings for a cluster whose operator-controller may act as every account, like that of `mainstay up`,
/// which runs in the process of the API. The CRDs come from `mainstay-api`.
pub fn manifests(namespace: &str) -> Vec<Value> {
    let mut all = manifests_for(namespace, Accounts::SEPARATE);
    all.extend(any_account(namespace, Accounts::SEPARATE));
    all.extend(make_namespaces(namespace, Accounts::SEPARATE));
    all.extend(read_pull_secrets(namespace, Accounts::SEPARATE, &[]));
    all
}

/// Lets catalogd read the pull secrets of catalogs (OLM1-CAT-20): the named Secrets of its namespace, or all if `names` is empty.
pub fn read_pull_secrets(namespace: &str, accounts: Accounts, names: &[String]) -> [Value; 2] {
    let (version, name) = ("rbac.authorization.k8s.io/v1", "catalogd-pull-secrets");
    let metadata = json!({"name": name, "namespace": namespace});
    let mut rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]});
    if !names.is_empty() {
        rule["resourceNames"] = names.into();
    }
    [
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [subject(accounts.catalogd, namespace)]}),
    ]
}

/// Lets operator-controller create namespaces for extensions that ask for theirs (OLM1-API-02). It cannot change or delete any.
pub fn make_namespaces(namespace: &str, accounts: Accounts) -> [Value; 2] {
    let name = "operator-controller-make-namespaces";
    [
        cluster_role(name, &[json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]})]),
        binding(name, name, namespace, accounts.operator_controller),
    ]
}

/// Lets operator-controller act as every account of the cluster. A user who controls it is then as powerful as the most powerful account.
pub fn any_account(namespace: &str, accounts: Accounts) -> [Value; 2] {
    let name = "operator-controller-any-account";
    [
        cluster_role(name, &[json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]})]),
        binding(name, name, namespace, accounts.operator_controller),
    ]
}

/// Lets operator-controller act as the one account of an extension by short-lived tokens (OLM1-PERM-01): a role in the account's namespace and its
/// binding to the controller. Accounts are named by namespace and name.
pub fn token_access(extension: &str, account: (&str, &str), controller: (&str, &str)) -> [Value; 2] {
    let (version, name) = ("rbac.authorization.k8s.io/v1", format!("{extension}-installer-token"));
    let metadata = json!({"name": name, "namespace": account.0, "labels": {TOKEN_LABEL: extension}});
    [
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [
            {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [account.1], "verbs": ["create"]}]}),
        json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [subject(controller.1, controller.0)]}),
    ]
}

/// Returns the same objects for these accounts, without the permission to act as accounts of extensions: see [`token_access`] and [`any_account`].
/// OLM1-GEN-11 lists the permissions of operator-controller; each one beyond the list states its reason.
pub fn manifests_for(namespace: &str, accounts: Accounts) -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let read = ["get", "list", "watch"];
    let events = rule("events.k8s.io", &["events"], &["create", "patch"]);
    let everything = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let mut all = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})];
    all.extend(accounts.names().into_iter().map(|name| account(namespace, name)));
    all.extend([
        cluster_role(
            "operator-controller-manager-role",
            &[
                rule(GROUP, &["clusterextensions"], &["get", "list", "watch", "update", "patch"]),
                rule(GROUP, &["clusterextensions/status"], &["update", "patch"]),
                rule(GROUP, &["clusterextensions/finalizers"], &["update"]),
                rule(GROUP, &["clustercatalogs"], &read),
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
                // Beyond the list, for LifecyclePolicies and approvals: the decisions of the cluster's owners, and the changes that wait for them.
                // The controller creates ChangePlans and reports their status. It never changes their content, and it approves none.
                rule(LIFECYCLE, &["lifecyclepolicies"], &read),
                rule(LIFECYCLE, &["changeplans"], &["get", "list", "watch", "create"]),
                rule(LIFECYCLE, &["changeplans/status"], &["update"]),
                // Beyond the list: a cluster may gain or lose these two kinds at any time. No other definitions are listed.
                json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"],
                    "resourceNames": ["lifecyclepolicies.lifecycle.mainstay.dev", "changeplans.lifecycle.mainstay.dev"]}),
                rule("rbac.authorization.k8s.io", &["roles", "rolebindings", "clusterroles", "clusterrolebindings"], &["list", "watch"]),
                // Beyond the list, as upstream: to report that a named account is missing, which a refused token does not show.
                rule("", &["serviceaccounts"], &["get"]),
                // Beyond the list: Events report actions (OLM1-CTRL-15).
                events.clone(),
            ],
        ),
        binding("operator-controller-manager-rolebinding", "operator-controller-manager-role", namespace, accounts.operator_controller),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "operator-controller-manager-role", "namespace": namespace},
            "rules": [rule("", &["secrets"], &everything)],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "operator-controller-manager-rolebinding", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator-controller-manager-role"},
            "subjects": [subject(accounts.operator_controller, namespace)],
        }),
        cluster_role(
            "catalogd-manager-role",
            &[
                rule(GROUP, &["clustercatalogs"], &["get", "list", "watch", "update", "patch"]),
                rule(GROUP, &["clustercatalogs/status"], &["get", "update", "patch"]),
                rule(GROUP, &["clustercatalogs/finalizers"], &["update"]),
                events,
                // The cluster's mirror rules (OLM1-DISC-02), and the definitions of their kinds.
                rule("config.openshift.io", &mirrors("config.openshift.io"), &read),
                rule("operator.openshift.io", &mirrors("operator.openshift.io"), &read),
                json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": read,
                    "resourceNames": KINDS.map(MirrorKind::definition)}),
            ],
        ),
        binding("catalogd-manager-rolebinding", "catalogd-manager-role", namespace, accounts.catalogd),
        cluster_role("operator-controller-clusterextension-editor-role", &[rule(GROUP, &["clusterextensions"], &everything)]),
        cluster_role("operator-controller-clusterextension-viewer-role", &[rule(GROUP, &["clusterextensions"], &read)]),
        cluster_role("mainstay-log-level", &[json!({"nonResourceURLs": ["/mainstay/log-level"], "verbs": ["get", "put"]})]),
    ]);
    all
}

/// Returns the role that permits reading a program's metrics, and the program's permission to review tokens and access (MS-OPS-01). The names are
/// upstream's.
pub fn metrics_access(program: &str, account: &str, namespace: &str) -> Vec<Value> {
    let ask = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]});
    let role = format!("{program}-proxy-role");
    vec![
        cluster_role(&role, &[ask("authentication.k8s.io", "tokenreviews"), ask("authorization.k8s.io", "subjectaccessreviews")]),
        binding(&format!("{program}-proxy-rolebinding"), &role, namespace, account),
        cluster_role(&format!("{program}-metrics-reader"), &[json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})]),
    ]
}

/// Returns the further permissions of the controllers on a real cluster: their Leases in their own namespace, for catalogd the EndpointSlice of its
/// Service (OLM1-CAT-18), and the reviews of access to metrics.
pub fn own_namespace(namespace: &str, accounts: Accounts) -> Vec<Value> {
    // RBAC cannot limit creation by name; everything else is limited.
    let only = |group: &str, resource: &str, name: &str, verbs: &[&str]| {
        [
            json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]}),
            json!({"apiGroups": [group], "resources": [resource], "resourceNames": [name], "verbs": verbs}),
        ]
    };
    let lease = |name: &str| only("coordination.k8s.io", "leases", name, &["get", "update"]);
    let slice = only("discovery.k8s.io", "endpointslices", &slice_of(CATALOGD_SERVICE), &["get", "patch"]);
    // OpenShift permits writing the addresses of pods only to accounts that may create restricted slices.
    let restricted = json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices/restricted"], "verbs": ["create"]});
    let catalogd: Vec<Value> = lease(CATALOGD_LEASE).into_iter().chain(slice).chain([restricted]).collect();
    let roles = [
        ("operator-controller-own-namespace", accounts.operator_controller, lease(OPERATOR_CONTROLLER_LEASE).to_vec()),
        ("catalogd-own-namespace", accounts.catalogd, catalogd),
    ]
        .into_iter()
        .flat_map(|(name, account, rules)| {
            [
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules}),
                json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                    "subjects": [subject(account, namespace)],
                }),
            ]
        });
    let reading = [("operator-controller", accounts.operator_controller), ("catalogd", accounts.catalogd)]
        .into_iter()
        .flat_map(|(program, account)| metrics_access(program, account, namespace));
    roles.chain(reading).collect()
}

/// Returns the kinds of a group that have mirror rules.
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
        "subjects": [subject(account, namespace)],
    })
}

fn subject(account: &str, namespace: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": account, "namespace": namespace})
}
