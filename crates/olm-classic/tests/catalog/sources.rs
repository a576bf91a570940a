//! CatalogSources of every type, and what is told of them.

use mainstay_olm_classic_core::resolve::UnhealthyCatalogs;
use mainstay_testing::widgets::{self, Content};
use serde_json::{Value, json};

use super::bench::{Bench, condition, own, package};

#[allow(clippy::needless_pass_by_value, reason = "it is written down in place")]
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
    bench.ready(&source).await;
    let second = bench.other_bundle("gadgets", "1.0.0").await;
    let other = bench.catalog("openshift-marketplace", "other", &package("gadgets", &[("1.0.0", &second)])).await;
    bench.ready(&other).await;
    let gadgets = bench.subscribe("work", "gadgets", json!({"source": "other"})).await;
    bench.plan_of(&gadgets, "Complete").await;
    let after = bench.get(&subscription).await.unwrap();
    assert_eq!(after["status"]["installedCSV"], before["status"]["installedCSV"]);
    assert!(condition(&after, "ResolutionFailed").is_null(), "{after:#}");
    // Without its registry a source that was loaded keeps its content.
    bench.registry_goes_down();
    let polled = json!({"spec": {"updateStrategy": {"registryPoll": {"interval": "10s"}}}});
    bench.admin.patch(&source, "", &mainstay_objects::Patch::Merge(polled)).await.unwrap();
    let told = bench.until(&source, |one| one["status"]["reason"] == "RegistryServerError").await;
    assert_eq!(told["status"]["connectionState"]["lastObservedState"], "READY");
    bench.close().await;
}

/// OLM0-CAT-03, OLM0-CAT-18, OLM0-CAT-19: a registry server by address is asked for its content; while it does not answer, the source has none.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_server_by_address() {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let mut blobs = package("widgets", &[("1.0.0", &image)]);
    blobs.push(json!({"schema": "olm.deprecations", "package": "widgets", "entries": [{"reference": {"schema": "olm.package"}, "message": "widgets end"}]}));
    let folder = tempfile::tempdir().unwrap();
    let catalog = stored(folder.path(), &blobs);
    let (stop, address) = serve(&catalog, "127.0.0.1:0").await;
    bench.apply(source("far", json!({"sourceType": "grpc", "address": address}))).await;
    let place = own("v1alpha1", "CatalogSource", "openshift-marketplace", "far");
    let ready = bench.ready(&place).await;
    assert_eq!(
        (&ready["status"]["connectionState"]["address"], &ready["status"]["registryService"]["protocol"]),
        (&json!(address), &json!("grpc"))
    );
    assert!(ready["status"]["registryService"]["serviceName"].is_null());
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({"source": "far"})).await;
    bench.plan_of(&subscription, "Complete").await;
    let told = bench.told(&subscription, "PackageDeprecated").await;
    assert_eq!(told["message"], "widgets end");
    stop.cancel();
    let lost = bench.until(&place, |one| one["status"]["connectionState"]["lastObservedState"] == "TRANSIENT_FAILURE").await;
    assert!(lost["status"]["message"].as_str().unwrap().starts_with(&format!("no connection to {address}")), "{lost:#}");
    let (_stop, _) = serve(&catalog, &address).await;
    bench.ready(&place).await;
    bench.close().await;
}

/// A catalog that a registry server can serve.
fn stored(folder: &std::path::Path, blobs: &[Value]) -> mainstay_catalog_store::StoredCatalog {
    let lines = blobs.iter().fold(String::new(), |lines, blob| lines + &blob.to_string() + "\n");
    let store = mainstay_catalog_store::CatalogStore::open(folder).unwrap();
    let digest = format!("sha256:{}", "1".repeat(64)).parse().unwrap();
    let source_of = mainstay_catalog::MemorySource::of("catalog.json", lines.into_bytes());
    store.put(&digest, &source_of, &mainstay_catalog::Limits::default()).unwrap()
}

