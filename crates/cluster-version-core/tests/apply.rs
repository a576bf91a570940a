//! Merging a manifest into a live object.
#![allow(clippy::unwrap_used)]

use std::sync::LazyLock;

use mainstay_cluster_version_core::apply::{ApplyError, Change, ClusterVersionRef, change, is_change, owned, precreated};
use mainstay_cluster_version_core::deletion::{Deletions, Object, Step, reappeared};
use mainstay_cluster_version_core::inject::{self, ProxySettings};
use mainstay_cluster_version_core::{Mode, deletion};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{minutes, start};

fn update(live: &Value, manifest: &Value) -> Option<Value> {
    match change(Some(live), manifest).unwrap() {
        Change::None => None,
        Change::Update(object) => Some(object),
        Change::Create(_) => panic!("the object is there"),
    }
}

fn object(api_version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "demo"}});
    for (field, value) in rest.as_object().unwrap() {
        match (field.as_str(), value) {
            ("metadata", Value::Object(fields)) => fields.iter().for_each(|(name, value)| object["metadata"][name] = value.clone()),
            _ => object[field] = value.clone(),
        }
    }
    object
}

/// One case a rule: the fields of the live object, of the manifest, and of what is written; null if nothing is.
fn check(api_version: &str, kind: &str, live: Value, manifest: Value, written: Value) {
    let (live, manifest) = (object(api_version, kind, live), object(api_version, kind, manifest));
    let found = update(&live, &manifest);
    let wanted = (!written.is_null()).then(|| object(api_version, kind, written));
    assert_eq!(found, wanted, "{kind}: {live} {manifest}");
    // Once written, there is nothing more to write.
    if let Some(found) = found {
        assert_eq!(update(&found, &manifest), None, "{kind}: {found}");
    }
}

/// CVO-APPLY-01, CVO-APPLY-02, CVO-APPLY-03: creation, objects that are left alone, and owners.
#[test]
fn creation_and_owners() {
    let manifest = object("v1", "ConfigMap", json!({"data": {"a": "1"}}));
    assert_eq!(change(None, &manifest), Ok(Change::Create(manifest.clone())));
    let mut left = manifest.clone();
    left["metadata"]["annotations"] = json!({"release.openshift.io/create-only": "TRUE"});
    assert!(matches!(change(None, &left), Ok(Change::Create(_))));
    assert_eq!(update(&object("v1", "ConfigMap", json!({"data": {"a": "2"}})), &left), None);
    assert_eq!(change(None, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})), Err(ApplyError::NoName));

    let version = ClusterVersionRef { name: "version", uid: "u" };
    let owner =
        json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "name": "version", "uid": "u", "controller": true});
    assert_eq!(owned(&manifest, &version)["metadata"]["ownerReferences"], json!([owner]));
    let mut stale = manifest.clone();
    stale["metadata"]["ownerReferences"] = json!([{"kind": "ClusterVersion", "uid": "old"}]);
    assert_eq!(owned(&stale, &version)["metadata"]["ownerReferences"], json!([owner]));
    let other = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"});
    stale["metadata"]["ownerReferences"] = json!([{"kind": "ClusterVersion", "uid": "old"}, other]);
    assert_eq!(owned(&stale, &version)["metadata"]["ownerReferences"], json!([other]));
    let mut created = manifest;
    created["metadata"]["annotations"] = json!({"release.openshift.io/create-only": "true"});
    let mut without = owner;
    without.as_object_mut().unwrap().remove("controller");
    assert_eq!(owned(&created, &version)["metadata"]["ownerReferences"], json!([without]));
}

