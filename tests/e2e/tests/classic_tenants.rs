//! Procedures for administrators of OLM classic: default catalogs, catalogs of tenants, delegated installs, namespaces with groups of their own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::bundles::{self, publish, publish_gadgets};
use mainstay_e2e::{Cluster, Options, Registry, need_embedded, need_kubectl, unpacked};
use serde_json::{Value, json};

fn source(name: &str, namespace: &str, reference: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"sourceType": "grpc", "image": reference, "displayName": "Team"}})
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn group(namespace: &str, spec: &Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group", "namespace": namespace}, "spec": spec})
}

fn subscription(package: &str, channel: &str, namespace: &str, source: (&str, &str)) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": package, "namespace": namespace},
        "spec": {"name": package, "channel": channel, "source": source.0, "sourceNamespace": source.1}})
}

fn apply(cluster: &Cluster, objects: &[Value]) {
    cluster.apply(&objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"));
}

fn succeeded(cluster: &Cluster, csv: &str, namespace: &str) -> Value {
    cluster.until("the CSV succeeds", &["csv", csv, "-n", namespace], |csv| csv["status"]["phase"] == "Succeeded")
}

/// OLM0-ADMIN-38: both documented patches switch the default catalogs off.
#[test]
fn default_catalogs_are_switched_off() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&["--default-catalogs"]);
    let shared = ["catalogsource", "community-operators", "-n", "openshift-marketplace"];
    let patch = |patch: &[&str]| cluster.kubectl(&[&["patch", "operatorhub", "cluster"], patch].concat()).ok();
    cluster.until("the default is there", &shared, |_| true);
    patch(&["--type", "json", "-p", r#"[{"op": "add", "path": "/spec/disableAllDefaultSources", "value": true}]"#]);
    cluster.until_gone(&shared);
    patch(&["--type", "merge", "-p", r#"{"spec": {"disableAllDefaultSources": false}}"#]);
    cluster.until("the default is back", &shared, |_| true);
    patch(&["--type=merge", "-p", r#"{"spec": {"disableAllDefaultSources": true}}"#]);
    cluster.until_gone(&shared);
}

/// OLM0-ADMIN-31, OLM0-ADMIN-32, OLM0-ADMIN-39: a curated catalog in a tenant's namespace is offered there alone, a group with an account installs
/// with that account's permissions, and the deleted catalog is offered no longer while the operator stays.
#[test]
fn delegated_install_from_a_curated_catalog() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::with(&Options::default());
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0"]);
    let rbac = |kind: &str, more: Value| {
        let mut object =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "scoped", "namespace": "tenant"}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let token = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "scoped", "namespace": "tenant", "annotations": {"kubernetes.io/service-account.name": "scoped"}}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scoped", "namespace": "tenant"}});
    let all = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let bound = json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "scoped"}, "subjects": [{"kind": "ServiceAccount", "name": "scoped", "namespace": "tenant"}]});
    apply(&cluster, &[namespace("tenant"), namespace("other"), account, token, rbac("Role", all.clone()), rbac("RoleBinding", bound)]);
    apply(
        &cluster,
        &[
            group("tenant", &json!({"serviceAccountName": "scoped", "targetNamespaces": ["tenant"]})),
            source("curated", "tenant", &reference),
            subscription("gadget", "stable", "tenant", ("curated", "tenant")),
        ],
    );
    cluster.until("the token is there", &["secret", "scoped", "-n", "tenant"], |secret| secret["data"]["token"].is_string());
    cluster.until("it is offered in its namespace", &["packagemanifest", "gadget", "-n", "tenant"], |_| true);
    assert!(cluster.get(&["packagemanifest", "gadget", "-n", "other"]).is_none(), "others do not see it");
    // The operator asks for cluster-wide permissions, and the account does not have them.
    cluster.until("the plan fails for the account", &["subscription.operators.coreos.com", "gadget", "-n", "tenant"], |subscription| {
        let mut all = subscription["status"]["conditions"].as_array().into_iter().flatten();
        all.any(|one| one["type"] == "InstallPlanFailed" && one["status"] == "True")
            || cluster.get(&["csv", "gadget.v1.0.0", "-n", "tenant"]).is_some_and(|csv| csv["status"]["phase"] != "Succeeded")
    });
    let mut wide = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "scoped"}});
    wide["rules"] = all["rules"].clone();
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "scoped"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scoped"}, "subjects": [{"kind": "ServiceAccount", "name": "scoped", "namespace": "tenant"}]});
    apply(&cluster, &[wide, binding]);
    cluster.kubectl(&["delete", "subscription.operators.coreos.com", "gadget", "-n", "tenant"]).ok();
    cluster.kubectl(&["delete", "csv", "gadget.v1.0.0", "-n", "tenant", "--ignore-not-found"]).ok();
    apply(&cluster, &[subscription("gadget", "stable", "tenant", ("curated", "tenant"))]);
    succeeded(&cluster, "gadget.v1.0.0", "tenant");
    cluster.kubectl(&["delete", "catalogsource", "curated", "-n", "tenant"]).ok();
    cluster.until_gone(&["packagemanifest", "gadget", "-n", "tenant"]);
    assert!(cluster.get(&["csv", "gadget.v1.0.0", "-n", "tenant"]).is_some());
}