/// Serves a catalog until the token is cancelled; also the address.
async fn serve(catalog: &mainstay_catalog_store::StoredCatalog, at: &str) -> (tokio_util::sync::CancellationToken, String) {
    use mainstay_catalog_serve::grpc::{Listener, Options, serve_registry};
    let listener = Listener::bind(at.parse().unwrap()).await.unwrap();
    let address = listener.address().to_string();
    let stop = tokio_util::sync::CancellationToken::new();
    let options = Options { drain: std::time::Duration::ZERO };
    tokio::spawn(serve_registry(catalog.clone(), listener, options, stop.clone()));
    (stop, address)
}

/// Two catalogs with the same dependency at different priority, of which the higher one turns unhealthy: the lower one's provider is not chosen.
/// Asserts that a lower provider is not chosen; Subscriptions that have nothing to do with it are installed if `goes_on`.
async fn the_lower_provider_is_not_chosen(unhealthy: UnhealthyCatalogs, goes_on: bool) {
    let bench = Bench::with(|setup| setup.unhealthy_catalogs = unhealthy).await;
    let provider = bench.bundle("1.0.0", &Content::default()).await;
    let (needs, alone) = (bench.other_bundle("gadgets", "1.0.0").await, bench.other_bundle("tools", "1.0.0").await);
    let mut blobs = package("gadgets", &[("1.0.0", &needs)]);
    blobs[2]["properties"].as_array_mut().unwrap().push(
        json!({"type": "olm.package.required", "value": {"packageName": "widgets", "versionRange": ">=1.0.0", "version": ">=1.0.0"}}),
    );
    blobs.extend(package("tools", &[("1.0.0", &alone)]));
    let low = bench.catalog("openshift-marketplace", "low", &package("widgets", &[("1.0.0", &provider)])).await;
    let test = bench.catalog("openshift-marketplace", "test", &blobs).await;
    let folder = tempfile::tempdir().unwrap();
    let catalog = stored(folder.path(), &package("widgets", &[("1.0.0", &provider)]));
    let (stop, address) = serve(&catalog, "127.0.0.1:0").await;
    bench.apply(source("high", json!({"sourceType": "grpc", "address": address, "priority": 10}))).await;
    let high = own("v1alpha1", "CatalogSource", "openshift-marketplace", "high");
    for source in [&low, &test, &high] {
        bench.ready(source).await;
    }
    stop.cancel();
    bench.until(&high, |one| one["status"]["connectionState"]["lastObservedState"] == "TRANSIENT_FAILURE").await;
    bench.group("work", json!({})).await;
    let held = bench.subscribe("work", "gadgets", json!({})).await;
    let free = bench.subscribe("work", "tools", json!({})).await;
    let sentence =
        "error using catalogsource openshift-marketplace/high: no registry client established for catalogsource openshift-marketplace/high";
    assert_eq!(bench.told(&held, "ResolutionFailed").await["message"], sentence);
    if goes_on {
        bench.plan_of(&free, "Complete").await;
    } else {
        assert_eq!(bench.told(&free, "ResolutionFailed").await["message"], sentence);
    }
    for subscription in [&held, &free] {
        let health = bench.told(subscription, "CatalogSourcesUnhealthy").await;
        assert_eq!(health["message"], "targeted catalogsource openshift-marketplace/high unhealthy");
    }
    let names = |plans: &[Value]| plans.iter().map(|plan| plan["spec"]["clusterServiceVersionNames"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&bench.plans("work").await), if goes_on { vec![json!(["tools.v1.0.0"])] } else { Vec::new() });

    let (_stop, _) = serve(&catalog, &address).await;
    bench.plan_of(&held, "Complete").await;
    let generated = own("v1alpha1", "Subscription", "work", "widgets-stable-high-openshift-marketplace");
    bench.until(&generated, |one| one["spec"]["source"] == "high").await;
    bench.close().await;
}

/// OLM0-CAT-35, OLM0-CAT-20: with `block` everything waits for the catalog.
#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_catalog_blocks() {
    the_lower_provider_is_not_chosen(UnhealthyCatalogs::Block, false).await;
}

/// OLM0-CAT-35: with `isolate` only what the catalog could concern waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_catalog_is_isolated() {
    the_lower_provider_is_not_chosen(UnhealthyCatalogs::Isolate, true).await;
}
