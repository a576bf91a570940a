//! No input holds a worker: one poisoned object of each kind, and healthy ones that reconcile as if it were not there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod hostile;
use crate::support;
use crate::support::bench::{Bench, extension_of_test_catalog};
use crate::support::{catalog_object, condition, extension, place, silent_registry};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use hostile::{Archive, Registry, aliases};
use mainstay_olm_v1::Setup;
use mainstay_runtime::Cluster;
use serde_json::{Value, json};

const HEALTHY: usize = 100;
/// Poisoned objects of those kinds that never end: more than there are workers.
const OF_ENDLESS: usize = 5;

/// The API that answers nothing about objects of this name.
async fn slow(request: Request, next: Next) -> axum::response::Response {
    if request.uri().path().contains("/slow-settings") {
        std::future::pending::<()>().await;
    }
    next.run(request).await
}

/// Puts the slow API between the controllers and the cluster.
fn through(setup: &mut Setup) {
    if let Cluster::Embedded { router, .. } = &mut setup.operator_controller {
        *router = router.clone().layer(from_fn(slow));
    }
}

fn files(package: &str, more: &[Value]) -> Vec<(String, String)> {
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": format!("{package}.v1.0.0")},
        "spec": {
            "displayName": package, "version": "1.0.0", "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
        },
    });
    let annotations = json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": package}});
    let mut files =
        vec![("manifests/csv.yaml".to_owned(), csv.to_string()), ("metadata/annotations.yaml".to_owned(), annotations.to_string())];
    files.extend(more.iter().enumerate().map(|(at, object)| (format!("manifests/more-{at}.yaml"), object.to_string())));
    files
}

fn settings(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

fn blobs(package: &str, image: &str) -> Vec<Value> {
    needing(package, &["1.0.0"], image, &[])
}

/// A package whose bundles have these properties besides.
fn needing(package: &str, versions: &[&str], image: &str, properties: &[Value]) -> Vec<Value> {
    let entries: Vec<Value> = versions.iter().map(|version| json!({"name": format!("{package}.v{version}")})).collect();
    let mut all = vec![
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}),
    ];
    all.extend(versions.iter().map(|version| {
        let mut own = vec![json!({"type": "olm.package", "value": {"packageName": package, "version": version}})];
        own.extend_from_slice(properties);
        json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"), "image": image, "properties": own})
    }));
    all
}

/// More pigeons than holes: what `pigeons` needs are packages each of which needs a version of its own of one of too few others. Nothing
/// but trying shows that it cannot be had.
fn pigeons(image: &str) -> Vec<Value> {
    const HOLES: usize = 14;
    let package = |name: String, range: String| json!({"packageName": name, "versionRange": range});
    let required = |at: usize| json!({"type": "olm.package.required", "value": package(format!("pigeon-{at}"), "1.0.0".to_owned())});
    let mut all = needing("pigeons", &["1.0.0"], image, &(0..=HOLES).map(required).collect::<Vec<_>>());
    for pigeon in 0..=HOLES {
        let holes = (0..HOLES).map(|hole| json!({"package": package(format!("hole-{hole}"), format!("{}.0.0", pigeon + 1))}));
        let any =
            json!({"type": "olm.constraint", "value": {"failureMessage": "no hole", "any": {"constraints": holes.collect::<Vec<_>>()}}});
        all.extend(needing(&format!("pigeon-{pigeon}"), &["1.0.0"], image, &[any]));
    }
    let versions: Vec<String> = (0..=HOLES).map(|pigeon| format!("{}.0.0", pigeon + 1)).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    all.extend((0..HOLES).flat_map(|hole| needing(&format!("hole-{hole}"), &versions, image, &[])));
    all
}

/// A definition with these properties of `spec`.
fn definition(plural: &str, kind: &str, properties: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "names": {"kind": kind, "plural": plural}, "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    })
}

/// A definition of very many patterns, each of which is large once it is compiled.
fn patterns() -> Value {
    let field = |at: usize| (format!("f{at}"), json!({"type": "string", "pattern": format!("^((a{{1,50}}|\\pL{{1,20}}){{1,10}}){at}$")}));
    definition("patterns", "Pattern", &Value::Object((0..100).map(field).collect()))
}

/// A definition as large as the API takes.
fn enormous() -> Value {
    let field = |at: usize| (format!("field-with-a-rather-long-name-{at}"), json!({"type": "string", "description": "x".repeat(100)}));
    definition("enormities", "Enormity", &Value::Object((0..2_000).map(field).collect()))
}

