//! Rules of the operator that need a cluster: what waits for what, what is left alone, what wakes it.

use std::time::{Duration, Instant};

use mainstay_objects::{Expect, Patch};
use mainstay_release::Files;
use serde_json::{Value, json};

use crate::cluster::{World, condition, place, version};
use crate::releases::{completed, config, image, manifest, release, wish, world};

fn told(object: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let history = object["status"]["history"].as_array().cloned().unwrap_or_default();
    history.iter().map(|entry| (text(&entry["version"]), text(&entry["state"]))).collect()
}

fn history(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(version, state)| ((*version).to_owned(), (*state).to_owned())).collect()
}

fn operator(name: &str) -> mainstay_objects::ObjectRef {
    place("config.openshift.io/v1", "ClusterOperator", "", name)
}

/// Says of an operator what a test wants.
async fn report(world: &World, name: &str, version: &str, degraded: bool) {
    let live = world.until(&operator(name), 30, Value::is_object).await;
    let at = "2026-01-01T00:00:00Z";
    let condition = |kind: &str, holds: bool| {
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "lastTransitionTime": at, "reason": "AsExpected", "message": "told"})
    };
    let mut status = live["status"].clone();
    status["conditions"] = json!([condition("Available", true), condition("Degraded", degraded), condition("Progressing", false)]);
    status["versions"] = json!([{"name": "operator", "version": version}]);
    world.admin.update_status(&live, &status).await.unwrap();
}

fn definition(plural: &str, kind: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    manifest(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "",
        &format!("{plural}.demo.example"),
        json!({"spec": {
            "group": "demo.example", "scope": "Cluster", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        }}),
    )
}

/// CVO-APPLY-09, CVO-GRAPH-07: an object of a kind that is not served fails by that reason and is tried again until the kind is there; the
/// ClusterOperator of its group exists meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_served_yet() {
    let more = [
        ("0000_30_gamma_10_thing.yaml", manifest("demo.example/v1", "Thing", "", "one", json!({"spec": {"size": 1}}))),
        (
            "0000_30_gamma_20_clusteroperator.yaml",
            manifest(
                "config.openshift.io/v1",
                "ClusterOperator",
                "",
                "gamma",
                json!({"status": {"versions": [{"name": "operator", "version": "1.0.1"}]}}),
            ),
        ),
    ];
    let world = world(&[("1.0.1", release("1.0.1", &more))]).await;
    let _operators = world.operators(&[]);
    let _operator = world.strict(&image("1.0.1"), 100.0);
    let object =
        world.until(&version(), 60, |object| condition(object, "Failing").starts_with("True UpdatePayloadResourceTypeMissing")).await;
    assert_eq!(
        condition(&object, "Progressing"),
        "True UpdatePayloadResourceTypeMissing: Unable to apply 1.0.1: a required extension is not available to update"
    );
    assert!(world.admin.get(&operator("gamma")).await.unwrap().is_some(), "created before what stands before it in its group");
    world.admin.apply(&definition("things", "Thing"), true, &Expect::default()).await.unwrap();
    world.until(&version(), 60, completed("1.0.1")).await;
    assert_eq!(world.admin.get(&place("demo.example/v1", "Thing", "", "one")).await.unwrap().unwrap()["spec"]["size"], 1);
}

/// CVO-APPLY-11: a namespace that the release does not carry is not made for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_missing() {
    let more = [("0000_30_c_10_config.yaml", manifest("v1", "ConfigMap", "elsewhere", "lost", json!({"data": {"a": "b"}})))];
    let world = world(&[("1.0.1", release("1.0.1", &more))]).await;
    let _operators = world.operators(&[]);
    let _operator = world.strict(&image("1.0.1"), 100.0);
    let object = world.until(&version(), 60, |object| condition(object, "Failing").starts_with("True")).await;
    let failing = condition(&object, "Failing");
    let expected = "Could not update configmap \"elsewhere/lost\" (6 of 6): resource may have been deleted";
    assert!(failing.contains(expected), "{failing}");
    let namespace = place("v1", "Namespace", "", "elsewhere");
    assert!(world.admin.get(&namespace).await.unwrap().is_none());
    world.admin.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})).await.unwrap();
    world.until(&version(), 60, completed("1.0.1")).await;
}

