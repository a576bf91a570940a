//! Catalogs that a namespace sees, the limits that its OperatorGroup sets, the moments at which it is resolved, and reports about steps of plans.

use mainstay_objects::Patch;
use mainstay_testing::widgets::Content;
use serde_json::{Value, json};

use super::bench::{Bench, condition, own, package, place};

async fn namespace(bench: &Bench, name: &str) {
    bench.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
}

async fn annotate(bench: &Bench, group: &mainstay_objects::ObjectRef, annotations: Value) {
    bench.admin.patch(group, "", &Patch::Merge(json!({"metadata": {"annotations": annotations}}))).await.unwrap();
}

/// OLM0-CAT-01, OLM0-RES-01: a global catalog is used from every namespace, one of another namespace from nowhere else; who is told of which.
#[tokio::test(flavor = "multi_thread")]
async fn catalogs_of_namespaces() {
    let bench = Bench::start().await;
    namespace(&bench, "other").await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let gadgets = bench.other_bundle("gadgets", "1.0.0").await;
    let global = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    let private = bench.catalog("other", "private", &package("gadgets", &[("1.0.0", &gadgets)])).await;
    bench.ready(&global).await;
    bench.ready(&private).await;
    for namespace in ["work", "other"] {
        bench.group(namespace, json!({})).await;
    }
    let visible = |namespace: &str| json!({"name": "gadgets", "source": "private", "sourceNamespace": namespace});
    let there = bench.subscribe("other", "gadgets", visible("other")).await;
    bench.plan_of(&there, "Complete").await;
    let too = bench.subscribe("other", "widgets", json!({})).await;
    bench.plan_of(&too, "Complete").await;
    let here = bench.subscribe("work", "gadgets", visible("other")).await;
    let told = bench.told(&here, "ResolutionFailed").await;
    assert_eq!(
        told["message"],
        "constraints not satisfiable: no operators found from catalog private in namespace other referenced by subscription gadgets, subscription gadgets exists"
    );
    let known = bench.get(&here).await.unwrap();
    let seen: Vec<&Value> =
        known["status"]["catalogHealth"].as_array().unwrap().iter().map(|one| &one["catalogSourceRef"]["name"]).collect();
    assert_eq!(seen, ["test"]);
    let widgets = bench.subscribe("work", "widgets", json!({})).await;
    bench.plan_of(&widgets, "Complete").await;
    bench.close().await;
}

/// OLM0-API-23, OLM0-RES-01: a group can exclude global catalogs from the resolution of its namespace.
#[tokio::test(flavor = "multi_thread")]
async fn global_catalogs_are_excluded() {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let global = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&global).await;
    let group = bench.group("work", json!({})).await;
    annotate(&bench, &group, json!({"olm.operatorframework.io/exclude-global-namespace-resolution": "true"})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let told = bench.told(&subscription, "ResolutionFailed").await;
    assert_eq!(
        told["message"],
        "constraints not satisfiable: no operators found from catalog test in namespace openshift-marketplace referenced by subscription widgets, subscription widgets exists"
    );
    annotate(&bench, &group, json!({"olm.operatorframework.io/exclude-global-namespace-resolution": null})).await;
    bench.plan_of(&subscription, "Complete").await;
    bench.close().await;
}

/// OLM0-API-23, OLM0-CAT-31, OLM0-CAT-32: the group limits the time for unpacking, and lets it be tried again after an interval.
#[tokio::test(flavor = "multi_thread")]
async fn unpacking_has_the_groups_limits() {
    let bench = Bench::start().await;
    let absent = format!("{}/test/widgets@sha256:{}", bench.registry, "0".repeat(64));
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &absent)])).await;
    bench.ready(&source).await;
    let group = bench.group("work", json!({})).await;
    annotate(&bench, &group, json!({"operatorframework.io/bundle-unpack-timeout": "1s"})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let failed = bench.until(&subscription, |one| condition(one, "BundleUnpackFailed")["status"] == "True").await;
    let message = condition(&failed, "BundleUnpackFailed")["message"].as_str().unwrap();
    assert!(message.starts_with("bundle unpacking failed. Reason: DeadlineExceeded, and Message: bundle"), "{message}");
    // The registry has it now; without an interval nothing is tried again.
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let (name, digest) = (absent.split('@').next().unwrap(), image.split('@').nth(1).unwrap());
    assert_eq!(format!("{name}@{digest}"), image);
    bench.push_catalog("test", &package("widgets", &[("1.0.0", &image)])).await;
    annotate(&bench, &group, json!({"operatorframework.io/bundle-unpack-min-retry-interval": "1s"})).await;
    bench
        .admin
        .patch(&source, "", &Patch::Merge(json!({"spec": {"updateStrategy": {"registryPoll": {"interval": "10s"}}}})))
        .await
        .unwrap();
    bench.plan_of(&subscription, "Complete").await;
    let after = bench.until(&subscription, |one| condition(one, "BundleUnpackFailed").is_null()).await;
    assert_eq!(after["status"]["currentCSV"], "widgets.v1.0.0");
    bench.close().await;
}