/// CVO-APPLY-04: labels and annotations are merged by key, owners by uid; what vanished from a manifest stays.
#[test]
fn metadata() {
    check(
        "v1",
        "Namespace",
        json!({"metadata": {"labels": {"own": "1", "foreign": "2"}, "annotations": {"old": "3"}, "ownerReferences": [{"uid": "f", "kind": "F", "name": "f", "apiVersion": "v1"}]}, "spec": {"finalizers": ["kubernetes"]}}),
        json!({"metadata": {"labels": {"own": "9"}, "ownerReferences": [{"uid": "u", "kind": "U", "name": "u", "apiVersion": "v1"}]}}),
        json!({"metadata": {"labels": {"own": "9", "foreign": "2"}, "annotations": {"old": "3"}, "ownerReferences": [{"uid": "f", "kind": "F", "name": "f", "apiVersion": "v1"},
            {"uid": "u", "kind": "U", "name": "u", "apiVersion": "v1"}]}, "spec": {"finalizers": ["kubernetes"]}, "status": {}}),
    );
    check("v1", "Namespace", json!({"metadata": {"labels": {"a": "1"}}}), json!({"metadata": {"labels": {}}}), Value::Null);
}

/// CVO-APPLY-05: kinds of the core, of RBAC and of admission.
#[test]
fn simple_kinds() {
    check(
        "v1",
        "ServiceAccount",
        json!({"secrets": [{"name": "s"}], "automountServiceAccountToken": false}),
        json!({"imagePullSecrets": [{"name": "p"}]}),
        json!({"secrets": [{"name": "s"}]}),
    );
    check(
        "v1",
        "ConfigMap",
        json!({"data": {"own": "1", "foreign": "2"}, "binaryData": {"b": "AA=="}}),
        json!({"data": {"own": "9"}, "binaryData": {"b": "BB=="}}),
        json!({"data": {"own": "9", "foreign": "2"}, "binaryData": {"b": "AA=="}}),
    );
    let filled = json!({"spec": {"clusterIP": "10.0.0.1", "type": "ClusterIP", "selector": {"a": "b"}, "ports": [{"name": "web", "port": 80, "targetPort": 80, "protocol": "TCP"}]}, "status": {"loadBalancer": {}}});
    check("v1", "Service", filled.clone(), json!({"spec": {"selector": {"a": "b"}, "ports": [{"name": "web", "port": 80}]}}), Value::Null);
    check(
        "v1",
        "Service",
        filled,
        json!({"spec": {"type": "NodePort", "selector": {"c": "d"}, "ports": [{"name": "web", "port": 81}]}}),
        json!({"spec": {"clusterIP": "10.0.0.1", "type": "NodePort", "selector": {"c": "d"}, "ports": [{"name": "web", "port": 81, "targetPort": 81, "protocol": "TCP"}]},
            "status": {"loadBalancer": {}}}),
    );
    let rbac = "rbac.authorization.k8s.io/v1";
    let rules = |verb: &str| json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]);
    check(rbac, "Role", json!({"rules": rules("get")}), json!({"rules": rules("list")}), json!({"rules": rules("list")}));
    check(rbac, "Role", json!({"rules": rules("get")}), json!({"rules": rules("get")}), Value::Null);
    // The rules of an aggregated role belong to the control plane.
    let aggregated = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let mut live = aggregated.clone();
    live["rules"] = rules("get");
    check(rbac, "ClusterRole", live, aggregated, Value::Null);
    let role = |group: Option<&str>| {
        let mut role = json!({"kind": "Role", "name": "r"});
        if let Some(group) = group {
            role["apiGroup"] = group.into();
        }
        role
    };
    let (default, subjects) = (role(Some("rbac.authorization.k8s.io")), json!([{"kind": "ServiceAccount", "name": "s", "namespace": "n"}]));
    check(
        rbac,
        "RoleBinding",
        json!({"roleRef": default, "subjects": subjects}),
        json!({"roleRef": role(None), "subjects": subjects}),
        Value::Null,
    );
    check(
        rbac,
        "ClusterRoleBinding",
        json!({"roleRef": default, "subjects": []}),
        json!({"roleRef": {"kind": "ClusterRole", "name": "other"}, "subjects": subjects}),
        json!({"roleRef": {"kind": "ClusterRole", "name": "other", "apiGroup": "rbac.authorization.k8s.io"}, "subjects": subjects}),
    );
    let webhook = json!({"name": "w.example", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://w"}, "rules": [{"operations": ["CREATE"]}]});
    let mut defaulted = webhook.clone();
    for (field, value) in [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("timeoutSeconds", json!(10)),
    ] {
        defaulted[field] = value;
    }
    defaulted["rules"][0]["scope"] = "*".into();
    let mut injected = defaulted.clone();
    injected["clientConfig"]["caBundle"] = "Q0E=".into();
    let admission = "admissionregistration.k8s.io/v1";
    check(admission, "ValidatingWebhookConfiguration", json!({"webhooks": [defaulted]}), json!({"webhooks": [webhook]}), Value::Null);
    check(
        admission,
        "ValidatingWebhookConfiguration",
        json!({"webhooks": [injected]}),
        json!({"webhooks": [webhook]}),
        json!({"webhooks": [defaulted]}),
    );
    let annotated = json!({"annotations": {"service.beta.openshift.io/inject-cabundle": "true"}});
    check(
        admission,
        "ValidatingWebhookConfiguration",
        json!({"metadata": annotated, "webhooks": [injected]}),
        json!({"metadata": annotated, "webhooks": [webhook]}),
        Value::Null,
    );
}

/// CVO-APPLY-05: definitions are replaced whole, but for what is injected.
#[test]
fn definitions() {
    let definition = |conversion: Value| {
        json!({"spec": {"group": "g.example", "scope": "Namespaced", "names": {"plural": "demos", "kind": "Demo", "singular": "demo", "listKind": "DemoList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}}}}],
            "conversion": conversion}})
    };
    let kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let none = definition(json!({"strategy": "None"}));
    let mut short = none.clone();
    short["spec"]["names"] = json!({"plural": "demos", "kind": "Demo"});
    short["spec"].as_object_mut().unwrap().remove("conversion");
    check(kind.0, kind.1, none.clone(), short.clone(), Value::Null);
    let mut changed = none;
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = json!({"foreign": {"type": "string"}});
    let live = object(kind.0, kind.1, changed);
    assert_eq!(update(&live, &object(kind.0, kind.1, short.clone())).unwrap()["spec"]["versions"], short["spec"]["versions"]);
    let webhook = |bundle: Option<&str>| {
        let mut conversion =
            json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://w"}}});
        if let Some(bundle) = bundle {
            conversion["webhook"]["clientConfig"]["caBundle"] = bundle.into();
        }
        definition(conversion)
    };
    let annotated = |mut object: Value| {
        object["metadata"] = json!({"annotations": {"service.beta.openshift.io/inject-cabundle": "true"}});
        object
    };
    check(kind.0, kind.1, annotated(webhook(Some("Q0E="))), annotated(webhook(None)), Value::Null);
    check(kind.0, kind.1, annotated(webhook(None)), annotated(webhook(Some("Q0E="))), Value::Null);
    let live = object(kind.0, kind.1, webhook(Some("Q0E=")));
    assert!(update(&live, &object(kind.0, kind.1, webhook(None))).is_some());
}

/// CVO-APPLY-05: OpenShift's own kinds.
#[test]
fn platform_kinds() {
    let scc = ("security.openshift.io/v1", "SecurityContextConstraints");
    let strategies =
        json!({"runAsUser": {"type": "RunAsAny"}, "seLinuxContext": {"type": "MustRunAs"}, "allowHostNetwork": false, "priority": 0});
    let mut live = strategies.clone();
    live["allowPrivilegeEscalation"] = true.into();
    live["users"] = json!(null);
    live["volumes"] = json!([]);
    check(scc.0, scc.1, live.clone(), strategies.clone(), Value::Null);
    let mut damaged = live.clone();
    damaged["users"] = json!(["mallory"]);
    damaged["allowHostNetwork"] = true.into();
    damaged["foreign"] = 1.into();
    let mut mended = strategies.clone();
    mended["allowPrivilegeEscalation"] = true.into();
    mended["volumes"] = json!([]);
    mended["foreign"] = 1.into();
    let found = update(&object(scc.0, scc.1, damaged), &object(scc.0, scc.1, strategies)).unwrap();
    assert_eq!((&found["users"], &found["allowHostNetwork"]), (&Value::Null, &json!(false)));
    assert_eq!(found["foreign"], mended["foreign"]);

    let stream = ("image.openshift.io/v1", "ImageStream");
    let from = |name: &str| json!({"kind": "DockerImage", "name": name});
    check(
        stream.0,
        stream.1,
        json!({"spec": {"lookupPolicy": {"local": false}, "tags": [{"name": "own", "from": from("a"), "importPolicy": {"importMode": "Legacy"}, "referencePolicy": {"type": "Source"}, "generation": 2},
            {"name": "foreign", "from": from("f")}]}, "status": {"dockerImageRepository": ""}}),
        json!({"spec": {"tags": [{"name": "own", "from": from("a")}]}}),
        Value::Null,
    );
    let found = update(
        &object(
            stream.0,
            stream.1,
            json!({"spec": {"tags": [{"name": "own", "from": from("x"), "generation": 2}, {"name": "foreign", "from": from("f")}]}}),
        ),
        &object(
            stream.0,
            stream.1,
            json!({"spec": {"lookupPolicy": {"local": true}, "tags": [{"name": "own", "from": from("a")}, {"name": "new", "from": from("n")}]}}),
        ),
    );
    assert_eq!(
        found.unwrap()["spec"],
        json!({"lookupPolicy": {"local": true}, "tags": [{"name": "own", "from": from("a"), "generation": 2, "importPolicy": {"importMode": "Legacy"}}, {"name": "foreign", "from": from("f")},
            {"name": "new", "from": from("n")}]})
    );
    let group = ("operators.coreos.com/v1", "OperatorGroup");
    check(
        group.0,
        group.1,
        json!({"spec": {"upgradeStrategy": "Default", "targetNamespaces": ["a"]}, "status": {"namespaces": ["a"]}}),
        json!({"spec": {"targetNamespaces": ["a"]}}),
        Value::Null,
    );
    check(
        group.0,
        group.1,
        json!({"spec": {"upgradeStrategy": "Default", "targetNamespaces": ["a", "b"]}, "status": {"namespaces": ["a"]}}),
        json!({"spec": {"targetNamespaces": ["a"]}}),
        json!({"spec": {"upgradeStrategy": "Default", "targetNamespaces": ["a"]}, "status": {"namespaces": ["a"]}}),
    );
}

/// CVO-APPLY-05: any other kind, as upstream does it, oddities included.
#[test]
fn generic_kinds() {
    let kind = ("demo.example/v1", "Demo");
    let live = || json!({"metadata": {"labels": {"foreign": "1"}, "resourceVersion": "7"}, "spec": {"a": 1}, "status": {"s": 1}});
    check(kind.0, kind.1, live(), json!({"metadata": {"labels": {"own": "2"}}, "spec": {"a": 1}}), Value::Null);
    check(
        kind.0,
        kind.1,
        live(),
        json!({"metadata": {"labels": {"own": "2"}}, "spec": {"a": 2}}),
        json!({"metadata": {"labels": {"own": "2"}, "resourceVersion": "7"}, "spec": {"a": 2}, "status": {"s": 1}}),
    );
    let mut more = live();
    more["foreign"] = 3.into();
    let (more, manifest) = (object(kind.0, kind.1, more), object(kind.0, kind.1, json!({"spec": {"a": 1}})));
    let written = update(&more, &manifest).unwrap();
    assert_eq!((&written["foreign"], &written["metadata"]), (&json!(3), &json!({"name": "demo", "resourceVersion": "7"})));
    assert!(update(&written, &manifest).is_some(), "a foreign field at the top is written again each time, as upstream does");
}

/// CVO-APPLY-10: a ClusterOperator is created with what it is related to; later its metadata alone is kept.
#[test]
fn cluster_operators() {
    let manifest = object(
        "config.openshift.io/v1",
        "ClusterOperator",
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {}, "status": {"versions": [{"name": "operator", "version": "1"}],
        "relatedObjects": [{"group": "", "resource": "namespaces", "name": "demo"}]}}),
    );
    let (created, status) = precreated(&manifest);
    assert_eq!(created, object("config.openshift.io/v1", "ClusterOperator", json!({"metadata": {"labels": {"a": "b"}}, "spec": {}})));
    assert_eq!(status, json!({"relatedObjects": [{"group": "", "resource": "namespaces", "name": "demo"}]}));
    let live = object(
        "config.openshift.io/v1",
        "ClusterOperator",
        json!({"spec": {}, "status": {"versions": [{"name": "operator", "version": "0"}], "extension": {"x": 1}}}),
    );
    let written = update(&live, &manifest).unwrap();
    assert_eq!((&written["metadata"]["labels"], &written["status"]), (&json!({"a": "b"}), &live["status"]));
    assert_eq!(update(&written, &manifest), None);
}