/// A release without operator beta; its tombstone if `deletes`.
fn without_beta(version: &str, deletes: bool) -> Files {
    let mut files = Files::default();
    for (folder, name, content) in release(version, &[]).ordered() {
        if !name.contains("beta_20") {
            files.add(&format!("{}/{name}", folder.name()), content.to_vec()).unwrap();
        }
    }
    for name in ["release-metadata", "image-references"] {
        files.add(&format!("release-manifests/{name}"), release(version, &[]).release(name).unwrap().to_vec()).unwrap();
    }
    if deletes {
        let mut tombstone = manifest("config.openshift.io/v1", "ClusterOperator", "", "beta", json!({}));
        tombstone["metadata"]["annotations"]["release.openshift.io/delete"] = json!("true");
        files.add("release-manifests/0000_99_beta.yaml", tombstone.to_string().into_bytes()).unwrap();
    }
    files
}

/// CVO-CO-06, CVO-COND-02, CVO-RET-01: a ClusterOperator outlives its operator unless a tombstone deletes it; every condition can be read; the
/// operator's own release is not verified.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_leaves_the_release() {
    let world =
        world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", without_beta("1.0.2", false)), ("1.0.3", without_beta("1.0.3", true))]).await;
    world.stock.genuine.lock().unwrap().retain(|one| *one != image("1.0.1"));
    let _operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 100.0);
    let object = world.until(&version(), 30, completed("1.0.1")).await;
    assert_eq!(object["status"]["history"][0]["verified"], false);
    for kind in ["Available", "Progressing", "Failing", "RetrievedUpdates", "ReleaseAccepted"] {
        assert!(condition(&object, kind).starts_with("True") || condition(&object, kind).starts_with("False"), "{kind}: {object:#}");
    }
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    let object = world.until(&version(), 60, completed("1.0.2")).await;
    assert_eq!(object["status"]["history"][0]["verified"], true);
    assert!(world.admin.get(&operator("beta")).await.unwrap().is_some());
    wish(&world, json!({"version": "1.0.3", "image": image("1.0.3")})).await;
    world.until(&version(), 60, completed("1.0.3")).await;
    assert!(world.admin.get(&operator("beta")).await.unwrap().is_none());
}

/// CVO-GRAPH-09, CVO-GRAPH-10, CVO-REL-01: the operator's own Deployment comes first; the next operator carries the update on and what comes last
/// waits until then, while the first one never says that it was done.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_replaces_itself() {
    let container = json!([{"name": "cvo", "image": "{{.ReleaseImage}}"}]);
    let deployment = manifest(
        "apps/v1",
        "Deployment",
        "openshift-cluster-version",
        "cluster-version-operator",
        json!({"spec": {
            "selector": {"matchLabels": {"k8s-app": "cvo"}},
            "template": {"metadata": {"labels": {"k8s-app": "cvo"}}, "spec": {"containers": container}},
        }}),
    );
    let late = |version: &str| manifest("v1", "ConfigMap", "alpha", "machine-config", json!({"data": {"release": version}}));
    let more = |version: &str| {
        [("0000_00_cluster-version-operator_03_deployment.yaml", deployment.clone()), ("0000_80_machine-config_10.yaml", late(version))]
    };
    let world = world(&[("1.0.1", release("1.0.1", &more("1.0.1"))), ("1.0.2", release("1.0.2", &more("1.0.2")))]).await;
    let operators = world.operators(&[]);
    let old = world.operator(&image("1.0.1"), 100.0);
    let own = place("apps/v1", "Deployment", "openshift-cluster-version", "cluster-version-operator");
    let shown = |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
    world.until(&own, 30, |object| shown(object) == image("1.0.1")).await;
    // The embedded cluster has no nodes here: the Deployment is ready by word.
    let ready = |object: &Value| {
        let generation = object["metadata"]["generation"].clone();
        json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1})
    };
    let live = world.admin.get(&own).await.unwrap().unwrap();
    world.admin.update_status(&live, &ready(&live)).await.unwrap();
    world.until(&version(), 30, completed("1.0.1")).await;
    drop(operators);
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    let live = world.until(&own, 30, |object| shown(object) == image("1.0.2")).await;
    world.admin.update_status(&live, &ready(&live)).await.unwrap();
    let object = world.until(&version(), 30, |object| condition(object, "Progressing").contains("waiting on alpha")).await;
    assert_eq!(told(&object), history(&[("1.0.2", "Partial"), ("1.0.1", "Completed")]));
    assert_eq!(world.admin.get(&config("machine-config")).await.unwrap().unwrap()["data"]["release"], "1.0.1");
    drop(old);
    let _new = world.operator(&image("1.0.2"), 100.0);
    let _operators = world.operators(&[]);
    let object = world.until(&version(), 60, completed("1.0.2")).await;
    assert_eq!(told(&object), history(&[("1.0.2", "Completed"), ("1.0.1", "Completed")]));
    assert_eq!(world.admin.get(&config("machine-config")).await.unwrap().unwrap()["data"]["release"], "1.0.2");
}

