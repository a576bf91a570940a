//! Readiness for an update: each check fires, and is silent where nothing is wrong.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mainstay_api::config_v1::ClusterVersion;
use mainstay_catalog::{Catalog, Limits, MemorySource};
use mainstay_cluster_version_core::plan::{Plan, Side};
use mainstay_cluster_version_core::readiness::{
    CatalogOperator, CertificateFacts, Check, CrdFacts, DeprecatedRequests, Facts, ImageAnswers, Level, NextCatalog, OperatorLimit,
    PodFacts, PoolEstimate, Recommended, Release, Report, Target, check, estimate, next_image,
};
use mainstay_cluster_version_core::upgradeable::ConfigMap;
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::preview::CustomResources;
use mainstay_release::{Capabilities, Files, Filter, Payload, Values};
use mainstay_versions::Version;
use serde_json::{Value, json};

fn cluster_version(target: &str) -> Value {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "M", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    json!({
        "metadata": {"name": "version"}, "spec": {"clusterID": "c", "channel": "stable-4.18"},
        "status": {
            "desired": {"version": "4.18.1", "image": "one"}, "observedGeneration": 1, "versionHash": "h",
            "history": [{"state": "Completed", "startedTime": "2026-01-01T01:00:00Z", "completionTime": "2026-01-01T02:30:00Z", "version": "4.18.1", "image": "one", "verified": true},
                        {"state": "Completed", "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:30:00Z", "version": "4.18.0", "image": "zero", "verified": true}],
            "availableUpdates": [{"version": target, "image": "two"}],
            "conditions": [condition("Available", "True"), condition("Progressing", "False"), condition("Failing", "False")],
        }
    })
}

fn data(pairs: &[(&str, &str)]) -> ConfigMap {
    ConfigMap::Data(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>())
}

/// A plan of two releases with these manifests.
fn plan(old: &str, new: &str) -> Plan {
    let load = |text: &str| {
        let mut files = Files::default();
        files.add("release-manifests/0000_50_demo_10.yaml", text.into()).unwrap();
        Payload::all(&files, Values { release_image: "r", cluster_profile: "p" }, "test").unwrap()
    };
    let (old, new) = (load(old), load(new));
    let filter = Filter { profile: Some("p"), ..Filter::default() };
    let (old, new) = (Side { version: "4.18.1", manifests: &old }, Side { version: "4.18.2", manifests: &new });
    Plan::new(old, new, &["4.18.1".to_owned()], &filter, &Capabilities::all())
}

fn config_map(annotation: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: demo\n  name: one\n  annotations:\n    include.release.openshift.io/p: \"true\"\n{annotation}"
    )
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn certificate(not_after: &str, renewed_by: Option<&str>) -> CertificateFacts {
    CertificateFacts { object: "secret shop/web".to_owned(), not_after: at(not_after), renewed_by: renewed_by.map(str::to_owned) }
}

/// An Operator of the catalog `vendor`, installed as this bundle.
fn till(channel: &str, bundle: &str) -> CatalogOperator {
    CatalogOperator {
        object: "subscription shop/till".to_owned(),
        catalogs: vec!["catalogsource market/vendor".to_owned()],
        package: "till".to_owned(),
        channels: vec![channel.to_owned()],
        bundle: bundle.to_owned(),
        version: Version::parse(&format!("{}.0.0", bundle.trim_start_matches("till.v"))).ok(),
    }
}

const CATALOG: &str = "{schema: olm.package, name: till, defaultChannel: stable}
---
{schema: olm.channel, package: till, name: stable, entries: [{name: till.v3, replaces: till.v2}, {name: till.v2}]}
---
{schema: olm.channel, package: till, name: old, entries: [{name: till.v2, skipRange: '<2.0.0'}]}
---
{schema: olm.bundle, package: till, name: till.v2, image: i, properties: [{type: olm.package, value: {packageName: till, version: 2.0.0}}]}
---
{schema: olm.bundle, package: till, name: till.v3, image: i, properties: [{type: olm.package, value: {packageName: till, version: 3.0.0}}]}
";

fn next(content: &str) -> NextCatalog {
    let content = Catalog::load(&MemorySource::of("catalog.yaml", content.as_bytes().to_vec()), &Limits::default());
    NextCatalog { catalog: "catalogsource market/vendor".to_owned(), image: "vendor:v4.19".to_owned(), content: Ok(content.unwrap()) }
}

