//! What our own annotations do, against the embedded API: namespaces that are made, CRDs that change knowingly, objects that stay, pull secrets of
//! single catalogs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_api::lifecycle::{CRD_UPGRADE_SAFETY, MADE_FOR, MISSING_NAMESPACE, ON_DELETE, PULL_SECRET};
use mainstay_objects::{Expect, ObjectRef, Patch};
use mainstay_oci::ClientConfig;
use mainstay_oci::registry::{Access, Options};
use mainstay_testing::widgets::{self, Content};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::bench::{Bench, cluster_extension};
use crate::support::{
    SYSTEM, catalog, catalog_image, catalog_object, catalog_text, condition, extension, extension_object, place, registry,
};

/// A version of `widgets`; a changed one has another field in its CRD.
fn files(version: &str, field: &str, annotations: &[(&str, &str)]) -> Vec<(String, String)> {
    let fields: Vec<(&'static str, Value)> = match field {
        "colour" => vec![("colour", json!({"type": "string"}))],
        _ => Vec::new(),
    };
    let mut files = widgets::files(version, &Content { fields, ..Content::default() });
    let mut csv: Value = serde_json::from_str(&files[0].1).unwrap();
    for (key, value) in annotations {
        csv["metadata"]["annotations"][*key] = json!(value);
    }
    files[0].1 = csv.to_string();
    files
}

/// A cluster with the versions 1.0.0 and 2.0.0 of `widgets`; the second drops a field of the CRD.
async fn world() -> Bench {
    let bench = Bench::start().await;
    let template = json!({"metadata": {"name": "other", "labels": {"example.com/from": "template"}}}).to_string();
    let suggested = [("operatorframework.io/suggested-namespace-template", template.as_str())];
    let first = bench.bundle("widgets", "1.0.0", files("1.0.0", "colour", &suggested)).await;
    let second = bench.bundle("widgets", "2.0.0", files("2.0.0", "", &[])).await;
    bench.catalog("test", "widgets", &[("1.0.0", &first), ("2.0.0", &second)]).await;
    bench
}

async fn annotate(bench: &Bench, target: &ObjectRef, key: &str, value: &Value) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
    bench.api.admin.patch(target, "", &patch).await.unwrap();
}

fn namespace(name: &str) -> ObjectRef {
    place("v1", "Namespace", "", name)
}

fn definition() -> ObjectRef {
    place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com")
}

fn deployment() -> ObjectRef {
    place("apps/v1", "Deployment", "work", "widgets")
}

fn widget() -> ObjectRef {
    place("example.com/v1", "Widget", "work", "one")
}

/// OLM1-API-02: a namespace that is missing is made where the extension asks for it, labelled as the bundle suggests, and stays when the
/// extension goes; without the annotation nothing is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_made() {
    let bench = world().await;
    let mut wanted = extension_object("widgets", "widgets", "elsewhere");
    wanted["spec"]["source"]["catalog"]["version"] = json!("1.0.0");
    bench.api.apply(wanted).await;
    bench.api.until(&extension("widgets"), |object| condition(object, "Installed")["status"] == "Unknown").await;
    assert!(bench.api.get(&namespace("elsewhere")).await.is_none());

    annotate(&bench, &extension("widgets"), MISSING_NAMESPACE, &json!("Create")).await;
    let made = bench.api.until(&namespace("elsewhere"), |object| !object.is_null()).await;
    assert_eq!(made["metadata"]["labels"]["example.com/from"], "template");
    assert_eq!(made["metadata"]["annotations"][MADE_FOR], "widgets");
    assert_eq!(made["metadata"]["ownerReferences"], Value::Null);

    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": "elsewhere"}});
    bench.api.apply(account).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "installer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "elsewhere"}]});
    bench.api.apply(binding).await;
    bench.installed("widgets", "1.0.0").await;
    bench.api.delete(&extension("widgets")).await;
    bench.api.gone(&extension("widgets")).await;
    let left = bench.api.get(&namespace("elsewhere")).await.unwrap();
    assert_eq!(left["metadata"]["deletionTimestamp"], Value::Null);
    bench.end().await;
}