/// CVO-INC-04: another feature set is another set of manifests, without a restart by hand.
#[tokio::test(flavor = "multi_thread")]
async fn another_feature_set() {
    let mut preview = manifest("v1", "ConfigMap", "alpha", "preview", json!({"data": {"a": "b"}}));
    preview["metadata"]["annotations"]["release.openshift.io/feature-set"] = json!("TechPreviewNoUpgrade");
    let world = world(&[("1.0.1", release("1.0.1", &[("0000_30_c_10_preview.yaml", preview)]))]).await;
    let _operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 100.0);
    world.until(&version(), 30, completed("1.0.1")).await;
    assert!(world.admin.get(&config("preview")).await.unwrap().is_none());
    let gates = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
        "spec": {"featureSet": "TechPreviewNoUpgrade"},
    });
    world.admin.apply(&gates, true, &Expect::default()).await.unwrap();
    world.until(&config("preview"), 60, Value::is_object).await;
    let object = world.until(&version(), 30, completed("1.0.1")).await;
    assert_eq!(told(&object), history(&[("1.0.1", "Completed")]));
}

/// CVO-OVR-03, CVO-SYNC-04: who overrides an operator's Deployment still waits for its ClusterOperator; an override cuts the running pass short,
/// and so does the report of an operator.
#[tokio::test(flavor = "multi_thread")]
async fn overrides_and_reports_cut_waits_short() {
    let deployment = |version: &str| {
        let container = json!([{"name": "alpha", "image": format!("registry.example/alpha:{version}")}]);
        manifest(
            "apps/v1",
            "Deployment",
            "alpha",
            "alpha",
            json!({"spec": {
                "replicas": 0, "selector": {"matchLabels": {"app": "alpha"}},
                "template": {"metadata": {"labels": {"app": "alpha"}}, "spec": {"containers": container}},
            }}),
        )
    };
    let with = |version: &str| release(version, &[("0000_10_alpha_15_deployment.yaml", deployment(version))]);
    let world = world(&[("1.0.1", with("1.0.1")), ("1.0.2", with("1.0.2"))]).await;
    let operators = world.operators(&[]);
    // Times as they are: a wait between passes takes minutes.
    let _operator = world.operator(&image("1.0.1"), 1.0);
    world.until(&version(), 60, completed("1.0.1")).await;
    drop(operators);
    let own = place("apps/v1", "Deployment", "alpha", "alpha");
    let overrides = json!([{"kind": "Deployment", "group": "apps", "namespace": "alpha", "name": "alpha", "unmanaged": true}]);
    world.admin.patch(&version(), "", &Patch::Merge(json!({"spec": {"overrides": overrides}}))).await.unwrap();
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    world.until(&config("alpha"), 30, |object| object["data"]["release"] == "1.0.2").await;
    let object = world.until(&version(), 60, |object| condition(object, "Progressing").contains("waiting on alpha")).await;
    assert_eq!(told(&object)[0], ("1.0.2".to_owned(), "Partial".to_owned()));
    let began = Instant::now();
    report(&world, "alpha", "1.0.2", false).await;
    world.until(&config("beta"), 60, |object| object["data"]["release"] == "1.0.2").await;
    report(&world, "beta", "1.0.2", false).await;
    world.until(&version(), 60, completed("1.0.2")).await;
    assert!(began.elapsed() < Duration::from_secs(60), "no wait of minutes: {:?}", began.elapsed());
    let live = world.admin.get(&own).await.unwrap().unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example/alpha:1.0.1");
    // A report after the update wakes it, too.
    report(&world, "beta", "1.0.2", true).await;
    world.until(&version(), 60, |object| condition(object, "Failing").starts_with("True ClusterOperatorDegraded")).await;
}