/// A world in which nothing is wrong; `change` makes something wrong.
fn report(target: &str, change: impl FnOnce(&mut Facts<'_>, &mut Value)) -> Report {
    let plan = plan(&config_map(""), &config_map(""));
    report_of(target, &plan, change)
}

fn report_of(target: &str, plan: &Plan, change: impl FnOnce(&mut Facts<'_>, &mut Value)) -> Report {
    let mut live = cluster_version(target);
    let placeholder: ClusterVersion = serde_json::from_value(live.clone()).unwrap();
    let kubernetes = Some(Version::parse("1.32.4").unwrap());
    let node = |name: &str| {
        json!({"metadata": {"name": name, "labels": {"role": "worker"}},
               "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4", "memory": "8Gi"}}})
    };
    let pod = |name: &str, node: &str| PodFacts {
        name: format!("demo/{name}"),
        node: node.to_owned(),
        controller: Some("ReplicaSet".to_owned()),
        cpu: 1000,
        memory: 1 << 30,
        ..PodFacts::default()
    };
    let operator = json!({"metadata": {"name": "dns"}, "status": {"conditions": [{"type": "Available", "status": "True"}, {"type": "Degraded", "status": "False"}]}});
    let pool = json!({"metadata": {"name": "worker"}, "spec": {"nodeSelector": {"matchLabels": {"role": "worker"}}},
                      "status": {"conditions": [{"type": "Updated", "status": "True"}, {"type": "Degraded", "status": "False"}]}});
    let budget = json!({"metadata": {"namespace": "demo", "name": "web"}, "status": {"expectedPods": 2, "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1}});
    let webhook = json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "guard"}, "webhooks": [
        {"name": "guard.demo.test", "failurePolicy": "Fail", "clientConfig": {"service": {"namespace": "demo", "name": "guard"}}}]});
    let mut facts = Facts {
        cluster_version: &placeholder,
        target: Target { version: target, release: Ok(Release { plan, kubernetes, crds: Vec::new() }) },
        answered_risks: None,
        operators: Ok(vec![operator]),
        pools: Ok(vec![pool]),
        nodes: Ok(vec![node("a"), node("b")]),
        pods: Ok(vec![pod("one", "a"), pod("two", "b")]),
        budgets: Ok(vec![budget]),
        gates: data(&[("ack-4.18-something", "Look at this.")]),
        acks: data(&[("ack-4.18-something", "true")]),
        operator_limits: Ok(vec![OperatorLimit { name: "demo/a.v1".to_owned(), limit: Ok((4, 20)) }]),
        deprecated_requests: Ok(vec![DeprecatedRequests {
            resource: "things.v1beta1.later".to_owned(),
            removed_in: "1.40".to_owned(),
            requests: 3,
            users: Vec::new(),
        }]),
        webhooks: Ok(vec![webhook]),
        ready_services: Ok(BTreeSet::from([("demo".to_owned(), "guard".to_owned())])),
        failing_health: Ok(Vec::new()),
        now: at("2026-03-01T00:00:00Z"),
        certificates: Ok(vec![certificate("2026-04-01T00:00:00Z", None)]),
        catalog_operators: Ok(vec![till("stable", "till.v2")]),
        next_catalogs: Ok(vec![next(CATALOG)]),
        images: Ok(ImageAnswers::Asked { count: 2, refused: Vec::new(), silent: Vec::new() }),
    };
    change(&mut facts, &mut live);
    let changed: ClusterVersion = serde_json::from_value(live).unwrap();
    check(&Facts { cluster_version: &changed, ..facts })
}

/// Findings as `Level check object`.
fn found(report: &Report) -> Vec<String> {
    assert_eq!(report.not_run, Vec::new());
    report.findings.iter().map(|finding| format!("{} {} {}", finding.level, finding.check.name(), finding.object)).collect()
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Reason", "message": "Message.", "lastTransitionTime": "2026-01-02T03:04:05Z"})
}

