//! Subscriptions from their creation to the newest version.

use mainstay_testing::widgets::Content;
use serde_json::{Value, json};

use super::bench::{Bench, condition, own, package, place};

/// OLM0-IP-01, OLM0-IP-04, OLM0-IP-05, OLM0-RES-24, OLM0-UPG-02, OLM0-UPG-04, OLM0-API-17, OLM0-API-20, OLM0-API-21, COP-OLM0-03: a Subscription installs the
/// head of its channel by an InstallPlan, and a new catalog takes it on step by step.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_follows_its_channel() {
    let bench = Bench::start().await;
    let (one, two, three) = (
        bench.bundle("1.0.0", &Content::default()).await,
        bench.bundle("2.0.0", &Content::default()).await,
        bench.bundle("3.0.0", &Content::default()).await,
    );
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &one)])).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let plan = bench.plan_of(&subscription, "Complete").await;
    assert_eq!(plan["spec"]["clusterServiceVersionNames"], json!(["widgets.v1.0.0"]));
    assert_eq!(
        (&plan["spec"]["approval"], &plan["spec"]["approved"], &plan["spec"]["generation"]),
        (&json!("Automatic"), &json!(true), &json!(1))
    );
    assert_eq!(plan["metadata"]["ownerReferences"][0]["name"], "widgets");
    let kinds: Vec<&str> =
        plan["status"]["plan"].as_array().unwrap().iter().map(|step| step["resource"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ClusterServiceVersion", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]);
    assert!(plan["status"]["plan"].as_array().unwrap().iter().all(|step| step["status"] == "Created"), "{plan:#}");
    assert_eq!(condition(&plan, "Installed")["status"], "True");
    assert_eq!(plan["status"]["bundleLookups"][0]["path"], json!(one));
    let csv = bench.get(&own("v1alpha1", "ClusterServiceVersion", "work", "widgets.v1.0.0")).await.unwrap();
    assert_eq!(csv["metadata"]["labels"]["olm.managed"], "true");
    assert!(csv["metadata"]["annotations"]["operatorframework.io/properties"].is_string());
    let account = bench.get(&place("v1", "ServiceAccount", "work", "widgets")).await.unwrap();
    assert_eq!(account["metadata"]["ownerReferences"][0]["uid"], csv["metadata"]["uid"]);
    let crd = bench.get(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com")).await.unwrap();
    let noted = crd["metadata"]["annotations"].as_object().unwrap();
    assert!(
        noted.iter().any(|(key, value)| key.starts_with("operatorframework.io/installed-alongside-") && value == "work/widgets.v1.0.0")
    );
    let settled = |csv: &'static str| {
        move |one: &Value| {
            one["status"]["state"] == "AtLatestKnown" && one["status"]["installedCSV"] == csv && one["status"]["currentCSV"] == csv
        }
    };
    let subscribed = bench.until(&subscription, settled("widgets.v1.0.0")).await;
    assert_eq!(condition(&subscribed, "CatalogSourcesUnhealthy")["reason"], "AllCatalogSourcesHealthy");
    assert!(
        condition(&subscribed, "InstallPlanPending").is_null() && condition(&subscribed, "BundleUnpacking").is_null(),
        "{subscribed:#}"
    );
    bench.phase("work", "widgets.v1.0.0", "Succeeded").await;

    // A new catalog with two more versions: one InstallPlan each, in order.
    bench.push_catalog("test", &package("widgets", &[("1.0.0", &one), ("2.0.0", &two), ("3.0.0", &three)])).await;
    bench
        .admin
        .patch(&source, "", &mainstay_objects::Patch::Merge(json!({"spec": {"updateStrategy": {"registryPoll": {"interval": "10s"}}}})))
        .await
        .unwrap();
    bench.until(&subscription, settled("widgets.v2.0.0")).await;
    let crd = bench.get(&own("v1alpha1", "ClusterServiceVersion", "work", "widgets.v2.0.0")).await.unwrap();
    assert_eq!(crd["spec"]["replaces"], "widgets.v1.0.0");
    bench.phase("work", "widgets.v1.0.0", "Replacing").await;
    bench.phase("work", "widgets.v2.0.0", "Succeeded").await;
    bench.delete(&own("v1alpha1", "ClusterServiceVersion", "work", "widgets.v1.0.0")).await;
    bench.until(&subscription, settled("widgets.v3.0.0")).await;
    bench.plan_of(&subscription, "Complete").await;
    let plans = bench.plans("work").await;
    let mut generations: Vec<i64> = plans.iter().map(|plan| plan["spec"]["generation"].as_i64().unwrap()).collect();
    generations.sort_unstable();
    assert_eq!(generations, [1, 2, 3]);
    assert!(plans.iter().all(|plan| plan["status"]["phase"] == "Complete"));
    bench.close().await;
}

/// OLM0-RES-25, OLM0-RES-32, OLM0-API-18: a Subscription that cannot be resolved is told why, and another in the same namespace is installed.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_subscription_holds_up_no_other() {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    let bad = bench.subscribe("work", "gadgets", json!({})).await;
    let told = bench.told(&bad, "ResolutionFailed").await;
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("ConstraintsNotSatisfiable")));
    assert_eq!(
        told["message"],
        "constraints not satisfiable: no operators found in package gadgets in the catalog referenced by subscription gadgets, subscription gadgets exists"
    );
    let good = bench.subscribe("work", "widgets", json!({})).await;
    bench.plan_of(&good, "Complete").await;
    let still = bench.get(&bad).await.unwrap();
    assert!(still["status"]["installPlanRef"].is_null() && condition(&still, "ResolutionFailed").is_object());
    let good = bench.get(&good).await.unwrap();
    assert!(condition(&good, "ResolutionFailed").is_null(), "{good:#}");
    bench.close().await;
}

