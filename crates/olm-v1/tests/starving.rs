//! No input holds a worker: poisoned objects of every kind, and healthy ones that reconcile as if they were not there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;
use crate::support::bench::{Bench, extension_of_test_catalog};
use crate::support::{catalog_object, extension, namespace, place, silent_registry};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use mainstay_olm_v1::Setup;
use mainstay_runtime::Cluster;
use serde_json::{Value, json};

/// Poisoned objects of each kind: more than there are workers.
const POISONED: usize = 6;

/// The API that answers nothing about objects of this name.
async fn slow(request: Request, next: Next) -> axum::response::Response {
    if request.uri().path().contains("/slow-settings") {
        std::future::pending::<()>().await;
    }
    next.run(request).await
}

fn files(package: &str, settings: &str) -> Vec<(String, String)> {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": format!("{package}.v1.0.0")},
        "spec": {
            "displayName": package, "version": "1.0.0", "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
        },
    });
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": settings}, "data": {"a": "b"}});
    let annotations = json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": package}});
    vec![
        ("manifests/csv.yaml".to_owned(), csv.to_string()),
        ("manifests/settings.yaml".to_owned(), settings.to_string()),
        ("metadata/annotations.yaml".to_owned(), annotations.to_string()),
    ]
}

fn blobs(package: &str, image: &str) -> Vec<Value> {
    let name = format!("{package}.v1.0.0");
    vec![
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": name}]}),
        json!({"schema": "olm.bundle", "package": package, "name": name, "image": image,
            "properties": [{"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}}]}),
    ]
}

/// OLM1-CTRL-09, MS-EXPL-05: bundles and catalogs of a registry that stalls and objects about which the API says nothing hold up nobody:
/// others are installed, put right and removed as if they were not there, and so are they themselves; the same after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn poisoned_objects_hold_up_nobody() {
    let healthy = if std::env::var("MAINSTAY_SOAK").is_ok() { 100 } else { 20 };
    let through = |setup: &mut Setup| {
        if let Cluster::Embedded { router, .. } = &mut setup.operator_controller {
            *router = router.clone().layer(from_fn(slow));
        }
    };
    let bench = Bench::with(through).await;
    let silent = silent_registry().await;
    bench.account().await;
    bench.administrator().await;
    let mut all = Vec::new();
    for at in 0..POISONED {
        // One after the other in line before all others.
        bench.api.apply(catalog_object(&format!("stalls-{at}"), &format!("{silent}/test/catalog-{at}:latest"))).await;
        all.extend(blobs(&format!("stalls-{at}"), &format!("{silent}/test/bundle-{at}@sha256:{}", format!("{at}").repeat(64))));
        let package = format!("slow-{at}");
        all.extend(blobs(&package, &bench.bundle(&package, "1.0.0", files(&package, &format!("slow-settings-{at}"))).await));
    }
    for at in 0..healthy {
        let package = format!("healthy-{at}");
        all.extend(blobs(&package, &bench.bundle(&package, "1.0.0", files(&package, &format!("settings-{at}"))).await));
    }
    // This very catalog waits behind those that stall.
    bench.catalog_of("test", &all).await;
    for at in 0..POISONED {
        for kind in ["stalls", "slow"] {
            let name = format!("{kind}-{at}");
            bench.api.apply(extension_of_test_catalog(&name, &name)).await;
        }
    }
    for at in 0..healthy {
        let name = format!("healthy-{at}");
        bench.api.apply(namespace("work")).await;
        bench.api.apply(extension_of_test_catalog(&name, &name)).await;
    }
    for at in 0..healthy {
        bench.installed(&format!("healthy-{at}"), "1.0.0").await;
    }
    // It is put right, and goes.
    let settings = place("v1", "ConfigMap", "work", "settings-0");
    bench.api.delete(&settings).await;
    bench.api.until(&settings, |object| !object.is_null() && object["metadata"]["deletionTimestamp"].is_null()).await;
    for name in ["healthy-0", "stalls-0", "stalls-5"] {
        bench.api.delete(&extension(name)).await;
        bench.api.gone(&extension(name)).await;
    }
    // A catalog that is being pulled goes, too.
    bench.api.delete(&support::catalog("stalls-0")).await;
    bench.api.gone(&support::catalog("stalls-0")).await;

    let mut bench = bench;
    bench.restart(|_| {}).await;
    let settings = place("v1", "ConfigMap", "work", "settings-1");
    bench.api.delete(&settings).await;
    bench.api.until(&settings, |object| !object.is_null() && object["metadata"]["deletionTimestamp"].is_null()).await;
    let last = bench.bundle("last", "1.0.0", files("last", "settings-last")).await;
    bench.catalog_of("later", &blobs("last", &last)).await;
    let mut wanted = extension_of_test_catalog("last", "last");
    wanted["spec"]["source"]["catalog"]["selector"]["matchLabels"]["olm.operatorframework.io/metadata.name"] = json!("later");
    bench.api.apply(wanted).await;
    bench.installed("last", "1.0.0").await;
    bench.end().await;
}