/// MS-READY-01, MS-READY-03, CVO-SIM-03: where nothing is wrong nothing is found, for a patch and for the next minor version.
#[test]
fn nothing_wrong() {
    for target in ["4.18.2", "4.19.0"] {
        assert_eq!(found(&report(target, |_, _| {})), Vec::<String>::new(), "{target}");
    }
    let names: BTreeSet<&str> = Check::ALL.iter().map(|check| check.name()).collect();
    assert_eq!(names.len(), Check::ALL.len());
    for check in Check::ALL {
        assert_eq!(json!(check), json!(check.name()));
    }
}

/// MS-READY-01, MS-READY-03: preconditions, risks, gates and operators.
#[test]
fn of_the_cluster() {
    let version = "clusterversion version";
    assert_eq!(
        found(&report("4.20.0", |_, _| {})),
        [
            format!("Blocks preconditions {version}"),
            // The plan is of another release.
        ]
    );
    assert_eq!(
        found(&report("4.18.2", |_, live| live["status"]["availableUpdates"] = json!([]))),
        ["Risk conditional-risks update to 4.18.2"]
    );
    let answered = |status: &str| Recommended { status: status.to_owned(), reason: "Slow".to_owned(), message: "It is slow.".to_owned() };
    let offered = |status: &'static str| {
        report("4.18.2", |facts, live| {
            facts.answered_risks = Some(answered(status));
            live["status"]["availableUpdates"] = json!([]);
        })
    };
    assert_eq!(found(&offered("True")), Vec::<String>::new());
    assert_eq!(found(&offered("False")), ["Risk conditional-risks update to 4.18.2"]);
    assert_eq!(offered("Unknown").findings[0].evidence, "Recommended=Unknown Slow: It is slow.");
    let unacknowledged = |target| report(target, |facts, _| facts.acks = data(&[]));
    assert_eq!(found(&unacknowledged("4.18.2")), ["Note admin-gates configmap openshift-config-managed/admin-gates"]);
    assert_eq!(found(&unacknowledged("4.19.0")), ["Blocks admin-gates configmap openshift-config-managed/admin-gates"]);
    assert_eq!(unacknowledged("4.19.0").findings[0].evidence, "Look at this.");
    let failing = report("4.18.2", |_, live| live["status"]["conditions"][2]["status"] = json!("True"));
    assert_eq!(found(&failing), [format!("Risk cluster-version {version}")]);
    assert_eq!(failing.findings[0].since.as_deref(), Some("2026-01-02T03:04:05Z"));
    let operator = |target: &'static str, kind: &'static str, status: &'static str| {
        let conditions = json!([condition(kind, status)]);
        let operator = json!({"metadata": {"name": "dns"}, "status": {"conditions": conditions}});
        report(target, |facts, _| facts.operators = Ok(vec![operator]))
    };
    assert_eq!(found(&operator("4.18.2", "Available", "False")), ["Blocks cluster-operators clusteroperator dns"]);
    assert_eq!(found(&operator("4.18.2", "Degraded", "True")), ["Risk cluster-operators clusteroperator dns"]);
    assert_eq!(found(&operator("4.18.2", "Upgradeable", "False")), ["Note cluster-operators clusteroperator dns"]);
    assert_eq!(found(&operator("4.19.0", "Upgradeable", "False")), ["Blocks cluster-operators clusteroperator dns"]);
    let limit = |limit: Result<(u64, u64), SharedError>| {
        report("4.19.0", |facts, _| facts.operator_limits = Ok(vec![OperatorLimit { name: "demo/a.v1".to_owned(), limit }]))
    };
    assert_eq!(found(&limit(Ok((4, 18)))), ["Blocks olm-max-version csv demo/a.v1"]);
    assert_eq!(found(&limit(Ok((4, 19)))), Vec::<String>::new());
    assert_eq!(found(&limit(Err("unreadable".into()))), ["Risk olm-max-version csv demo/a.v1"]);
}