fn deployment(pod: Value) -> Value {
    object(
        "apps/v1",
        "Deployment",
        json!({"metadata": {"namespace": "ns"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}}),
    )
}

/// CVO-APPLY-07: the proxy's variables come into the containers that ask for them, and go with it.
#[test]
fn proxy() {
    let mut manifest = deployment(
        json!({"containers": [{"name": "one", "env": [{"name": "A", "value": "1"}]}, {"name": "two"}], "initContainers": [{"name": "first"}]}),
    );
    manifest["metadata"]["annotations"] = json!({"config.openshift.io/inject-proxy": "one,first"});
    let plain = manifest.clone();
    inject::proxy(&mut manifest, ProxySettings::default()).unwrap();
    assert_eq!(manifest, plain);
    let settings = ProxySettings { http_proxy: "http://p", https_proxy: "", no_proxy: "local" };
    inject::proxy(&mut manifest, settings).unwrap();
    let names = |value: &Value| -> Vec<String> {
        value["env"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| format!("{}={}", one["name"].as_str().unwrap(), one["value"].as_str().unwrap_or_default()))
            .collect()
    };
    let pod = &manifest["spec"]["template"]["spec"];
    assert_eq!(names(&pod["containers"][0]), ["A=1", "HTTP_PROXY=http://p", "HTTPS_PROXY=", "NO_PROXY=local"]);
    assert_eq!(names(&pod["initContainers"][0]), ["HTTP_PROXY=http://p", "HTTPS_PROXY=", "NO_PROXY=local"]);
    assert!(names(&pod["containers"][1]).is_empty());
    // Without the proxy the variables go.
    let Change::Create(live) = change(None, &manifest).unwrap() else { panic!() };
    let written = update(&live, &plain).unwrap();
    assert_eq!(names(&written["spec"]["template"]["spec"]["containers"][0]), ["A=1"]);
    let mut wrong = plain;
    wrong["metadata"]["annotations"] = json!({"config.openshift.io/inject-proxy": "one,missing"});
    assert_eq!(inject::proxy(&mut wrong, settings).unwrap_err().to_string(), "requested injection for non-existent container: \"missing\"");
    let mut other = object("batch/v1", "Job", json!({"metadata": {"annotations": {"config.openshift.io/inject-proxy": "x"}}}));
    assert_eq!(inject::proxy(&mut other, settings), Ok(()));
}