/// OLM1-CRD-07: a CRD changes although a field goes, for the bundle that the annotation names, and an Event tells what was accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsafe_change_is_told_and_done() {
    let bench = world().await;
    bench.install("1.0.0").await;
    bench.api.apply(cluster_extension("widgets", "widgets", Some("2.0.0"))).await;
    bench.progressing("widgets", "Retrying", "existingFieldRemoval").await;
    annotate(&bench, &extension("widgets"), CRD_UPGRADE_SAFETY, &json!("Warn:widgets.v1.0.0")).await;
    bench.progressing("widgets", "Retrying", "existingFieldRemoval").await;
    annotate(&bench, &extension("widgets"), CRD_UPGRADE_SAFETY, &json!("Warn:widgets.v2.0.0")).await;
    bench.installed("widgets", "2.0.0").await;
    let told = |events: &Value| {
        let all = events["items"].as_array().into_iter().flatten();
        let mut warnings = all.filter(|event| event["reason"] == "Warning").filter_map(|event| event["note"].as_str());
        warnings.any(|note| note.contains("existingFieldRemoval: removed field : v1.^.spec.colour"))
    };
    let mut tries = 0;
    while !told(&bench.ask(&[], "GET", "/apis/events.k8s.io/v1/events", None).await.1) {
        tries += 1;
        assert!(tries < 3_000, "no Event tells of it");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    bench.end().await;
}

/// OLM1-INST-15, MS-RB-02: what is to stay has no owner any more when the extension goes, and an extension of the same name takes it up again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_stay() {
    let bench = world().await;
    bench.install("1.0.0").await;
    bench
        .api
        .apply(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one", "namespace": "work"}, "spec": {}}))
        .await;
    let before = bench.api.get(&deployment()).await.unwrap();
    annotate(&bench, &extension("widgets"), ON_DELETE, &json!("Orphan")).await;

    // Without its account nothing can be let go of, and so nothing is deleted.
    let account = place("v1", "ServiceAccount", "work", "installer");
    bench.api.delete(&account).await;
    bench.api.gone(&account).await;
    bench.api.delete(&extension("widgets")).await;
    bench.progressing("widgets", "Retrying", "what is to stay").await;
    bench.account().await;
    bench.api.gone(&extension("widgets")).await;
    let secrets = bench.ask(&[], "GET", &format!("/api/v1/namespaces/{SYSTEM}/secrets"), None).await.1;
    let uids: Vec<&Value> = secrets["items"].as_array().unwrap().iter().map(|secret| &secret["metadata"]["uid"]).collect();
    for target in [deployment(), definition(), place("v1", "ServiceAccount", "work", "widgets"), widget()] {
        let left = bench.api.get(&target).await.unwrap_or_else(|| panic!("{target} is gone"));
        assert_eq!(left["metadata"]["ownerReferences"], Value::Null, "{target}");
        assert_eq!(left["metadata"]["deletionTimestamp"], Value::Null, "{target}");
    }
    assert_eq!(bench.api.get(&deployment()).await.unwrap()["metadata"]["uid"], before["metadata"]["uid"]);

    // Taken up again; its records are new ones.
    bench.api.apply(cluster_extension("widgets", "widgets", Some("1.0.0"))).await;
    let again = bench.installed("widgets", "1.0.0").await;
    let taken = bench.api.until(&deployment(), |object| object["metadata"]["ownerReferences"][0]["uid"] == again["metadata"]["uid"]).await;
    assert_eq!(taken["metadata"]["uid"], before["metadata"]["uid"]);
    let now = bench.ask(&[], "GET", &format!("/api/v1/namespaces/{SYSTEM}/secrets"), None).await.1;
    assert!(now["items"].as_array().unwrap().iter().any(|secret| !uids.contains(&&secret["metadata"]["uid"])));

    // Only the CRDs stay, and with them the custom resources.
    annotate(&bench, &extension("widgets"), ON_DELETE, &json!("OrphanCRDs")).await;
    bench.api.delete(&extension("widgets")).await;
    bench.api.gone(&extension("widgets")).await;
    assert_eq!(bench.api.get(&definition()).await.unwrap()["metadata"]["ownerReferences"], Value::Null);
    assert!(bench.api.get(&widget()).await.is_some());
    let left = bench.api.get(&deployment()).await.unwrap();
    assert_eq!(left["metadata"]["ownerReferences"][0]["uid"], again["metadata"]["uid"], "the garbage collector takes it");
    bench.end().await;
}