/// OLM0-TENANT-03, OLM0-TENANT-09: a namespace with a group of its own watches all namespaces, and one with several targets watches these.
#[test]
fn groups_of_their_own() {
    let (Some(()), Some(()), Some(real)) = (need_kubectl(), need_embedded(), unpacked("bundles")) else { return };
    let cluster = Cluster::with(&Options::default());
    let registry = Registry::ours();
    let folder = cluster.folder().join("bundles");
    bundles::copy(&real.join("grafana-operator/5.1.0"), &folder.join("grafana-operator/5.1.0"));
    let reference = publish(&registry, &folder, cluster.folder(), "latest");
    let wanted = |name: &str| subscription("grafana-operator", "v5", name, ("team", "openshift-marketplace"));
    apply(
        &cluster,
        &[
            source("team", "openshift-marketplace", &reference),
            namespace("shared-ops"),
            group("shared-ops", &json!({})),
            wanted("shared-ops"),
        ],
    );
    let status = cluster
        .until("the group is looked at", &["operatorgroup", "group", "-n", "shared-ops"], |group| group["status"]["namespaces"].is_array());
    assert_eq!(status["status"]["namespaces"], json!([""]));
    succeeded(&cluster, "grafana-operator.v5.1.0", "shared-ops");
    cluster.mainstay(&["uninstall", "grafana-operator", "--classic", "-n", "shared-ops", "--yes"]).ok();

    apply(
        &cluster,
        &[
            namespace("a"),
            namespace("b"),
            namespace("several"),
            group("several", &json!({"targetNamespaces": ["a", "b"]})),
            wanted("several"),
        ],
    );
    let csv = succeeded(&cluster, "grafana-operator.v5.1.0", "several");
    assert_eq!(csv["metadata"]["annotations"]["olm.targetNamespaces"], "a,b", "{csv:#}");
    for target in ["a", "b"] {
        cluster.until("a copy is in each target", &["csv", "grafana-operator.v5.1.0", "-n", target], |copy| {
            copy["metadata"]["labels"]["olm.copiedFrom"] == "several"
        });
        let roles: Value = serde_json::from_str(&cluster.kubectl(&["get", "rolebindings", "-n", target, "-o", "json"]).ok()).unwrap();
        assert!(!roles["items"].as_array().unwrap().is_empty(), "the operator has no permissions in {target}");
    }
    assert!(cluster.get(&["csv", "grafana-operator.v5.1.0", "-n", "default"]).is_none());
}

/// OLM0-COND-08, OLM0-COND-09, OLM0-ADMIN-26: the operator is told its OperatorCondition's name; an override needs its four fields, and lets a
/// blocked upgrade go on.
#[test]
fn overrides_of_conditions() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::with(&Options::default());
    let (_registry, reference) = publish_gadgets(&cluster, &["1.0.0", "1.1.0"]);
    apply(&cluster, &[source("team", "openshift-marketplace", &reference)]);
    cluster.until("the catalog is ready", &["catalogsource", "team", "-n", "openshift-marketplace"], |source| {
        source["status"]["connectionState"]["lastObservedState"] == "READY"
    });
    cluster.mainstay(&["install", "gadget", "--classic", "-n", "lights", "--create-namespace", "--version", "1.0.0", "--yes"]).ok();
    let deployment = cluster.get(&["deployment", "gadget", "-n", "lights"]).unwrap();
    let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().clone();
    assert!(env.contains(&json!({"name": "OPERATOR_CONDITION_NAME", "value": "gadget.v1.0.0"})), "{env:?}");
    let patch = |entry: &Value, field: &str| {
        let patch = json!({"spec": {field: [entry]}}).to_string();
        cluster.kubectl(&["patch", "operatorcondition", "gadget.v1.0.0", "-n", "lights", "--type", "merge", "-p", &patch])
    };
    let mut told = json!({"type": "Upgradeable", "status": "False", "reason": "Busy", "message": "migrating"});
    assert_ne!(patch(&told, "conditions").code, Some(0), "an operator's condition needs its time");
    told["lastTransitionTime"] = "2024-01-01T00:00:00Z".into();
    patch(&told, "conditions").ok();
    let short = json!({"type": "Upgradeable", "status": "True", "reason": "Safe"});
    assert_ne!(patch(&short, "overrides").code, Some(0), "an override needs a message");
    let pending = cluster.until("an InstallPlan waits", &["subscription.operators.coreos.com", "gadget", "-n", "lights"], |subscription| {
        subscription["status"]["state"] == "UpgradePending"
    });
    let plan = pending["status"]["installPlanRef"]["name"].as_str().unwrap();
    cluster.kubectl(&["patch", "installplan", plan, "-n", "lights", "--type", "merge", "-p", r#"{"spec":{"approved":true}}"#]).ok();
    cluster.until("the upgrade is held", &["csv", "gadget.v1.1.0", "-n", "lights"], |csv| {
        csv["status"]["reason"] == "OperatorConditionNotUpgradeable"
    });
    let why: Value =
        serde_json::from_str(&cluster.mainstay(&["explain", "operatorcondition", "gadget.v1.0.0", "-n", "lights", "-o", "json"]).ok())
            .unwrap();
    assert_eq!((&why["situation"], &why["waitsFor"]), (&json!("not-upgradeable"), &json!("csv lights/gadget.v1.1.0")), "{why:#}");
    let full = json!({"type": "Upgradeable", "status": "True", "reason": "Safe", "message": "known false report"});
    patch(&full, "overrides").ok();
    succeeded(&cluster, "gadget.v1.1.0", "lights");
}
