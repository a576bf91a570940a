//! Approvals and dependencies with the real controllers: what is kept, what wakes whom, and what the API lets nobody do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use mainstay_objects::{ObjectRef, Patch};
use mainstay_oci::ClientConfig;
use serde_json::{Value, json};

use crate::support::bench::{Bench, cluster_extension};
use crate::support::{catalog, catalog_image, catalog_object, condition, extension, place};

fn change_plan(name: &str) -> ObjectRef {
    place("lifecycle.mainstay.dev/v1alpha1", "ChangePlan", "", name)
}

fn policy(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": {"name": name}, "spec": spec})
}

/// The files of a bundle with one CRD and one Deployment, named after its package.
fn files(package: &str, version: &str) -> Vec<(String, String)> {
    let (kind, group) = (package.trim_end_matches('s'), "example.com");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{package}.{group}")},
        "spec": {"group": group, "names": {"kind": kind, "plural": package}, "scope": "Namespaced", "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": format!("{package}.v{version}")},
        "spec": {
            "displayName": package, "version": version, "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": [{"name": format!("{package}.{group}"), "kind": kind, "version": "v1"}]},
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": package, "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": package}},
                "template": {"metadata": {"labels": {"app": package}}, "spec": {"containers": [
                    {"name": "manager", "image": format!("example.com/{package}:{version}")}
                ]}},
            }}]}},
        },
    });
    let annotations = json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": package}});
    vec![
        ("manifests/csv.yaml".to_owned(), csv.to_string()),
        ("manifests/crd.yaml".to_owned(), crd.to_string()),
        ("metadata/annotations.yaml".to_owned(), annotations.to_string()),
    ]
}

/// A bundle of the catalog `test`: package, version, what it replaces, and the package and range that it needs.
type Entry<'a> = (&'a str, &'a str, Option<&'a str>, Option<(&'a str, &'a str)>);