/// The webhook that never answers about what is labelled so.
fn webhook(silent: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "silent"},
        "webhooks": [{"name": "silent.example.com", "clientConfig": {"url": format!("https://{silent}/")}, "timeoutSeconds": 30,
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "objectSelector": {"matchLabels": {"silent": "yes"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]}]})
}

/// Poisoned catalogs by name, with their references.
fn catalogs(registry: &Registry, silent: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for at in 0..OF_ENDLESS {
        all.push((format!("stalls-{at}"), format!("{silent}/test/catalog-{at}:latest")));
        all.push((format!("drips-{at}"), format!("{}/drips/catalog-{at}:latest", registry.host)));
    }
    for way in ["redirects", "realm", "busy", "endless"] {
        all.push((way.to_owned(), format!("{}/{way}/catalog:latest", registry.host)));
    }
    let rewritten = (0..34).fold(Archive::new(), |layer, _| layer.hole("configs/a", 511 << 20));
    let chain = (0..2_000).fold(Archive::new(), |layer, at| layer.link(&format!("configs/l{at}"), &format!("l{}", at + 1)));
    let loops = Archive::new().file("configs/x/c.yaml", b"{}").link("configs/x/a", ".").link("configs/x/b", ".");
    let linked = (0..500).fold(Archive::new().hole("large", 40 << 20), |layer, at| layer.link(&format!("configs/l{at}"), "../large"));
    let bad = |at: usize| {
        json!({"schema": "olm.bundle", "package": "bad", "name": format!("bad.v{at}"), "image": "", "properties": [{"type": "olm.package", "value": {"version": "x"}}]}).to_string()
    };
    let entries = (0..1_000).map(bad).collect::<Vec<_>>().join("\n");
    for (name, layer) in [
        ("aliases", Archive::new().file("configs/catalog.yaml", aliases().as_bytes())),
        ("rewritten", rewritten),
        ("chain", chain),
        ("loops", loops),
        ("linked", linked),
        ("entries", Archive::new().file("configs/catalog.json", entries.as_bytes())),
    ] {
        all.push((name.to_owned(), registry.catalog(&format!("test/{name}"), layer)));
    }
    all
}

/// Poisoned packages by name, with their blobs in the catalog that the healthy ones are in.
fn packages(registry: &Registry, silent: &str) -> Vec<(String, Vec<Value>)> {
    let mut all = Vec::new();
    let mut offer = |name: &str, image: &str| all.push((name.to_owned(), blobs(name, image)));
    for at in 0..OF_ENDLESS {
        let (stalls, drips, slow) = (format!("stalls-{at}"), format!("drips-{at}"), format!("slow-{at}"));
        let digest = format!("{at}").repeat(64);
        offer(&stalls, &format!("{silent}/test/bundle-{at}@sha256:{digest}"));
        offer(&drips, &format!("{}/drips/bundle-{at}@sha256:{digest}", registry.host));
        offer(&slow, &registry.bundle(&slow, Archive::of(&files(&slow, &[settings(&format!("slow-settings-{at}"))]))));
    }
    let mut silenced = settings("silent-settings");
    silenced["metadata"]["labels"] = json!({"silent": "yes"});
    let of = |name: &str, more: &[Value]| Archive::of(&files(name, more));
    let rewritten = (0..34).fold(of("rewritten", &[]), |layer, _| layer.hole("manifests/large.yaml", 511 << 20));
    let giant =
        (0..500).fold(of("giant", &[]).hole("large", 30 << 20), |layer, at| layer.link(&format!("manifests/l{at}.yaml"), "../large"));
    for (name, layer) in [
        ("webhook", of("webhook", &[silenced])),
        ("loops", of("loops", &[]).link("manifests/a", ".").link("manifests/b", ".")),
        ("giant", giant),
        ("rewritten", rewritten),
        ("aliases", of("aliases", &[]).file("manifests/aliases.yaml", aliases().as_bytes())),
        ("patterns", of("patterns", &[patterns()])),
        ("enormous", of("enormous", &[enormous()])),
    ] {
        offer(name, &registry.bundle(&format!("test/{name}"), layer));
    }
    all.push(("pigeons".to_owned(), pigeons(&registry.bundle("test/pigeons", of("pigeons", &[])))));
    all
}