/// CVO-APPLY-08: the operator's own Deployment asks the API at its internal address.
#[test]
fn internal_api() {
    let check = |uri: &str, env: Value, expected: Result<Value, &str>| {
        let mut manifest = deployment(json!({"containers": [{"name": "cluster-version-operator", "env": env}]}));
        manifest["metadata"] = json!({"namespace": "openshift-cluster-version", "name": "cluster-version-operator"});
        let found = inject::internal_api(&mut manifest, uri).map_err(|error| error.to_string());
        let found = found.map(|()| manifest["spec"]["template"]["spec"]["containers"][0]["env"].clone());
        assert_eq!(found, expected.map_err(str::to_owned), "{uri}");
    };
    let variables = |port: &str, host: &str| json!([{"name": "KUBERNETES_SERVICE_PORT", "value": port}, {"name": "KUBERNETES_SERVICE_HOST", "value": host}]);
    check("https://api-int.example:6443", json!([]), Ok(variables("6443", "api-int.example")));
    check("https://api-int.example", json!([]), Ok(variables("443", "api-int.example")));
    check("https://[fd00::1]:6443/path", json!([]), Ok(variables("6443", "fd00::1")));
    check("", json!([]), Ok(json!([])));
    check(
        "https://api-int.example:6443",
        json!([{"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"}, {"name": "X", "value": "1"}]),
        Ok(
            json!([{"name": "KUBERNETES_SERVICE_HOST", "value": "api-int.example"}, {"name": "X", "value": "1"}, {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}]),
        ),
    );
    check("https://a:b:c", json!([]), Err("address a:b:c: too many colons in address"));
    let mut other = deployment(json!({"containers": []}));
    assert_eq!(inject::internal_api(&mut other, "https://x"), Ok(()));
}