/// MS-READY-01, MS-READY-03, MACH-PAUSE-06: pools, nodes, budgets, pods and room for them.
#[test]
fn of_the_nodes() {
    let pool = |name: &str, change: fn(&mut Value)| {
        let mut pool = json!({"metadata": {"name": name}, "spec": {}, "status": {}});
        change(&mut pool);
        report("4.18.2", |facts, _| facts.pools = Ok(vec![pool]))
    };
    let paused = |pool: &mut Value| pool["spec"]["paused"] = json!(true);
    assert_eq!(found(&pool("master", paused)), ["Blocks pools machineconfigpool master"]);
    assert_eq!(found(&pool("worker", paused)), ["Risk pools machineconfigpool worker"]);
    for limit in
        [|pool: &mut Value| pool["spec"]["maxUnavailable"] = json!("many"), |pool: &mut Value| pool["spec"]["maxUnavailable"] = json!(-1)]
    {
        assert_eq!(found(&pool("worker", limit)), ["Risk pools machineconfigpool worker"]);
    }
    let degraded = |pool: &mut Value| pool["status"]["conditions"] = json!([condition("Degraded", "True"), condition("Updating", "True")]);
    assert_eq!(found(&pool("worker", degraded)), ["Risk pools machineconfigpool worker", "Risk pools machineconfigpool worker"]);

    let node = |change: Value| {
        let mut node = json!({"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        node.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        report("4.18.2", |facts, _| {
            facts.nodes = Ok(vec![node]);
            facts.pools = Ok(Vec::new());
        })
    };
    assert_eq!(found(&node(json!({}))), Vec::<String>::new());
    assert_eq!(found(&node(json!({"spec": {"unschedulable": true}}))), ["Risk nodes node a"]);
    assert_eq!(found(&node(json!({"status": {"conditions": [condition("Ready", "Unknown")]}}))), ["Risk nodes node a"]);

    let budget = |expected: i64, healthy: i64, desired: i64, allowed: i64| {
        let status = json!({"expectedPods": expected, "currentHealthy": healthy, "desiredHealthy": desired, "disruptionsAllowed": allowed});
        let budget = json!({"metadata": {"namespace": "demo", "name": "web"}, "status": status});
        report("4.18.2", |facts, _| facts.budgets = Ok(vec![budget]))
    };
    assert_eq!(found(&budget(1, 1, 1, 0)), ["Blocks drain poddisruptionbudget demo/web"]);
    assert_eq!(found(&budget(3, 2, 2, 0)), ["Risk drain poddisruptionbudget demo/web"]);
    assert_eq!(found(&budget(0, 0, 0, 0)), Vec::<String>::new());

    let pod = |change: fn(&mut PodFacts)| {
        let mut pod =
            PodFacts { name: "demo/one".to_owned(), node: "a".to_owned(), controller: Some("Job".to_owned()), ..PodFacts::default() };
        change(&mut pod);
        report("4.18.2", |facts, _| facts.pods = Ok(vec![pod]))
    };
    assert_eq!(found(&pod(|pod| pod.controller = None)), ["Note drain pods"]);
    assert_eq!(found(&pod(|pod| pod.keeps_local_data = true)), ["Note drain pods"]);
    let ended = |pod: &mut PodFacts| (pod.controller, pod.is_finished) = (None, true);
    assert_eq!(found(&pod(ended)), Vec::<String>::new());
    let of_a_daemon = |pod: &mut PodFacts| (pod.controller, pod.keeps_local_data) = (Some("DaemonSet".to_owned()), true);
    assert_eq!(found(&pod(of_a_daemon)), Vec::<String>::new());
    // Node a is full, and b has 3 cores.
    let full = pod(|pod| (pod.cpu, pod.memory) = (5000, 1 << 30));
    assert_eq!(found(&full), ["Risk capacity machineconfigpool worker"]);
    assert!(full.findings[0].evidence.contains("ask for 5000m cpu, and 4000m is free"), "{}", full.findings[0].evidence);
}

/// A definition with a schema of one version.
fn definition(version: &str, kind_of_size: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": kind_of_size}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "boxes.demo.test"},
           "spec": {"group": "demo.test", "scope": "Namespaced", "names": {"kind": "Box", "plural": "boxes", "singular": "box", "listKind": "BoxList"},
                    "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
           "status": {"storedVersions": [version]}})
}