/// OLM0-RES-32: with `namespace`, one failure is everyone's, as upstream has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_can_fail_as_a_whole() {
    let bench = Bench::with(|setup| setup.isolation = mainstay_olm_classic_core::resolve::Isolation::Namespace).await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    bench.subscribe("work", "gadgets", json!({})).await;
    let good = bench.subscribe("work", "widgets", json!({})).await;
    bench.told(&good, "ResolutionFailed").await;
    bench.delete(&own("v1alpha1", "Subscription", "work", "gadgets")).await;
    bench.plan_of(&good, "Complete").await;
    bench.close().await;
}

/// OLM0-RES-03, OLM0-OG-27, OLM0-IP-09: without a group nothing is installed, and with one it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_needs_one_group() {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let told = bench.told(&subscription, "ResolutionFailed").await;
    assert_eq!(
        (&told["reason"], &told["message"]),
        (&json!("ErrorPreventedResolution"), &json!("expected 1 OperatorGroup in the namespace, found 0"))
    );
    bench.group("work", json!({})).await;
    bench.plan_of(&subscription, "Complete").await;
    let after = bench.until(&subscription, |one| condition(one, "ResolutionFailed").is_null()).await;
    assert_eq!(after["status"]["currentCSV"], "widgets.v1.0.0");
    bench.close().await;
}

/// OLM0-CAT-20, OLM0-CAT-21, OLM0-CAT-35: one bad global catalog holds up every install until it is removed, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_catalog_holds_up_installs() {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    let bad = own("v1alpha1", "CatalogSource", "openshift-marketplace", "bad");
    let image = format!("{}/test/none:v1", bench.registry);
    bench
        .apply(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "bad", "namespace": "openshift-marketplace"}, "spec": {"sourceType": "grpc", "image": image}}))
        .await;
    let failed = bench.until(&bad, |one| one["status"]["connectionState"]["lastObservedState"] == "TRANSIENT_FAILURE").await;
    assert!(failed["status"]["message"].as_str().unwrap().contains("404"), "{failed:#}");
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let told = bench.told(&subscription, "ResolutionFailed").await;
    assert_eq!(
        told["message"],
        "error using catalogsource openshift-marketplace/bad: no registry client established for catalogsource openshift-marketplace/bad"
    );
    let health = bench.told(&subscription, "CatalogSourcesUnhealthy").await;
    assert_eq!((&health["status"], &health["reason"]), (&json!("True"), &json!("UnhealthyCatalogSourceFound")));
    assert_eq!(health["message"], "targeted catalogsource openshift-marketplace/bad unhealthy");
    bench.delete(&bad).await;
    bench.plan_of(&subscription, "Complete").await;
    let after = bench.until(&subscription, |one| condition(one, "CatalogSourcesUnhealthy")["status"] == "False").await;
    assert_eq!(after["status"]["catalogHealth"].as_array().unwrap().len(), 1);
    bench.close().await;
}