/// CVO-DEL-01, CVO-DEL-02, CVO-DEL-03, CVO-DEL-04: deletions are asked for while the cluster is being updated, and remembered.
#[test]
fn deletions() {
    let annotated = |value: Value| {
        object("v1", "ConfigMap", json!({"metadata": {"namespace": "ns", "annotations": {"release.openshift.io/delete": value}}}))
    };
    let asked = |object: Value| deletion::is_deletion(&object["metadata"]["annotations"]);
    assert_eq!(asked(annotated(json!("true"))), Ok(true));
    assert_eq!(asked(object("v1", "ConfigMap", json!({}))), Ok(false));
    assert_eq!(
        asked(annotated(json!("yes"))).unwrap_err().to_string(),
        "Invalid delete annotation \"release.openshift.io/delete\" value: \"yes\""
    );
    let config_map = Object::of(&annotated(json!("true")));
    assert_eq!(config_map.to_string(), "configmap \"ns/demo\"");
    assert_eq!(Object::of(&object("demo.example/v1", "Demo", json!({}))).to_string(), "Demo \"demo\"");

    let mut deletions = Deletions::default();
    for mode in [Mode::Initializing, Mode::Reconciling] {
        assert_eq!(deletions.observe(&config_map, true, mode, start()), Step::NotNow);
    }
    assert_eq!(deletions.observe(&config_map, true, Mode::Updating, start()), Step::Delete);
    // Not asked for yet: it is asked for again.
    assert_eq!(deletions.observe(&config_map, true, Mode::Updating, start()), Step::Delete);
    deletions.requested(config_map.clone(), Some(minutes(1)));
    assert_eq!(deletions.in_progress(), ["configmap \"ns/demo\""]);
    assert_eq!(deletions.observe(&config_map, true, Mode::Updating, start()), Step::Going { expected: Some(minutes(1)) });
    assert_eq!(deletions.observe(&config_map, false, Mode::Reconciling, minutes(2)), Step::Gone);
    assert!(deletions.in_progress().is_empty());
    assert_eq!(deletions.observe(&config_map, true, Mode::Updating, minutes(3)), Step::Reappeared { deleted: minutes(2) });
    assert_eq!(
        reappeared(&config_map, minutes(2)),
        "configmap \"ns/demo\" has reappeared after having been deleted at 2026-01-01T08:02:00Z."
    );
    assert_eq!(deletions.observe(&config_map, false, Mode::Updating, minutes(4)), Step::Gone);
    // An earlier process may have deleted it.
    let mut others = Deletions::default();
    assert_eq!(others.observe(&config_map, false, Mode::Initializing, start()), Step::Gone);
    assert_eq!(others.observe(&config_map, true, Mode::Updating, start()), Step::Reappeared { deleted: start() });
}