/// OLM0-API-23, OLM0-CAT-32: a bundle that its registry gets only after it was given up is tried again after the group's interval; no object changes.
#[tokio::test(flavor = "multi_thread")]
async fn unpacking_is_tried_again() {
    let bench = Bench::start().await;
    // The digest of a bundle is known before it is pushed.
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let late = image.replace("/test/widgets@", "/late/widgets@");
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &late)])).await;
    bench.ready(&source).await;
    let group = bench.group("work", json!({})).await;
    let limits = json!({"operatorframework.io/bundle-unpack-timeout": "1s", "operatorframework.io/bundle-unpack-min-retry-interval": "2s"});
    annotate(&bench, &group, limits).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    bench.until(&subscription, |one| condition(one, "BundleUnpackFailed")["status"] == "True").await;
    let files = mainstay_testing::widgets::files("1.0.0", &Content::default()).into_iter().map(|(path, text)| (path, text.into_bytes()));
    let pushed = bench.push("late/widgets:v1", mainstay_oci::ImageBuilder::new().files(files)).await;
    assert_eq!(pushed, late);
    bench.plan_of(&subscription, "Complete").await;
    bench.close().await;
}

/// OLM0-RES-04: a new Subscription, a new content and a deleted plan each make a namespace be resolved; while a plan is open nothing new is.
#[tokio::test(flavor = "multi_thread")]
async fn triggers() {
    let bench = Bench::start().await;
    let (one, two) = (bench.bundle("1.0.0", &Content::default()).await, bench.bundle("2.0.0", &Content::default()).await);
    let gadgets = bench.other_bundle("gadgets", "1.0.0").await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &one)])).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({"installPlanApproval": "Manual"})).await;
    let plan = bench.plan_of(&subscription, "RequiresApproval").await;
    let poll = Patch::Merge(json!({"spec": {"updateStrategy": {"registryPoll": {"interval": "10s"}}}}));
    bench.admin.patch(&source, "", &poll).await.unwrap();
    let mut blobs = package("widgets", &[("1.0.0", &one), ("2.0.0", &two)]);
    blobs.extend(package("gadgets", &[("1.0.0", &gadgets)]));
    let before = bench.get(&source).await.unwrap()["status"]["latestImageRegistryPoll"].clone();
    bench.push_catalog("test", &blobs).await;
    bench.until(&source, |source| source["status"]["latestImageRegistryPoll"] != before).await;
    // The plan is open: the new head waits for it.
    let held = bench.get(&subscription).await.unwrap();
    assert_eq!((&held["status"]["currentCSV"], bench.plans("work").await.len()), (&json!("widgets.v1.0.0"), 1));
    let name = plan["metadata"]["name"].as_str().unwrap().to_owned();
    bench.delete(&own("v1alpha1", "InstallPlan", "work", &name)).await;
    let moved = |one: &Value| one["status"]["installPlanRef"]["name"].as_str().is_some_and(|now| now != name);
    let moved = bench.until(&subscription, moved).await;
    assert_eq!(moved["status"]["currentCSV"], "widgets.v2.0.0");
    let plan = own("v1alpha1", "InstallPlan", "work", moved["status"]["installPlanRef"]["name"].as_str().unwrap());
    // A Subscription that comes while a plan is open has one of its own, of the next generation.
    bench.until(&plan, |plan| plan["status"]["phase"] == "RequiresApproval").await;
    bench.admin.patch(&plan, "", &Patch::Merge(json!({"spec": {"approved": true}}))).await.unwrap();
    bench.until(&subscription, |one| one["status"]["state"] == "AtLatestKnown").await;
    let second = bench.subscribe("work", "gadgets", json!({})).await;
    let waiting = bench.plan_of(&second, "RequiresApproval").await;
    assert_eq!(waiting["spec"]["generation"], 3);
    bench.close().await;
}

