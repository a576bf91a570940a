//! Both controllers against the embedded API, with bundles from a registry: install, upgrade, drift, refusal, removal.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_oci::ClientConfig;
use mainstay_testing::widgets::{Content, files};
use serde_json::json;

use crate::support::bench::{Bench, cluster_extension};
use crate::support::{catalog, catalog_image, catalog_object, catalog_text, condition, extension, place};

/// OLM1-CTRL-01..03, OLM1-CTRL-07..12, OLM1-CAT-05..08, OLM1-CAT-16, OLM1-INST-13, OLM1-INST-14, OLM1-PERM-01, OLM1-PERM-02,
/// OLM1-PERM-09, OLM1-UPG-01..03, OLM1-OWN-01..03, OLM1-API-07, OLM1-GEN-11: an extension's life, from nothing to removal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_lives_from_install_to_removal() {
    let bench = Bench::start().await;
    let api = &bench.api;
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old-settings"}, "data": {"a": "b"}});
    let old = Content { more: vec![settings], ..Content::default() };
    let new = Content { fields: vec![("colour", json!({"type": "string"}))], ..Content::default() };
    let first = bench.bundle("widgets", "1.0.0", files("1.0.0", &old)).await;
    let second = bench.bundle("widgets", "1.1.0", files("1.1.0", &new)).await;
    let repository = format!("{}/test/catalog", bench.registry);
    let text = catalog_text("widgets", &[("1.0.0", &first), ("1.1.0", &second)]);
    let digest = api.push(ClientConfig::default(), &format!("{repository}:latest"), catalog_image(&text)).await.digest;
    let image = format!("{repository}@{}", digest.as_str());
    api.apply(catalog_object("test", &image)).await;
    let served = api.until(&catalog("test"), |catalog| condition(catalog, "Serving")["status"] == "True").await;
    assert_eq!(served["status"]["urls"]["base"], "https://127.0.0.1:6443/catalogs/test");
    assert_eq!(served["status"]["resolvedSource"]["image"]["ref"], image.as_str());
    serde_json::from_value::<ClusterCatalog>(served).unwrap();

    // Without an account nothing is installed, and the condition says so.
    api.apply(cluster_extension("widgets", "widgets", Some("1.0.0"))).await;
    let waiting = api.until(&extension("widgets"), |object| condition(object, "Installed")["status"] == "Unknown").await;
    assert_eq!(
        condition(&waiting, "Installed")["message"],
        "service account \"installer\" not found in namespace \"work\": unable to authenticate with the Kubernetes cluster."
    );

    // Without permissions the preflight lists them, and nothing is written.
    bench.account().await;
    let refused = api
        .until(&extension("widgets"), |object| {
            condition(object, "Progressing")["message"].as_str().is_some_and(|text| text.starts_with("pre-authorization failed: "))
        })
        .await;
    let message = condition(&refused, "Progressing")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("\n  Namespace:\"work\" APIGroups:[apps] Resources:[deployments] Verbs:[create]"), "{message}");
    assert!(message.ends_with("for resolved bundle \"widgets.v1.0.0\" with version \"1.0.0\""), "{message}");
    assert!(api.get(&place("apps/v1", "Deployment", "work", "widgets")).await.is_none());

    // With permissions it goes on by itself.
    bench.administrator().await;
    let installed = api.until(&extension("widgets"), |object| condition(object, "Installed")["status"] == "True").await;
    assert_eq!(condition(&installed, "Installed")["message"], format!("Installed bundle {first} successfully"));
    assert_eq!(installed["status"]["install"]["bundle"], json!({"name": "widgets.v1.0.0", "version": "1.0.0"}));
    serde_json::from_value::<ClusterExtension>(installed.clone()).unwrap();
    let deployment = place("apps/v1", "Deployment", "work", "widgets");
    let live = api.get(&deployment).await.unwrap();
    assert_eq!(live["metadata"]["labels"]["olm.operatorframework.io/owner-name"], "widgets");
    assert_eq!(live["metadata"]["ownerReferences"][0]["uid"], installed["metadata"]["uid"]);
    assert!(api.get(&place("v1", "ConfigMap", "work", "old-settings")).await.is_some());

    // What is deleted by hand returns; what is changed by hand is put back.
    api.delete(&deployment).await;
    api.until(&deployment, |object| !object.is_null() && object["metadata"]["uid"] != live["metadata"]["uid"]).await;
    api.admin.patch(&deployment, "", &mainstay_objects::Patch::Merge(json!({"spec": {"replicas": 0}}))).await.unwrap();
    api.until(&deployment, |object| object["spec"]["replicas"] == 1).await;

    // A custom resource survives the upgrade; what the new bundle does not hold goes.
    api.apply(
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one", "namespace": "work"}, "spec": {"size": 3}}),
    )
    .await;
    api.apply(cluster_extension("widgets", "widgets", Some(">=1.0.0"))).await;
    let upgraded = api.until(&extension("widgets"), |object| object["status"]["install"]["bundle"]["version"] == "1.1.0").await;
    assert_eq!(condition(&upgraded, "Progressing")["reason"], "Succeeded");
    let live = api.get(&deployment).await.unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/widgets:1.1.0");
    api.gone(&place("v1", "ConfigMap", "work", "old-settings")).await;
    let widget = api.get(&place("example.com/v1", "Widget", "work", "one")).await.unwrap();
    assert_eq!(widget["spec"]["size"], 3);

    // A second extension of the same package finds the CRD taken.
    api.apply(cluster_extension("widgets-again", "widgets", None)).await;
    let blocked = api.until(&extension("widgets-again"), |object| condition(object, "Progressing")["reason"] == "Retrying").await;
    let message = condition(&blocked, "Progressing")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("already exists in namespace '' and cannot be managed by operator-controller"), "{message}");

    // A version that is not there leaves the old one installed.
    api.apply(cluster_extension("widgets", "widgets", Some("9.x"))).await;
    let stuck = api.until(&extension("widgets"), |object| condition(object, "Progressing")["reason"] == "Retrying").await;
    assert_eq!(
        condition(&stuck, "Progressing")["message"],
        "error upgrading from currently installed version \"1.1.0\": no bundles found for package \"widgets\" matching version \"9.x\""
    );
    assert_eq!(condition(&stuck, "Installed")["status"], "True");

    // Removal takes the finalizers off; the garbage collector does the rest.
    for name in ["widgets-again", "widgets"] {
        api.delete(&extension(name)).await;
        api.gone(&extension(name)).await;
    }
    bench.end().await;
}