/// Serves a catalog of these bundles.
async fn serve(bench: &Bench, entries: &[Entry<'_>]) {
    let mut blobs = Vec::new();
    let mut packages: Vec<&str> = entries.iter().map(|entry| entry.0).collect();
    packages.dedup();
    for package in packages {
        blobs.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        let own = entries.iter().filter(|entry| entry.0 == package);
        let entry = |(_, version, replaces, _): &Entry<'_>| match replaces {
            Some(before) => json!({"name": format!("{package}.v{version}"), "replaces": format!("{package}.v{before}")}),
            None => json!({"name": format!("{package}.v{version}")}),
        };
        blobs.push(json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": own.map(entry).collect::<Vec<_>>()}));
    }
    for (package, version, _, needs) in entries {
        let image = bench.bundle(package, version, files(package, version)).await;
        let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": package, "version": version}})];
        if let Some((needed, range)) = needs {
            properties.push(json!({"type": "olm.package.required", "value": {"packageName": needed, "versionRange": range}}));
        }
        blobs.push(json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"), "image": image, "properties": properties}));
    }
    let text = blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let reference = format!("{}/test/all:latest", bench.registry);
    bench.api.push(ClientConfig::default(), &reference, catalog_image(&text)).await;
    bench.api.apply(catalog_object("test", &reference)).await;
    bench.api.until(&catalog("test"), |object| condition(object, "Serving")["status"] == "True").await;
    bench.account().await;
    bench.administrator().await;
}

/// The name of the plan that an extension waits for.
async fn waits_for(bench: &Bench, name: &str, part: &str) -> String {
    let (_, text) = bench.progressing(name, "Blocked", part).await;
    text.strip_prefix("waits for approval of change plan ").unwrap().split(':').next().unwrap().to_owned()
}

async fn until_phase(bench: &Bench, name: &str, phase: &str) -> Value {
    bench.api.until(&change_plan(name), |plan| plan["status"]["phase"] == phase).await
}

async fn approve(bench: &Bench, name: &str) {
    approve_along(bench, name, &[]).await;
}

/// What `mainstay approve` writes: the digest, and who installs what comes along.
async fn approve_along(bench: &Bench, name: &str, along: &[&str]) {
    let plan = bench.api.get(&change_plan(name)).await.unwrap();
    let mut named = Vec::new();
    for package in along {
        let live = bench.api.get(&extension(package)).await.unwrap();
        named.push(json!({"name": package, "uid": live["metadata"]["uid"], "package": package,
            "namespace": live["spec"]["namespace"], "serviceAccount": live["spec"]["serviceAccount"]["name"]}));
    }
    let patch = json!({"spec": {"approvedDigest": plan["spec"]["digest"], "approvedAlong": named}});
    bench.api.admin.patch(&change_plan(name), "", &Patch::Merge(patch)).await.unwrap();
}

/// MS-POL-01, OLM1-GEN-11: an install and an upgrade wait for their approval, once each; the API refuses a forged approval and a plan
/// that is changed; what was applied or superseded says so.
#[tokio::test(flavor = "multi_thread")]
async fn changes_wait_for_their_own_approval() {
    let bench = Bench::start().await;
    bench.api.apply(policy("ask", &json!({"packages": ["wid*"], "approval": "Always"}))).await;
    serve(&bench, &[("widgets", "1.0.0", None, None), ("widgets", "1.1.0", Some("1.0.0"), None), ("gadgets", "1.0.0", None, None)]).await;
    bench.api.apply(cluster_extension("widgets", "widgets", Some("1.0.0"))).await;
    let first = waits_for(&bench, "widgets", "install widgets.v1.0.0").await;
    let plan = until_phase(&bench, &first, "Pending").await;
    let live = bench.api.get(&extension("widgets")).await.unwrap();
    assert_eq!(plan["metadata"]["ownerReferences"][0]["uid"], live["metadata"]["uid"]);
    assert_eq!(condition(&live, "Installed")["status"], "False");
    assert!(bench.api.get(&place("apps/v1", "Deployment", "work", "widgets")).await.is_none());

    // A pattern that matches no package's name is refused.
    for pattern in ["", "Widgets", "wid[gets", "-a"] {
        let (code, answer) = bench
            .ask(
                &[],
                "POST",
                "/apis/lifecycle.mainstay.dev/v1alpha1/lifecyclepolicies",
                Some(&policy("odd", &json!({"packages": [pattern]}))),
            )
            .await;
        assert_eq!(code, 422, "{answer}");
    }
    // Neither another digest nor another content is accepted.
    for spec in [
        json!({"approvedDigest": "sha256:0000"}),
        json!({"digest": "sha256:0000", "approvedDigest": "sha256:0000"}),
        json!({"to": {"version": "9.9.9"}}),
        json!({"from": {"package": "widgets", "name": "x", "version": "1.0.0"}}),
        json!({"summary": {"images": ["harmless"]}}),
    ] {
        let refused = bench.api.admin.patch(&change_plan(&first), "", &Patch::Merge(json!({"spec": spec}))).await.unwrap_err();
        let said = refused.to_string();
        assert!(
            said.contains("approvedDigest must be the plan's digest") || said.contains("a plan is immutable but for its approval"),
            "{said}"
        );
    }
    approve(&bench, &first).await;
    bench.installed("widgets", "1.0.0").await;
    until_phase(&bench, &first, "Applied").await;

    // Repairs do not wait, and the upgrade has a plan of its own.
    let deployment = place("apps/v1", "Deployment", "work", "widgets");
    bench.api.apply(cluster_extension("widgets", "widgets", Some("1.1.0"))).await;
    let second = waits_for(&bench, "widgets", "change from widgets.v1.0.0 to widgets.v1.1.0").await;
    assert_ne!(first, second);
    bench.api.delete(&deployment).await;
    let repaired = bench.api.until(&deployment, |object| object["metadata"]["deletionTimestamp"].is_null() && !object.is_null()).await;
    assert_eq!(repaired["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/widgets:1.0.0");
    approve(&bench, &second).await;
    bench.installed("widgets", "1.1.0").await;
    until_phase(&bench, &second, "Applied").await;
    until_phase(&bench, &first, "Applied").await;

    // Without the policy the next change is not asked about, and what still waits is superseded.
    bench.api.apply(policy("ask", &json!({"packages": ["*"], "approval": "Always"}))).await;
    bench.api.apply(cluster_extension("gadgets", "gadgets", None)).await;
    let third = waits_for(&bench, "gadgets", "install gadgets.v1.0.0").await;
    until_phase(&bench, &third, "Pending").await;
    bench.api.delete(&place("lifecycle.mainstay.dev/v1alpha1", "LifecyclePolicy", "", "ask")).await;
    bench.installed("gadgets", "1.0.0").await;
    until_phase(&bench, &third, "Superseded").await;
    bench.end().await;
}

/// OLM1-INST-04, MS-POL-01, MS-EXPL-05: dependencies are refused until a policy has them planned; then one approval is for all of it, and
/// extensions that need each other's next versions upgrade together.
#[tokio::test(flavor = "multi_thread")]
async fn dependencies_come_with_one_approval() {
    let bench = Bench::start().await;
    let gadgets = ("gadgets", "1.0.0", None, Some(("gears", ">=1.0.0")));
    serve(&bench, &[("gears", "1.0.0", None, None), gadgets, ("widgets", "1.0.0", None, Some(("gadgets", ">=1.0.0")))]).await;
    bench.api.apply(cluster_extension("widgets", "widgets", None)).await;
    let (_, refusal) = bench.progressing("widgets", "Retrying", "").await;
    assert_eq!(
        refusal,
        "validating bundle \"widgets.v1.0.0\": bundle \"widgets.v1.0.0\" has a dependency declared via property \"olm.package.required\" which is currently not supported"
    );
    bench.api.apply(policy("together", &json!({"packages": ["widgets"], "resolveDependencies": "Plan", "approval": "Always"}))).await;
    let plan = waits_for(&bench, "widgets", "also installs gears.v1.0.0, gadgets.v1.0.0").await;
    let kept = until_phase(&bench, &plan, "Pending").await;
    assert_eq!(kept["spec"]["summary"]["dependencies"][0]["package"], "gears");
    bench.api.apply(policy("strict", &json!({"packages": ["g*"], "approval": "Always"}))).await;
    // What `mainstay approve` does: make what is missing, then approve.
    for package in ["gears", "gadgets"] {
        let mut dependency = cluster_extension(package, package, Some("1.0.0"));
        dependency["metadata"]["annotations"] = json!({"lifecycle.mainstay.dev/change-plan": plan});
        bench.api.apply(dependency).await;
    }
    approve_along(&bench, &plan, &["gears", "gadgets"]).await;
    bench.installed("gadgets", "1.0.0").await;
    bench.installed("widgets", "1.0.0").await;
    until_phase(&bench, &plan, "Applied").await;

    // Both need the other's next version.
    bench.api.delete(&place("lifecycle.mainstay.dev/v1alpha1", "LifecyclePolicy", "", "strict")).await;
    bench.api.apply(policy("together", &json!({"resolveDependencies": "Plan", "approval": "Automatic"}))).await;
    bench.api.apply(cluster_extension("gadgets", "gadgets", Some(">=1.0.0"))).await;
    serve(
        &bench,
        &[
            ("gears", "1.0.0", None, None),
            gadgets,
            ("gadgets", "2.0.0", Some("1.0.0"), Some(("widgets", ">=2.0.0"))),
            ("widgets", "1.0.0", None, Some(("gadgets", ">=1.0.0"))),
            ("widgets", "2.0.0", Some("1.0.0"), Some(("gadgets", ">=2.0.0"))),
        ],
    )
    .await;
    // A change of the catalog has its tag looked at again.
    bench.api.admin.patch(&catalog("test"), "", &Patch::Merge(json!({"spec": {"priority": 1}}))).await.unwrap();
    bench.installed("gadgets", "2.0.0").await;
    bench.installed("widgets", "2.0.0").await;
    bench.end().await;
}

/// MS-POL-01: a plan that an earlier version stored is kept by the API as it is, may be approved and may name its subject in the new form; it
/// never becomes the plan of another object, and a plan without a subject is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_plans_of_earlier_versions_stay_valid() {
    let bench = Bench::start().await;
    let plan = |name: &str, spec: Value| {
        let mut plan =
            json!({"apiVersion": "lifecycle.mainstay.dev/v1alpha1", "kind": "ChangePlan", "metadata": {"name": name}, "spec": spec});
        plan["spec"]["digest"] = json!("d");
        plan["spec"]["to"] = json!({"package": "p", "name": "p.v1", "version": "1.0.0"});
        plan
    };
    let writer = &bench.api.admin;
    let made = writer.create(&plan("stored", json!({"extension": {"name": "widgets", "uid": "u1"}}))).await.unwrap();
    assert_eq!(made["spec"]["extension"]["name"], "widgets");
    let read: mainstay_api::lifecycle::ChangePlan = serde_json::from_value(made).unwrap();
    assert_eq!(read.spec.subject.to_string(), "clusterextension widgets");
    let change = |spec: Value| async move { bench_patch(writer, "stored", spec).await };
    change(json!({"approvedDigest": "d"})).await.unwrap();
    let subject = |name: &str| json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": name, "uid": "u1"});
    for other in [json!({"extension": {"name": "gadgets"}}), json!({"subject": subject("gadgets"), "extension": null})] {
        let refused = change(other).await.unwrap_err();
        assert!(refused.contains("a plan is immutable but for its approval"), "{refused}");
    }
    change(json!({"subject": subject("widgets"), "extension": null})).await.unwrap();
    assert!(change(json!({"subject": {"uid": "u2"}})).await.is_err());
    let refused = writer.create(&plan("nobody", json!({}))).await.unwrap_err();
    assert!(mainstay_diagnostics::chain(&refused).contains("subject is required"), "{refused}");
}

async fn bench_patch(writer: &mainstay_apply::Writer, name: &str, spec: Value) -> Result<(), String> {
    let patched = writer.patch(&change_plan(name), "", &Patch::Merge(json!({"spec": spec}))).await;
    patched.map(drop).map_err(|error| mainstay_diagnostics::chain(&error))
}