/// OLM0-IP-13: what the API warns of while a step is done is an event of the plan, and counted.
#[tokio::test(flavor = "multi_thread")]
async fn warnings_are_told() {
    let monitor = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "widgets"}, "spec": {}});
    let bench = Bench::start().await;
    let open = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "servicemonitors.monitoring.coreos.com"},
        "spec": {"group": "monitoring.coreos.com", "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"}, "scope": "Namespaced", "versions": [
            {"name": "v1", "served": true, "storage": true, "deprecated": true, "deprecationWarning": "monitors of v1 end", "schema": open}]}});
    bench.apply(crd).await;
    let definition = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "servicemonitors.monitoring.coreos.com");
    bench.until(&definition, |crd| condition(crd, "Established")["status"] == "True").await;
    let image = bench.bundle("1.0.0", &Content { more: vec![monitor], ..Content::default() }).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({})).await;
    let plan = bench.plan_of(&subscription, "Complete").await;
    let kind = kube::api::GroupVersionKind::gvk("", "v1", "Event");
    let mut events = Vec::new();
    for _ in 0..500 {
        events =
            bench.admin.list(&kind, 1000).await.unwrap().into_iter().filter(|event| event["reason"] == "AppliedWithWarnings").collect();
        if !events.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let [event] = events.as_slice() else { panic!("{events:#?}") };
    assert_eq!(
        event["message"],
        "1 warning(s) generated during installation of operator \"widgets.v1.0.0\" (ServiceMonitor \"widgets\"): monitors of v1 end"
    );
    assert_eq!((&event["type"], &event["involvedObject"]["name"]), (&json!("Warning"), &plan["metadata"]["name"]));
    assert_eq!(event["involvedObject"]["kind"], "InstallPlan");
    let page = bench.env.metrics().page().unwrap();
    assert!(page.contains("\ninstallplan_warnings_total 1\n"), "{page}");
    bench.close().await;
}

/// OLM0-IP-15, OLM0-MET-02: a CRD notes each CSV that was installed alongside it, and forgets those that are gone; the series of a Subscription follows what it has.
#[tokio::test(flavor = "multi_thread")]
async fn installed_alongside() {
    let bench = Bench::start().await;
    namespace(&bench, "other").await;
    let (one, two) = (bench.bundle("1.0.0", &Content::default()).await, bench.bundle("2.0.0", &Content::default()).await);
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &one), ("2.0.0", &two)])).await;
    bench.ready(&source).await;
    for namespace in ["work", "other"] {
        bench.group(namespace, json!({})).await;
    }
    let crd = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com");
    let noted = |crd: &Value| {
        let all = crd["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let own = all.into_iter().filter(|(key, _)| key.starts_with("operatorframework.io/installed-alongside-"));
        let mut named: Vec<String> = own.map(|(_, value)| value.as_str().unwrap().to_owned()).collect();
        named.sort();
        named
    };
    let first = bench.subscribe("work", "widgets", json!({"startingCSV": "widgets.v1.0.0", "installPlanApproval": "Manual"})).await;
    let approve = async |subscription: &mainstay_objects::ObjectRef, csv: &str| {
        let waiting =
            |one: &Value| one["status"]["currentCSV"] == csv && condition(one, "InstallPlanPending")["reason"] == "RequiresApproval";
        let waiting = bench.until(subscription, waiting).await;
        let plan = own("v1alpha1", "InstallPlan", "work", waiting["status"]["installPlanRef"]["name"].as_str().unwrap());
        bench.admin.patch(&plan, "", &Patch::Merge(json!({"spec": {"approved": true}}))).await.unwrap();
        bench.until(&plan, |plan| plan["status"]["phase"] == "Complete").await;
    };
    approve(&first, "widgets.v1.0.0").await;
    let series = |installed: &str| {
        format!(
            "subscription_sync_total{{name=\"widgets\",installed=\"{installed}\",channel=\"stable\",package=\"widgets\",approval=\"Manual\"}} "
        )
    };
    let shown = async |line: String| {
        for _ in 0..500 {
            if bench.env.metrics().page().unwrap().contains(&line) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("{line} is not in {}", bench.env.metrics().page().unwrap());
    };
    shown(series("widgets.v1.0.0")).await;
    bench.phase("work", "widgets.v1.0.0", "Succeeded").await;
    assert_eq!(noted(&bench.get(&crd).await.unwrap()), ["work/widgets.v1.0.0"]);
    let second = bench.subscribe("other", "widgets", json!({})).await;
    bench.plan_of(&second, "Complete").await;
    assert_eq!(noted(&bench.get(&crd).await.unwrap()), ["other/widgets.v2.0.0", "work/widgets.v1.0.0"]);
    // The update notes the new one; the other's is gone with its CSV.
    bench.delete(&second).await;
    bench.delete(&own("v1alpha1", "ClusterServiceVersion", "other", "widgets.v2.0.0")).await;
    approve(&first, "widgets.v2.0.0").await;
    let now = noted(&bench.get(&crd).await.unwrap());
    assert_eq!(now, ["work/widgets.v1.0.0", "work/widgets.v2.0.0"]);
    shown(series("widgets.v2.0.0")).await;
    let page = bench.env.metrics().page().unwrap();
    assert!(!page.contains(&series("widgets.v1.0.0")), "{page}");
    bench.delete(&first).await;
    for _ in 0..500 {
        if !bench.env.metrics().page().unwrap().contains("subscription_sync_total{") {
            bench.close().await;
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{}", bench.env.metrics().page().unwrap());
}

/// OLM0-CSV-23, OLM0-IP-05: an account that several versions use belongs to each of them that is there, however often a plan wrote it; a version that
/// lost it would fail while it is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn accounts_are_shared_by_versions() {
    let bench = Bench::start().await;
    let mut known = Vec::new();
    for version in ["1.0.0", "2.0.0", "3.0.0"] {
        known.push((version, bench.bundle(version, &Content::default()).await));
    }
    let known: Vec<(&str, &str)> = known.iter().map(|(version, image)| (*version, image.as_str())).collect();
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &known)).await;
    bench.ready(&source).await;
    bench.group("work", json!({})).await;
    let subscription = bench.subscribe("work", "widgets", json!({"startingCSV": "widgets.v1.0.0"})).await;
    let account = place("v1", "ServiceAccount", "work", "widgets");
    for (version, _) in &known {
        let csv = format!("widgets.v{version}");
        let settled = |one: &Value| one["status"]["installedCSV"] == *csv && one["status"]["state"] != "UpgradePending";
        bench.until(&subscription, settled).await;
        bench.plan_of(&subscription, "Complete").await;
        let owners = bench.get(&account).await.unwrap()["metadata"]["ownerReferences"].clone();
        let mut named: Vec<&str> = owners.as_array().unwrap().iter().map(|owner| owner["name"].as_str().unwrap()).collect();
        named.sort_unstable();
        let wanted: Vec<String> = known.iter().map(|(version, _)| format!("widgets.v{version}")).take_while(|name| *name <= csv).collect();
        assert_eq!(named, wanted);
        bench.phase("work", &csv, "Succeeded").await;
        // The OLM operator takes the predecessor away; no garbage collector runs here.
        if let Some(before) = known.iter().rev().map(|(version, _)| format!("widgets.v{version}")).find(|name| *name < csv) {
            bench.delete(&own("v1alpha1", "ClusterServiceVersion", "work", &before)).await;
        }
    }
    bench.close().await;
}