/// CVO-RET-07: content of another version than the one that was announced is refused before anything of it is applied.
#[tokio::test(flavor = "multi_thread")]
async fn another_version_than_announced() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.4", &[]))]).await;
    let node = |version: &str| json!({"version": version, "payload": image(version), "metadata": {"io.openshift.upgrades.graph.release.channels": "stable-1.0"}});
    *world.service.graph.lock().unwrap() =
        Some(json!({"version": 1, "nodes": [node("1.0.1"), node("1.0.2")], "edges": [[0, 1]], "conditionalEdges": []}));
    let _operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 100.0);
    world.until(&version(), 30, |object| object["status"]["availableUpdates"][0]["version"] == "1.0.2").await;
    wish(&world, json!({"version": "1.0.2"})).await;
    let object = world.until(&version(), 30, |object| condition(object, "ReleaseAccepted").starts_with("False VerifyPayloadVersion")).await;
    assert!(
        condition(&object, "ReleaseAccepted").contains("release image version 1.0.4 does not match the expected upstream version 1.0.2")
    );
    assert_eq!(world.admin.get(&config("alpha")).await.unwrap().unwrap()["data"]["release"], "1.0.1");
    assert_eq!(told(&object), history(&[("1.0.1", "Completed")]));
}

/// CVO-FLOW-03, CVO-FLOW-04, CVO-SYNC-11: two updates in a row with paused pools are both done when the control plane is, however long an operator
/// took.
#[tokio::test(flavor = "multi_thread")]
async fn paused_pools_and_two_updates() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.1.0", release("1.1.0", &[])), ("1.2.0", release("1.2.0", &[]))]).await;
    let pools = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "machineconfigpools.machineconfiguration.openshift.io"},
        "spec": {
            "group": "machineconfiguration.openshift.io", "scope": "Cluster", "names": {"plural": "machineconfigpools", "kind": "MachineConfigPool"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    world.admin.apply(&pools, true, &Expect::default()).await.unwrap();
    let pool = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": "worker"},
        "spec": {"paused": true}, "status": {"machineCount": 3, "updatedMachineCount": 0},
    });
    let place = mainstay_objects::ObjectRef::of(&pool).unwrap();
    for _ in 0..200 {
        if world.admin.apply(&pool, true, &Expect::default()).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 1000.0);
    world.until(&version(), 30, completed("1.0.1")).await;
    drop(operators);
    wish(&world, json!({"version": "1.1.0", "image": image("1.1.0")})).await;
    world.until(&version(), 30, |object| condition(object, "Progressing").contains("waiting on alpha")).await;
    // At this pace these are more than two hours of the cluster's time; no limit of passes or operators ends the update.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let object = world.admin.get(&version()).await.unwrap().unwrap();
    assert_eq!(told(&object), history(&[("1.1.0", "Partial"), ("1.0.1", "Completed")]));
    let _operators = world.operators(&[]);
    world.until(&version(), 60, completed("1.1.0")).await;
    wish(&world, json!({"version": "1.2.0", "image": image("1.2.0")})).await;
    let object = world.until(&version(), 60, completed("1.2.0")).await;
    assert_eq!(told(&object), history(&[("1.2.0", "Completed"), ("1.1.0", "Completed"), ("1.0.1", "Completed")]));
    assert_eq!(world.admin.get(&place).await.unwrap().unwrap()["spec"]["paused"], true, "the pool is not touched");
}

/// CVO-SYNC-10: an update service that does not answer delays neither the status nor Upgradeable.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_service_that_hangs() {
    let world = world(&[("1.0.1", release("1.0.1", &[])), ("1.0.2", release("1.0.2", &[]))]).await;
    world.service.hangs.store(true, std::sync::atomic::Ordering::Relaxed);
    let _operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 100.0);
    world.until(&version(), 30, completed("1.0.1")).await;
    let overrides = json!([{"kind": "ConfigMap", "group": "", "namespace": "alpha", "name": "beta", "unmanaged": true}]);
    world.admin.patch(&version(), "", &Patch::Merge(json!({"spec": {"overrides": overrides}}))).await.unwrap();
    world.until(&version(), 30, |object| condition(object, "Upgradeable").starts_with("False ClusterVersionOverridesSet")).await;
    world.admin.patch(&version(), "", &Patch::Merge(json!({"spec": {"overrides": null}}))).await.unwrap();
    world.until(&version(), 30, |object| condition(object, "Upgradeable") == " : ").await;
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    let object = world.until(&version(), 60, completed("1.0.2")).await;
    assert!(
        condition(&object, "RetrievedUpdates").trim() == ":" || !condition(&object, "RetrievedUpdates").starts_with("True"),
        "{object:#}"
    );
}