/// MS-READY-01, MS-READY-03, CVO-SIM-03: APIs that go, definitions that change, webhooks without an answer, the store.
#[test]
fn of_the_api() {
    let requested = |requests: u64, removed_in: &str| {
        let one = DeprecatedRequests {
            resource: "things.v1beta1.g".to_owned(),
            removed_in: removed_in.to_owned(),
            requests,
            users: vec!["ann".to_owned()],
        };
        report("4.19.0", |facts, _| facts.deprecated_requests = Ok(vec![one]))
    };
    let evidence = &requested(2, "1.32").findings[0].evidence;
    assert_eq!(evidence, "2 requests, by ann; Kubernetes 1.32 removes it, and the release has 1.32");
    assert_eq!(found(&requested(2, "1.33")), Vec::<String>::new());
    assert_eq!(found(&requested(0, "1.25")), Vec::<String>::new());

    let instance = json!({"apiVersion": "demo.test/v1", "kind": "Box", "metadata": {"namespace": "n", "name": "b"}, "spec": {"size": 1}});
    let changed = |wanted: Value, objects: Vec<Value>| {
        let instances = Ok(CustomResources { count: objects.len(), objects });
        let crd = CrdFacts { live: definition("v1", "integer"), wanted, instances };
        report("4.18.2", |facts, _| facts.target.release.as_mut().unwrap().crds = vec![crd])
    };
    let object = "customresourcedefinition boxes.demo.test";
    assert_eq!(found(&changed(definition("v2", "integer"), Vec::new())), [format!("Blocks crd-stored-versions {object}")]);
    assert_eq!(found(&changed(definition("v1", "string"), vec![instance.clone()])), [format!("Risk crd-compatibility {object}")]);
    assert_eq!(found(&changed(definition("v1", "string"), Vec::new())), Vec::<String>::new());
    assert_eq!(found(&changed(definition("v1", "integer"), vec![instance])), Vec::<String>::new());

    let service =
        |name: &'static str| report("4.18.2", |facts, _| facts.ready_services = Ok(BTreeSet::from([("demo".to_owned(), name.to_owned())])));
    assert_eq!(found(&service("other")), ["Risk webhooks validatingwebhookconfiguration guard"]);
    let open = report("4.18.2", |facts, _| {
        facts.ready_services = Ok(BTreeSet::new());
        facts.webhooks.as_mut().unwrap()[0]["webhooks"][0]["failurePolicy"] = json!("Ignore");
    });
    assert_eq!(found(&open), Vec::<String>::new());
    assert_eq!(
        found(&report("4.18.2", |facts, _| facts.failing_health = Ok(vec!["etcd".to_owned()]))),
        ["Blocks etcd-or-store API server"]
    );
}

/// MS-READY-01, CVO-SIM-03: deletions and manifests that fail, as the plan has them.
#[test]
fn of_the_update() {
    let delete = plan(&config_map(""), &config_map("    release.openshift.io/delete: \"true\"\n"));
    assert_eq!(found(&report_of("4.18.2", &delete, |_, _| {})), ["Note update configmap demo/one"]);
    let broken = plan(&config_map(""), &config_map("    release.openshift.io/delete: \"yes\"\n"));
    let report = report_of("4.18.2", &broken, |_, _| {});
    assert_eq!(found(&report), ["Blocks update configmap demo/one"]);
    assert!(report.blocks());
}