/// What is healthy is put right: its object is taken away, and comes back.
async fn are_put_right(bench: &Bench) {
    let all: Vec<_> = (0..HEALTHY).map(|at| place("v1", "ConfigMap", "work", &format!("settings-{at}"))).collect();
    let mut before = Vec::new();
    for settings in &all {
        before.push(bench.api.get(settings).await.unwrap()["metadata"]["uid"].clone());
        bench.api.delete(settings).await;
    }
    for (settings, before) in all.iter().zip(&before) {
        bench.api.until(settings, |object| !object.is_null() && object["metadata"]["uid"] != *before).await;
    }
}

/// Nothing became of what is poisoned: the healthy ones did not wait for it.
async fn are_not_done(bench: &Bench, packages: &[(String, Vec<Value>)], catalogs: &[(String, String)]) {
    // What is only large, or wrong in itself, may be done.
    for (name, _) in packages.iter().filter(|(name, _)| !["patterns", "enormous"].contains(&name.as_str())) {
        let found = bench.api.get(&extension(name)).await.unwrap();
        assert_ne!(condition(&found, "Installed")["status"], "True", "{name}: {found:#}");
    }
    for (name, _) in catalogs.iter().filter(|(name, _)| !["chain", "entries"].contains(&name.as_str())) {
        let found = bench.api.get(&support::catalog(name)).await.unwrap();
        assert_ne!(condition(&found, "Serving")["status"], "True", "{name}: {found:#}");
    }
}

/// OLM1-CTRL-09, MS-EXPL-05: of each kind one poisoned object and, where it never ends, more than there are workers: registries that stall,
/// drip, lead in circles or send elsewhere; contents without end, of aliases, links, holes and bad entries; definitions that are enormous or
/// full of patterns; needs that cannot be met; objects of which the API or a webhook says nothing. A hundred healthy extensions are installed,
/// put right and removed as if those were not there, and so are they themselves; the same after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn poisoned_objects_hold_up_nobody() {
    let mut bench = Bench::with(through).await;
    let silent = silent_registry().await;
    let registry = Registry::start(&silent).await;
    bench.account().await;
    bench.administrator().await;
    bench.api.apply(webhook(&silent)).await;
    let (catalogs, packages) = (catalogs(&registry, &silent), packages(&registry, &silent));
    // In line before all others.
    for (name, reference) in &catalogs {
        bench.api.apply(catalog_object(name, reference)).await;
    }
    let mut all: Vec<Value> = packages.iter().flat_map(|(_, blobs)| blobs.clone()).collect();
    for at in 0..HEALTHY {
        let package = format!("healthy-{at}");
        let bundle = registry.bundle(&format!("test/{package}"), Archive::of(&files(&package, &[settings(&format!("settings-{at}"))])));
        all.extend(blobs(&package, &bundle));
    }
    bench.catalog_of("test", &all).await;
    let healthy: Vec<String> = (0..HEALTHY).map(|at| format!("healthy-{at}")).collect();
    for name in packages.iter().map(|(name, _)| name).chain(&healthy) {
        bench.api.apply(extension_of_test_catalog(name, name)).await;
    }
    for name in &healthy {
        bench.installed(name, "1.0.0").await;
    }
    are_put_right(&bench).await;
    are_not_done(&bench, &packages, &catalogs).await;

    bench.restart_with(through).await;
    are_put_right(&bench).await;
    let last = bench.bundle("last", "1.0.0", files("last", &[settings("settings-last")])).await;
    bench.catalog_of("later", &blobs("last", &last)).await;
    let mut wanted = extension_of_test_catalog("last", "last");
    wanted["spec"]["source"]["catalog"]["selector"]["matchLabels"]["olm.operatorframework.io/metadata.name"] = json!("later");
    bench.api.apply(wanted).await;
    bench.installed("last", "1.0.0").await;
    are_not_done(&bench, &packages, &catalogs).await;

    // Healthy ones go, and so does what never ends: a catalog that is being pulled, too.
    for name in ["healthy-0", "stalls-0", "drips-4"] {
        bench.api.delete(&extension(name)).await;
        bench.api.gone(&extension(name)).await;
    }
    for name in ["stalls-0", "drips-4"] {
        bench.api.delete(&support::catalog(name)).await;
        bench.api.gone(&support::catalog(name)).await;
    }
    bench.end().await;
}