/// CVO-APPLY-05: a Job that selects its pods itself can never be applied.
#[test]
fn jobs_do_not_select() {
    let job = object("batch/v1", "Job", json!({"spec": {"selector": {"matchLabels": {}}, "template": {"spec": {"containers": []}}}}));
    assert_eq!(change(None, &job), Err(ApplyError::JobSelector));
}

/// The kinds whose recorded manifests are damaged at random.
const DAMAGED: [&str; 12] = [
    "Namespace",
    "ServiceAccount",
    "ConfigMap",
    "Service",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "Deployment",
    "DaemonSet",
    "Job",
    "CustomResourceDefinition",
];

/// Objects as they are in the recorded releases: one of each kind and size.
static MANIFESTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let lines = mainstay_testing::data::json_lines("cluster-version/merge.jsonl.gz").unwrap_or_default();
    let mut found: Vec<Value> = Vec::new();
    for line in lines {
        let is_new = found.iter().filter(|one| one["kind"] == line["kind"]).count() < 6 && !found.contains(&line["required"]);
        let is_kept = line["required"]["metadata"]["annotations"]["release.openshift.io/create-only"].is_null();
        if is_new && is_kept && DAMAGED.contains(&line["kind"].as_str().unwrap_or_default()) {
            found.push(line["required"].clone());
        }
    }
    found
});