/// OLM1-INST-15: what nobody understands deletes nothing, until somebody says something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_nobody_understands_waits() {
    let bench = world().await;
    bench.install("1.0.0").await;
    annotate(&bench, &extension("widgets"), ON_DELETE, &json!("orphan")).await;
    bench.api.delete(&extension("widgets")).await;
    bench.progressing("widgets", "Blocked", "expected Orphan or OrphanCRDs, found \"orphan\"").await;
    assert_ne!(bench.api.get(&definition()).await.unwrap()["metadata"]["ownerReferences"], Value::Null);
    annotate(&bench, &extension("widgets"), ON_DELETE, &Value::Null).await;
    bench.api.gone(&extension("widgets")).await;
    bench.end().await;
}

fn pull_secret(name: &str, registry: &str, password: &str) -> Value {
    let auth = STANDARD.encode(format!("u:{password}"));
    let content = json!({"auths": {registry: {"auth": auth}}}).to_string();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SYSTEM}, "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": STANDARD.encode(content)}})
}

/// OLM1-CAT-20: a catalog's own pull secret opens its image and those of its bundles; nothing else does, what is wrong with it is told, and a
/// change of it wakes the catalog.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_has_a_pull_secret_of_its_own() {
    let bench = Bench::start().await;
    let stop = CancellationToken::new();
    let access = Access::Basic { user: "u".into(), password: "p".into() };
    let (_, private) = registry(Options { access, ..Options::default() }, &stop).await;
    let mut pushing = ClientConfig::default();
    let credentials = json!({"auths": {&private: {"auth": STANDARD.encode("u:p")}}}).to_string();
    pushing.credentials = mainstay_oci::Credentials::parse("test", &credentials).unwrap();
    let bundle = format!("{private}/test/widgets:v1");
    let bytes = files("1.0.0", "", &[]).into_iter().map(|(path, text)| (path, text.into_bytes()));
    let built = bench.api.push(pushing.clone(), &bundle, mainstay_oci::ImageBuilder::new().files(bytes)).await;
    let by_digest = format!("{private}/test/widgets@{}", built.digest.as_str());
    let reference = format!("{private}/test/private:latest");
    bench.api.push(pushing, &reference, catalog_image(&catalog_text("widgets", &[("1.0.0", &by_digest)]))).await;

    let says = |part: &'static str| {
        move |object: &Value| condition(object, "Progressing")["message"].as_str().is_some_and(|text| text.contains(part))
    };
    bench.api.apply(catalog_object("private", &reference)).await;
    bench.api.until(&catalog("private"), says("401")).await;
    annotate(&bench, &catalog("private"), PULL_SECRET, &json!("team")).await;
    bench.api.until(&catalog("private"), says("secret olmv1-system/team, which annotation")).await;
    bench.api.until(&catalog("private"), says("does not exist")).await;
    let mut opaque = pull_secret("team", &private, "p");
    opaque["type"] = json!("Opaque");
    bench.api.admin.create(&opaque).await.unwrap();
    bench.api.until(&catalog("private"), says("is of type \"Opaque\"")).await;
    let secret = place("v1", "Secret", SYSTEM, "team");
    bench.api.delete(&secret).await;
    bench.api.gone(&secret).await;
    bench.api.admin.create(&pull_secret("team", &private, "wrong")).await.unwrap();
    bench.api.until(&catalog("private"), says("401")).await;
    bench.api.admin.apply(&pull_secret("team", &private, "p"), true, &Expect::default()).await.unwrap();
    bench.api.until(&catalog("private"), |object| condition(object, "Serving")["status"] == "True").await;

    // The bundle, too.
    bench.install("1.0.0").await;
    stop.cancel();
    bench.end().await;
}

/// OLM1-CAT-20: a catalog's own credentials come before all others for the registries and paths that they name, and count for no others.
#[test]
fn own_credentials_come_first() {
    let credentials = |entries: &[(&str, &str)]| {
        let auths: serde_json::Map<String, Value> =
            entries.iter().map(|(key, user)| ((*key).to_owned(), json!({"username": user, "password": "p"}))).collect();
        mainstay_oci::Credentials::parse("test", &json!({"auths": auths}).to_string()).unwrap()
    };
    let mut all = credentials(&[("quay.example/org/deep", "deep"), ("quay.example", "wide"), ("other.example", "other")]);
    all.prefer(credentials(&[("quay.example/org", "own")]));
    let user = |registry: &str, repository: &str| match all.find(registry, repository) {
        Some(mainstay_oci::Credential::Basic { user, .. }) => user.clone(),
        other => format!("{other:?}"),
    };
    assert_eq!(user("quay.example", "org/deep/one"), "own");
    assert_eq!(user("quay.example", "organisation/one"), "wide");
    assert_eq!(user("other.example", "org/deep/one"), "other");
}