/// MS-READY-03: Operators whose package, channel or way on is missing from the next catalog, and what is deprecated there.
#[test]
fn next_catalogs() {
    let of = |operator: CatalogOperator, content: &str| {
        let catalog = next(content);
        report("4.19.0", |facts, _| {
            facts.catalog_operators = Ok(vec![operator]);
            facts.next_catalogs = Ok(vec![catalog]);
        })
    };
    let evidence = |report: &Report| {
        let texts: Vec<String> = report.findings.iter().map(|finding| format!("{} {}", finding.level, finding.evidence)).collect();
        assert!(report.findings.iter().all(|finding| finding.check == Check::CatalogNext && finding.object == "subscription shop/till"));
        texts
    };
    let gone = CATALOG.replace("till", "other");
    assert_eq!(evidence(&of(till("stable", "till.v2"), &gone)), ["Risk package till is not in vendor:v4.19: it gets no further updates"]);
    let channel = of(till("beta", "till.v2"), CATALOG);
    assert_eq!(
        evidence(&channel),
        ["Risk channel beta of package till is not in vendor:v4.19, which has old; stable; its default is stable"]
    );
    let stranded = of(till("stable", "till.v1"), CATALOG);
    assert_eq!(evidence(&stranded), ["Risk in vendor:v4.19 no update leads from 1.0.0 to the head of channel stable"]);
    assert!(stranded.findings[0].action.ends_with("a channel that leads on from here: old"), "{}", stranded.findings[0].action);
    assert_eq!(evidence(&of(till("stable", "till.v3"), CATALOG)), Vec::<String>::new());
    assert_eq!(evidence(&of(CatalogOperator { channels: Vec::new(), ..till("", "till.v1") }, CATALOG)), Vec::<String>::new());
    let never_installed = CatalogOperator { bundle: String::new(), version: None, ..till("stable", "") };
    assert_eq!(evidence(&of(never_installed, CATALOG)), Vec::<String>::new());
    let deprecations = "---\n{schema: olm.deprecations, package: till, entries: [
        {reference: {schema: olm.channel, name: stable}, message: Take fast.}, {reference: {schema: olm.bundle, name: till.v9}, message: No.}]}\n";
    assert_eq!(
        evidence(&of(till("stable", "till.v2"), &format!("{CATALOG}{deprecations}"))),
        ["Note channel stable is deprecated in vendor:v4.19: Take fast."]
    );
    // Any of several catalogs may serve an extension; one whose content stays may do so as before.
    let anywhere = |more: &str| CatalogOperator {
        catalogs: vec!["catalogsource market/vendor".to_owned(), format!("catalogsource market/{more}")],
        ..till("stable", "till.v2")
    };
    assert_eq!(evidence(&of(anywhere("own"), &gone)), Vec::<String>::new());
    assert_eq!(evidence(&of(anywhere("vendor"), &gone)).len(), 1);
    let unread = report("4.19.0", |facts, _| {
        facts.next_catalogs = Ok(vec![NextCatalog { content: Err("no such image".into()), ..next(CATALOG) }]);
    });
    assert_eq!((unread.not_run[0].check, unread.not_run[0].why.as_str()), (Check::CatalogNext, "vendor:v4.19: no such image"));
    let moved = |image: &str, from: &str, to: &str| next_image(image, &Version::parse(from).unwrap(), &Version::parse(to).unwrap());
    assert_eq!(moved("r:5000/index:v4.18", "4.18.3", "4.19.0").as_deref(), Some("r:5000/index:v4.19"));
    assert_eq!(moved("r/index:v4.18", "4.18.3", "4.18.9"), None);
    assert_eq!(moved("r/index:v4.17", "4.18.3", "4.19.0"), None);
    assert_eq!(moved("r/index@sha256:0", "4.18.3", "4.19.0"), None);
}

/// MS-READY-03: support of the installed version, and the releases that it is made for, as the next catalog tells.
#[test]
fn support_dates() {
    let of = |end: &str, platforms: &str, name: &str| {
        let lifecycle = format!(
            "---\n{{schema: io.openshift.operators.lifecycles.v1alpha1, package: till, versions: [{{name: '{name}', phases: [
                {{name: Full support, startDate: '2024-01-01', endDate: '2024-12-31'}}, {{name: Maintenance, startDate: '2025-01-01', endDate: '{end}'}}],
                platformCompatibility: [{{name: openshift, versions: [{platforms}]}}]}}]}}\n"
        );
        let catalog = next(&format!("{CATALOG}{lifecycle}"));
        let report = report("4.19.0", |facts, _| facts.next_catalogs = Ok(vec![catalog]));
        let texts = report.findings.iter().map(|finding| format!("{} {}", finding.level, finding.evidence));
        texts.chain(report.not_run.iter().map(|one| one.why.clone())).collect::<Vec<_>>()
    };
    assert_eq!(of("2027-01-01", "'4.18', '4.19'", "2.0"), Vec::<String>::new());
    assert_eq!(of("2026-02-28", "'4.19'", "2.0"), ["Risk support of till 2.0 ended on 2026-02-28 (Maintenance)"]);
    assert_eq!(of("2026-03-01", "'4.19'", "2.0"), ["Note support of till 2.0 ends on 2026-03-01 (Maintenance)"]);
    assert_eq!(of("2027-01-01", "'4.17', '4.18'", "2.0"), ["Risk till 2.0 is supported on 4.17; 4.18, and not on 4.19"]);
    assert_eq!(of("2020-01-01", "'4.18'", "1.0"), Vec::<String>::new());
    let unreadable = of("soon", "'4.19'", "2.0");
    assert!(unreadable[0].starts_with("vendor:v4.19: io.openshift.operators.lifecycles.v1alpha1 of package till: "), "{unreadable:?}");
}

