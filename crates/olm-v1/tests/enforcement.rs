//! Installed content is enforced, even when catalogs and registries are unavailable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use mainstay_objects::{ObjectRef, Patch};

use crate::support::bench::{Bench, cluster_extension};
use crate::support::{catalog, catalog_object, condition, extension, place};
use serde_json::{Value, json};

/// A bundle with a Deployment, an account and a ConfigMap.
fn files(version: &str) -> Vec<(String, String)> {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": format!("widgets.v{version}")},
        "spec": {
            "displayName": "widgets", "version": version, "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "widgets", "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "widgets"}},
                "template": {"metadata": {"labels": {"app": "widgets"}}, "spec": {"containers": [
                    {"name": "manager", "image": format!("example.com/widgets:{version}")}
                ]}},
            }}]}},
        },
    });
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"version": version}});
    let annotations = json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": "widgets"}});
    vec![
        ("manifests/csv.yaml".to_owned(), csv.to_string()),
        ("manifests/settings.yaml".to_owned(), settings.to_string()),
        ("metadata/annotations.yaml".to_owned(), annotations.to_string()),
    ]
}

fn deployment() -> ObjectRef {
    place("apps/v1", "Deployment", "work", "widgets")
}

fn settings() -> ObjectRef {
    place("v1", "ConfigMap", "work", "settings")
}

/// `widgets` 1.0.0 of catalog `test`, which has no other version; any version is asked for.
async fn installed() -> Bench {
    let bench = Bench::start().await;
    let image = bench.bundle("widgets", "1.0.0", files("1.0.0")).await;
    bench.catalog("test", "widgets", &[("1.0.0", &image)]).await;
    bench.account().await;
    bench.administrator().await;
    bench.api.apply(cluster_extension("widgets", "widgets", None)).await;
    bench.installed("widgets", "1.0.0").await;
    bench
}

/// An object is deleted and another one changed by hand; both are put right, and the conditions say what is wrong all the same.
async fn is_held(bench: &Bench, problem: Option<&str>) {
    bench.api.admin.patch(&settings(), "", &Patch::Merge(json!({"data": {"version": "by hand"}}))).await.unwrap();
    let before = bench.api.get(&deployment()).await.unwrap();
    bench.api.delete(&deployment()).await;
    bench.api.until(&settings(), |object| object["data"]["version"] == "1.0.0").await;
    bench
        .api
        .until(&deployment(), |object| {
            !object.is_null() && object["metadata"]["uid"] != before["metadata"]["uid"] && object["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
    let says = |object: &Value| {
        let progressing = condition(object, "Progressing");
        match problem {
            Some(part) => progressing["reason"] == "Retrying" && progressing["message"].as_str().is_some_and(|text| text.contains(part)),
            None => progressing["reason"] == "Succeeded",
        }
    };
    let live = bench.api.until(&extension("widgets"), says).await;
    let has = condition(&live, "Installed");
    assert_eq!((&has["status"], &has["reason"]), (&json!("True"), &json!("Succeeded")), "{live}");
    assert_eq!(live["status"]["install"]["bundle"]["version"], "1.0.0");
}

async fn until_serving(bench: &Bench, status: &str) {
    bench.api.until(&catalog("test"), |object| condition(object, "Serving")["status"] == status).await;
}

const NOTHING_FOUND: &str = "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"widgets\"";

/// OLM1-CTRL-01, OLM1-CTRL-03: a catalog that is switched off or deleted stops no repair; what is deleted leaves nothing on disk.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_catalog() {
    let mut bench = installed().await;
    bench.api.admin.patch(&catalog("test"), "", &Patch::Merge(json!({"spec": {"availabilityMode": "Unavailable"}}))).await.unwrap();
    until_serving(&bench, "False").await;
    is_held(&bench, Some(NOTHING_FOUND)).await;
    bench.api.delete(&catalog("test")).await;
    bench.api.gone(&catalog("test")).await;
    is_held(&bench, Some(NOTHING_FOUND)).await;
    // Nothing of the catalog is left, and neither a restart nor the loss of all that was kept changes anything.
    bench
        .restart(|cache| {
            let left: Vec<_> = std::fs::read_dir(cache.join("catalogs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.is_empty(), "{left:?}");
            std::fs::remove_dir_all(cache).unwrap();
        })
        .await;
    is_held(&bench, Some(NOTHING_FOUND)).await;
    bench.end().await;
}

/// OLM1-CTRL-01, MS-EXPL-05: a registry that is down stops neither repair nor anything else of what is installed, after a restart without
/// caches neither; then the catalog cannot be asked any more, and the conditions say so.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_registry() {
    let mut bench = installed().await;
    bench.registry_goes_down();
    is_held(&bench, None).await;
    bench.restart(|_| {}).await;
    is_held(&bench, None).await;
    bench.restart(|cache| std::fs::remove_dir_all(cache).unwrap()).await;
    until_serving(&bench, "False").await;
    is_held(&bench, Some("catalog \"test\" is not being served")).await;
    bench.end().await;
}

/// MS-EXPL-05, OLM1-SEL-02: a catalog that never served stops nobody whom it does not concern; one that goes before the others does, and
/// what is installed is held.
#[tokio::test(flavor = "multi_thread")]
async fn beside_a_broken_catalog() {
    let bench = installed().await;
    let mut broken = catalog_object("broken", &format!("{}/test/nothing:latest", bench.registry));
    bench.api.apply(broken.clone()).await;
    bench.api.until(&catalog("broken"), |object| condition(object, "Progressing")["reason"] == "Retrying").await;
    is_held(&bench, None).await;
    let mut second = cluster_extension("second", "widgets", None);
    second["spec"]["namespace"] = json!("work");
    bench.api.apply(second).await;
    // It is chosen for, and fails only because the first has its objects.
    bench.progressing("second", "Retrying", "for resolved bundle \"widgets.v1.0.0\"").await;
    broken["spec"]["priority"] = json!(5);
    bench.api.apply(broken).await;
    let sentence =
        "error walking catalogs: error getting package \"widgets\" from catalog \"broken\": catalog \"broken\" is not being served";
    bench.progressing("second", "Retrying", sentence).await;
    is_held(&bench, Some(sentence)).await;
    bench.end().await;
}