/// OLM0-IP-15: plans that write one CRD at once forget none of their CSVs; one that was forgotten would wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn plans_at_once_forget_no_csv() {
    let bench = Bench::start().await;
    let image = bench.bundle("1.0.0", &Content::default()).await;
    let source = bench.catalog("openshift-marketplace", "test", &package("widgets", &[("1.0.0", &image)])).await;
    bench.ready(&source).await;
    let names: Vec<String> = (0..12).map(|at| format!("team-{at:02}")).collect();
    let mut manual = Vec::new();
    for name in &names {
        namespace(&bench, name).await;
        bench.group(name, json!({})).await;
        manual.push(bench.subscribe(name, "widgets", json!({"installPlanApproval": "Manual"})).await);
    }
    let mut plans = Vec::new();
    for subscription in &manual {
        let plan = bench.plan_of(subscription, "RequiresApproval").await;
        plans.push(own("v1alpha1", "InstallPlan", &subscription.namespace, plan["metadata"]["name"].as_str().unwrap()));
    }
    let approved = Patch::Merge(json!({"spec": {"approved": true}}));
    futures::future::join_all(plans.iter().map(|plan| bench.admin.patch(plan, "", &approved)))
        .await
        .into_iter()
        .for_each(|done| drop(done.unwrap()));
    for plan in &plans {
        bench.until(plan, |plan| plan["status"]["phase"] == "Complete").await;
    }
    let crd = bench.get(&place("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com")).await.unwrap();
    let all = crd["metadata"]["annotations"].as_object().unwrap();
    let noted: std::collections::BTreeSet<&str> = all.values().filter_map(Value::as_str).collect();
    for name in &names {
        assert!(noted.contains(format!("{name}/widgets.v1.0.0").as_str()), "{name} is not among {noted:?}");
    }
    bench.close().await;
}