/// MS-READY-03: certificates that end within 30 days, with and without a program that renews them.
#[test]
fn certificates() {
    let of = |not_after: &str, renewed_by| {
        let one = certificate(not_after, renewed_by);
        let report = report("4.18.2", |facts, _| facts.certificates = Ok(vec![one]));
        report.findings.iter().map(|finding| format!("{} {}", finding.level, finding.evidence)).collect::<Vec<_>>()
    };
    let soon = "its certificate ends at 2026-03-11T00:00:00Z, in 10 days";
    assert_eq!(of("2026-03-11T00:00:00Z", None), [format!("Risk {soon}")]);
    assert_eq!(of("2026-03-11T00:00:00Z", Some("service-ca")), [format!("Note {soon}")]);
    assert_eq!(of("2026-02-01T00:00:00Z", Some("service-ca")), ["Risk its certificate ended at 2026-02-01T00:00:00Z"]);
    assert_eq!(of("2026-03-31T00:00:01Z", None), Vec::<String>::new());
}

/// MS-READY-03: images that registries refuse block; registries that do not answer are named, and never count as passed.
#[test]
fn images() {
    let of = |answers| report("4.18.2", |facts, _| facts.images = answers);
    let refused = vec![("r.test/a@sha256:0".to_owned(), SharedError::from("manifest unknown"))];
    let silent = vec![("q.test".to_owned(), SharedError::from("no route to host"))];
    let found = of(Ok(ImageAnswers::Asked { count: 9, refused, silent }));
    assert_eq!((found.findings[0].level, found.findings[0].check), (Level::Blocks, Check::Images));
    assert_eq!(
        found.findings[0].evidence,
        "1 of 9 images cannot be pulled with the present credentials and mirrors: r.test/a@sha256:0: manifest unknown"
    );
    assert_eq!((found.not_run[0].check, found.not_run[0].why.as_str()), (Check::Images, "q.test: no route to host"));
    assert_eq!(of(Ok(ImageAnswers::NotPulled)).findings[0].level, Level::Note);
    assert_eq!(of(Err("no image-references".into())).not_run.len(), 1);
}

/// MS-READY-03: a fact that cannot be read takes its checks away, by name, and no others.
#[test]
fn unknown() {
    let report = report("4.18.2", |facts, _| {
        facts.pods = Err("pods is forbidden".into());
        facts.target.release = Err("the registry does not answer".into());
        facts.failing_health = Ok(vec!["etcd".to_owned()]);
    });
    let named: Vec<(&str, &str)> = report.not_run.iter().map(|one| (one.check.name(), one.why.as_str())).collect();
    let (registry, pods) = ("the registry does not answer", "pods is forbidden");
    assert_eq!(
        named,
        [
            ("update", registry),
            ("removed-apis", registry),
            ("crd-stored-versions", registry),
            ("crd-compatibility", registry),
            ("drain", pods),
            ("capacity", pods),
        ]
    );
    assert_eq!(report.findings.len(), 1);
}

/// CVO-SIM-03: what takes long: the last update, and rounds of nodes.
#[test]
fn durations() {
    let cluster_version: ClusterVersion = serde_json::from_value(cluster_version("4.18.2")).unwrap();
    let nodes: Vec<Value> =
        (0..7).map(|number| json!({"metadata": {"name": format!("n{number}"), "labels": {"role": "worker"}}})).collect();
    let pool = |max: Value| json!({"metadata": {"name": "worker"}, "spec": {"maxUnavailable": max, "nodeSelector": {"matchLabels": {"role": "worker"}}}});
    for (max, at_once, rounds) in
        [(json!(3), 3, 3), (json!("30%"), 2, 4), (json!("1%"), 1, 7), (Value::Null, 1, 7), (json!("x"), 0, 0), (json!(-1), 0, 0)]
    {
        let found = estimate(&cluster_version, &[pool(max)], &nodes);
        assert_eq!(found.last_update_seconds, Some(5400));
        assert_eq!(found.pools, [PoolEstimate { name: "worker".to_owned(), nodes: 7, max_unavailable: at_once, rounds }]);
    }
    assert_eq!(Level::Blocks.to_string(), "Blocks");
}