/// OLM0-CAT-02: a Subscription whose catalog is gone says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_catalog_is_named() {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({"source": "none"})).await;
    let health = bench.told(&subscription, "CatalogSourcesUnhealthy").await;
    assert_eq!(health["message"], "targeted catalogsource openshift-marketplace/none missing");
    bench.delete(&source).await;
    let alone = bench.until(&subscription, |one| condition(one, "CatalogSourcesUnhealthy")["reason"] == "NoCatalogSourcesFound").await;
    let message = &condition(&alone, "CatalogSourcesUnhealthy")["message"];
    assert_eq!(message, "dependency resolution requires at least one catalogsource");
    bench.close().await;
}

/// OLM0-API-18, OLM0-RES-21: what the catalog deprecates is told on the Subscription that has it installed.
#[tokio::test(flavor = "multi_thread")]
async fn deprecations_are_told() {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let mut blobs = package("widgets", &[("1.0.0", &image)]);
    blobs.push(json!({"schema": "olm.deprecations", "package": "widgets", "entries": [
        {"reference": {"schema": "olm.package"}, "message": "widgets end"},
        {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "stable ends"},
        {"reference": {"schema": "olm.bundle", "name": "widgets.v1.0.0"}, "message": "1.0.0 ends"}]}));
    let source = bench.catalog("openshift-marketplace", "test", &blobs).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let told = bench.until(&subscription, |one| condition(one, "Deprecated").is_object()).await;
    let message = |kind| condition(&told, kind)["message"].clone();
    assert_eq!(message("PackageDeprecated"), "widgets end");
    assert_eq!(message("ChannelDeprecated"), "stable ends");
    assert_eq!(message("BundleDeprecated"), "1.0.0 ends");
    assert_eq!(message("Deprecated"), "widgets end; stable ends; 1.0.0 ends");
    bench.close().await;
}

/// OLM0-RES-22, OLM0-RES-07: a dependency is installed with a Subscription of its own, which follows the same InstallPlan.
#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_gets_a_subscription() {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let needs = bench.other_bundle("gadgets", "1.0.0").await;
    let mut blobs = package("widgets", &[("1.0.0", &image)]);
    let mut gadgets = package("gadgets", &[("1.0.0", &needs)]);
    gadgets[2]["properties"].as_array_mut().unwrap().push(
        json!({"type": "olm.package.required", "value": {"packageName": "widgets", "versionRange": ">=1.0.0", "version": ">=1.0.0"}}),
    );
    blobs.extend(gadgets);
    let source = bench.catalog("openshift-marketplace", "test", &blobs).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "gadgets", json!({})).await;
    let plan = bench.plan_of(&subscription, "Complete").await;
    let mut names: Vec<&str> =
        plan["spec"]["clusterServiceVersionNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["gadgets.v1.0.0", "widgets.v1.0.0"]);
    let generated = own("v1alpha1", "Subscription", "work", "widgets-stable-test-openshift-marketplace");
    let generated = bench.until(&generated, |one| one["status"]["state"] == "AtLatestKnown").await;
    assert_eq!(generated["metadata"]["annotations"]["olm.generated-by"], plan["metadata"]["name"]);
    assert_eq!(generated["spec"]["installPlanApproval"], "Automatic");
    assert_eq!(generated["status"]["installPlanRef"]["name"], plan["metadata"]["name"]);
    bench.close().await;
}