/// CVO-APPLY-12, CVO-APPLY-04: objects that another client made by update keep what is theirs through passes and updates, whoever is noted as the
/// manager of a field; the release's own fields are restored, and fields that the cluster fills in stay.
#[tokio::test(flavor = "multi_thread")]
async fn objects_that_others_made() {
    let more = |version: &str| {
        let own = json!({"spec": {"selector": {"app": "alpha"}, "ports": [{"name": "web", "port": 80}]}});
        let account = json!({"automountServiceAccountToken": false});
        let mut marked = manifest("v1", "ServiceAccount", "alpha", "marked", account);
        marked["metadata"]["labels"] = json!({"release": version});
        if version == "1.0.1" {
            marked["metadata"]["labels"]["once"] = json!("here");
        }
        [("0000_10_alpha_12_service.yaml", manifest("v1", "Service", "alpha", "web", own)), ("0000_10_alpha_13_account.yaml", marked)]
    };
    let world = world(&[("1.0.1", release("1.0.1", &more("1.0.1"))), ("1.0.2", release("1.0.2", &more("1.0.2")))]).await;
    // By POST and PUT, as clients without server-side apply write.
    let metadata = |name: &str| json!({"name": name, "namespace": "alpha", "labels": {"team": "blue"}, "annotations": {"note": "theirs"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "alpha", "labels": {"team": "blue"}}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("alpha"), "data": {"release": "theirs", "more": "theirs"},
        "binaryData": {"bytes": "AAE="}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("web"), "spec": {
        "type": "NodePort", "selector": {"app": "other"}, "ports": [{"name": "web", "port": 80, "targetPort": 8080}]}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("marked"),
        "automountServiceAccountToken": true, "secrets": [{"name": "theirs"}], "imagePullSecrets": [{"name": "pull"}]});
    for object in [&namespace, &map, &service, &account] {
        let mut live = world.admin.create(object).await.unwrap();
        live["metadata"]["annotations"]["second"] = json!("look");
        world.admin.replace(&live).await.unwrap();
    }
    let (web, marked) = (place("v1", "Service", "alpha", "web"), place("v1", "ServiceAccount", "alpha", "marked"));
    let before = world.admin.get(&web).await.unwrap().unwrap();
    assert!(before["metadata"]["managedFields"].as_array().unwrap().iter().all(|entry| entry["operation"] == "Update"));
    let _operators = world.operators(&[]);
    let _operator = world.operator(&image("1.0.1"), 500.0);
    world.until(&version(), 30, completed("1.0.1")).await;
    let check = async |release: &str| {
        let (map, service, account) = (
            world.admin.get(&config("alpha")).await.unwrap().unwrap(),
            world.admin.get(&web).await.unwrap().unwrap(),
            world.admin.get(&marked).await.unwrap().unwrap(),
        );
        for object in [&map, &service, &account] {
            let metadata = &object["metadata"];
            assert_eq!(metadata["labels"]["team"], "blue", "{object:#}");
            assert_eq!((&metadata["annotations"]["note"], &metadata["annotations"]["second"]), (&json!("theirs"), &json!("look")));
            assert_eq!(metadata["ownerReferences"][0]["kind"], "ClusterVersion");
        }
        assert_eq!((&map["data"], &map["binaryData"]), (&json!({"release": release, "more": "theirs"}), &json!({"bytes": "AAE="})));
        let spec = &service["spec"];
        assert_eq!((&spec["selector"], &spec["type"]), (&json!({"app": "alpha"}), &json!("ClusterIP")));
        assert_eq!(spec["clusterIP"], before["spec"]["clusterIP"]);
        assert_eq!(account["automountServiceAccountToken"], false);
        assert_eq!((&account["secrets"], &account["imagePullSecrets"]), (&json!([{"name": "theirs"}]), &json!([{"name": "pull"}])));
        assert_eq!((&account["metadata"]["labels"]["release"], &account["metadata"]["labels"]["once"]), (&json!(release), &json!("here")));
    };
    check("1.0.1").await;
    wish(&world, json!({"version": "1.0.2", "image": image("1.0.2")})).await;
    world.until(&version(), 60, completed("1.0.2")).await;
    check("1.0.2").await;
}