/// Damages a value at the place that `path` chooses.
fn damage(value: &mut Value, path: &mut dyn Iterator<Item = u8>, key: &str) {
    let Some(choice) = path.next() else { return };
    match value {
        Value::Object(map) if !map.is_empty() => {
            let index = usize::from(choice) % map.len();
            let name = map.keys().nth(index).cloned().unwrap();
            // What identifies the object is not damaged.
            if matches!(name.as_str(), "apiVersion" | "kind" | "name" | "namespace") && (key.is_empty() || key == "metadata") {
                return;
            }
            match path.next() {
                Some(0..40) => {
                    map.remove(&name);
                }
                _ => damage(map.get_mut(&name).unwrap(), path, &name),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = usize::from(choice) % items.len();
            match path.next() {
                Some(0..40) => {
                    items.remove(index);
                }
                Some(40..60) => {
                    let copy = items[index].clone();
                    items.insert(0, copy);
                }
                _ => damage(&mut items[index], path, key),
            }
        }
        Value::String(text) => text.push('x'),
        Value::Number(_) => *value = json!(choice),
        Value::Bool(set) => *value = json!(!*set),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// CVO-APPLY-01, CVO-APPLY-04, CVO-APPLY-05, CVO-SYNC-02: from any damage a write or two restore the object, the next finds nothing to do, and what
    /// others own stays.
    #[test]
    fn damage_is_mended(pick in any::<prop::sample::Index>(), places in prop::collection::vec(prop::collection::vec(any::<u8>(), 2..14), 0..6)) {
        if MANIFESTS.is_empty() {
            return Ok(());
        }
        let manifest = pick.get(&MANIFESTS);
        let Ok(Change::Create(created)) = change(None, manifest) else { panic!("{manifest}") };
        let mut live = created;
        for place in places {
            damage(&mut live, &mut place.into_iter(), "");
        }
        live["metadata"]["resourceVersion"] = "42".into();
        live["metadata"]["uid"] = "u".into();
        live["metadata"]["finalizers"] = json!(["foreign.example/f"]);
        for field in ["labels", "annotations"] {
            if !live["metadata"][field].is_object() {
                live["metadata"][field] = json!({});
            }
            live["metadata"][field]["foreign"] = "kept".into();
        }
        let mended = match change(Some(&live), manifest).unwrap() {
            Change::None => live.clone(),
            Change::Update(object) => object,
            Change::Create(_) => panic!("the object is there"),
        };
        // The server fills in its defaults. A template that was gone gets the ports of the host network with a second write alone, as upstream's.
        let defaulted = |mut object: Value| {
            let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            let gvk = mainstay_kinds::Gvk::of(&text("apiVersion"), &text("kind"));
            mainstay_kinds::default(&gvk, &mut object);
            object
        };
        let mut stored = defaulted(mended.clone());
        for writes in 1..=2 {
            match change(Some(&stored), manifest).unwrap() {
                Change::Update(again) if is_change(&stored, &again) => {
                    prop_assert!(writes < 2, "{live} -> {mended} -> {again}");
                    stored = defaulted(again);
                }
                _ => break,
            }
        }
        for field in ["resourceVersion", "uid", "finalizers"] {
            prop_assert_eq!(&mended["metadata"][field], &live["metadata"][field]);
        }
        for field in ["labels", "annotations"] {
            prop_assert_eq!(&mended["metadata"][field]["foreign"], "kept");
            for (key, value) in manifest["metadata"][field].as_object().into_iter().flatten() {
                prop_assert_eq!(&mended["metadata"][field][key], value);
            }
        }
    }
}
