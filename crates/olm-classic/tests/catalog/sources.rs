//! CatalogSources of every type, and what is told of them.

use mainstay_testing::widgets::{self, Content};
use serde_json::{Value, json};

use super::bench::{Bench, condition, own, package};

fn source(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": "openshift-marketplace"}, "spec": spec})
}

/// OLM0-CAT-03, OLM0-CAT-05: a catalog in a ConfigMap is served, and a change of the ConfigMap with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_in_a_config_map() {
    let bench = Bench::start().await;
    let place = own("v1alpha1", "CatalogSource", "openshift-marketplace", "inline");
    bench.apply(source("inline", json!({"sourceType": "internal", "configMap": "catalog"}))).await;
    let missing = bench.until(&place, |one| one["status"]["reason"] == "ConfigMapError").await;
    assert_eq!(missing["status"]["message"], "failed to get catalog config map catalog: configmaps \"catalog\" not found");
    let manifests: Vec<Value> = widgets::files("1.0.0", &Content::default())
        .into_iter()
        .filter(|(path, _)| path.starts_with("manifests/"))
        .map(|(_, text)| serde_json::from_str(&text).unwrap())
        .collect();
    let of = |kind: &str| manifests.iter().filter(|object| object["kind"] == kind).cloned().collect::<Value>().to_string();
    let packages = json!([{"packageName": "widgets", "channels": [{"name": "stable", "currentCSV": "widgets.v1.0.0"}]}]).to_string();
    bench
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "catalog", "namespace": "openshift-marketplace"},
            "data": {"clusterServiceVersions": of("ClusterServiceVersion"), "customResourceDefinitions": of("CustomResourceDefinition"),
                "packages": packages}}))
        .await;
    let ready = bench.ready(&place).await;
    assert_eq!(ready["status"]["configMapReference"]["name"], "catalog");
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({"source": "inline"})).await;
    let plan = bench.plan_of(&subscription, "Complete").await;
    let steps = plan["status"]["plan"].as_array().unwrap();
    assert!(
        steps[0]["resource"]["manifest"].as_str().unwrap().contains("\"kind\":\"ClusterServiceVersion\""),
        "inline content stands in the plan"
    );
    bench.close().await;
}

/// OLM0-CAT-25, OLM0-CAT-26, OLM0-CAT-27: an image by template.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_follows_the_version_of_kubernetes() {
    let bench = Bench::start().await;
    let mut templated = source("templated", json!({"sourceType": "grpc", "image": "r.test/none:v1"}));
    templated["metadata"]["annotations"] =
        json!({"olm.catalogImageTemplate": format!("{}/test/templated:v{{kube_major_version}}.{{kube_minor_version}}", bench.registry)});
    bench.apply(templated.clone()).await;
    let place = own("v1alpha1", "CatalogSource", "openshift-marketplace", "templated");
    let expected = format!("{}/test/templated:v1.34", bench.registry);
    let filled = bench.until(&place, |one| condition(one, "ResolvedImage")["message"] == *expected).await;
    assert_eq!(filled["spec"]["image"], *expected);
    assert_eq!(condition(&filled, "TemplatesHaveResolved")["reason"], "AllTemplatesResolved");
    let mut odd = source("odd", json!({"sourceType": "grpc"}));
    odd["metadata"]["annotations"] = json!({"olm.catalogImageTemplate": "r.test/c:{kube}"});
    bench.apply(odd).await;
    let place = own("v1alpha1", "CatalogSource", "openshift-marketplace", "odd");
    let stopped = bench.until(&place, |one| condition(one, "TemplatesHaveResolved").is_object()).await;
    assert_eq!(condition(&stopped, "TemplatesHaveResolved")["status"], "False");
    bench.close().await;
}

/// OLM0-CAT-04: what is wrong with a spec is told, and goes when it is mended.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_spec_is_told() {
    let bench = Bench::start().await;
    bench.apply(source("empty", json!({"sourceType": "grpc"}))).await;
    let place = own("v1alpha1", "CatalogSource", "openshift-marketplace", "empty");
    let wrong = bench.until(&place, |one| one["status"]["reason"] == "SpecInvalidError").await;
    assert_eq!(wrong["status"]["message"], "image and address unset: at least one must be set for sourcetype: grpc");
    bench.push_catalog("empty", &package("widgets", &[("1.0.0", "r.test/b@sha256:1")])).await;
    bench.apply(source("empty", json!({"sourceType": "grpc", "image": format!("{}/test/empty:latest", bench.registry)}))).await;
    let ready = bench.ready(&place).await;
    assert!(ready["status"]["reason"].is_null(), "{ready:#}");
    assert_eq!(ready["status"]["connectionState"]["address"], "empty.openshift-marketplace.svc:50051");
    assert_eq!(ready["status"]["registryService"]["serviceName"], "empty");
    bench.close().await;
}

/// OLM0-CAT-02, OLM0-CAT-19: after a restart without a registry, stored content is used, and nothing that is installed fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_what_is_installed() {
    let mut bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    bench.plan_of(&subscription, "Complete").await;
    bench.phase("work", "widgets.v1.0.0", "Succeeded").await;
    let before = bench.until(&subscription, |one| one["status"]["state"] == "AtLatestKnown").await;
    bench.restart().await;
    let second = bench.other_bundle("gadgets", "1.0.0").await;
    let other = bench.catalog("openshift-marketplace", "other", &package("gadgets", &[("1.0.0", &second)])).await;
    bench.ready(&other).await;
    let gadgets = bench.subscribe("work", "gadgets", json!({"source": "other"})).await;
    bench.plan_of(&gadgets, "Complete").await;
    let after = bench.get(&subscription).await.unwrap();
    assert_eq!(after["status"]["installedCSV"], before["status"]["installedCSV"]);
    assert!(condition(&after, "ResolutionFailed").is_null(), "{after:#}");
    bench.close().await;
}
