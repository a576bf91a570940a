//! Plans as people see them, situation by situation: what they say of objects, fields, CRDs, permissions, images, and of the path.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::sync::Arc;

use insta::assert_snapshot;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_bundle::Bundle;
use mainstay_catalog::{Catalog, Limits, MemorySource};
use mainstay_lifecycle::Live;
use mainstay_lifecycle::preview::{Change, CustomResources, FactRevision, ImageSize, Kind, Step};
use mainstay_lifecycle::revision::State;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::cluster_operator::compat::Platform;
use mainstay_olm_v1_core::extension::facts::{Answer, CatalogContent, CatalogFact, Fact, Snapshot};
use mainstay_olm_v1_core::extension::plan::{Plan, plan};
use mainstay_olm_v1_core::extension::preview::{self, Extra};
use mainstay_resolver::ModelSource;
use serde_json::{Value, json};

use crate::scene::{self, Content, Scene, catalog, files, image, table};

/// A step as text; what stays as it is only counted.
fn told(step: &Step) -> String {
    let bundle = step.bundle.as_ref().map_or("none", |bundle| bundle.name.as_str());
    let from = step.from.as_ref().map_or("nothing", |bundle| bundle.name.as_str());
    let mut text = format!("{:?} {bundle} over {from}\n", step.kind);
    if let Some(problem) = &step.problem {
        let _ = writeln!(text, "problem: {}", problem.message);
        problem.causes.iter().for_each(|line| writeln!(text, "  cause: {line}").unwrap());
        problem.hints.iter().for_each(|line| writeln!(text, "  hint: {line}").unwrap());
    }
    let quiet = step.objects.iter().filter(|object| object.change == Change::Unchanged).count();
    for object in step.objects.iter().filter(|object| object.change != Change::Unchanged) {
        let owner = object.owner.as_ref().map(|owner| format!(" of {owner}")).unwrap_or_default();
        let note = if object.note.is_empty() { String::new() } else { format!(" ({})", object.note) };
        let _ = writeln!(text, "{} {}{owner}{note}", object.change, object.title());
        object.fields.iter().for_each(|field| writeln!(text, "    {field}").unwrap());
    }
    let _ = writeln!(text, "unchanged: {quiet}");
    for crd in &step.custom_resource_definitions {
        let existing =
            crd.existing.as_ref().map_or_else(|| crd.existing_unknown.clone().unwrap_or_default(), |found| found.count.to_string());
        let _ = writeln!(text, "crd {} {}: {existing} custom resources", crd.change, crd.name);
        crd.versions.iter().chain(&crd.findings).for_each(|line| writeln!(text, "    {line}").unwrap());
        crd.existing.iter().flat_map(|found| &found.invalid).for_each(|line| writeln!(text, "    invalid {line}").unwrap());
    }
    for image in &step.images {
        let size = image
            .size
            .as_ref()
            .map_or_else(|| image.size_unknown.clone().unwrap_or_default(), |size| format!("{} {}", size.size, size.digest));
        let _ = writeln!(text, "image {} for {}: {size}", image.reference, image.used_by.join("; "));
    }
    let mut lines = |title: &str, lines: &[String]| lines.iter().for_each(|line| writeln!(text, "{title} {line}").unwrap());
    lines("why", &step.reasons);
    lines("gained", &step.permissions_gained);
    lines("lost", &step.permissions_lost);
    lines("api", &step.api_extensions);
    lines("restart", &step.restarts.iter().map(|restart| format!("{}: {}", restart.workload, restart.because)).collect::<Vec<_>>());
    lines("warning", &step.warnings);
    text
}

fn case(change: impl FnOnce(&mut Scene)) -> String {
    case_with(&Extra::default(), change)
}

fn case_with(extra: &Extra, change: impl FnOnce(&mut Scene)) -> String {
    told(&step_with(extra, change))
}

fn step_with(extra: &Extra, change: impl FnOnce(&mut Scene)) -> Step {
    let mut scene = Scene::new();
    change(&mut scene);
    let (_, plan, mut snapshot) = scene.decide();
    look(&scene, &mut snapshot, preview::unlooked(&scene.decide().2, &plan));
    preview::step(&snapshot, &plan, extra)
}

/// Gives a snapshot the live objects that are asked for.
fn look(scene: &Scene, snapshot: &mut Snapshot, facts: Vec<Fact>) {
    for fact in facts {
        match fact {
            Fact::Live(target) => {
                let live = scene.live.get(&target).cloned().unwrap_or(Live::Absent);
                snapshot.known.live.insert(target, live);
            }
            Fact::Bundle(image) => {
                let bundle = scene.bundles[&image.reference].clone();
                snapshot.known.bundles.insert(image.reference, bundle);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn config(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

fn only(version: &str, scene: &mut Scene) {
    scene.request("version", json!(version));
    scene.request("upgradeConstraintPolicy", json!("SelfCertified"));
}

/// OLM1-API-02, MS-PLAN-01: a namespace that the controller makes is shown before everything else, with the labels that the bundle wants.
#[test]
fn a_namespace_that_is_made_is_shown() {
    let step = step_with(&Extra::default(), |scene| {
        scene.account = Ok(false);
        scene.extension["metadata"]["annotations"] = json!({"lifecycle.mainstay.dev/missing-namespace": "Create"});
        let mut bundle = (*scene::bundle("2.0.0", &Content::default())).clone();
        let template = json!({"metadata": {"labels": {"example.com/tier": "one"}}}).to_string();
        bundle.csv.annotations.insert("operatorframework.io/suggested-namespace-template".to_owned(), template);
        scene.bundles.insert(scene::image("2.0.0"), Ok(Arc::new(bundle)));
    });
    let namespace = &step.objects[0];
    assert_eq!((namespace.title().as_str(), namespace.change), ("Namespace work", Change::Created));
    assert_eq!(namespace.note, "made by operator-controller, labelled example.com/tier=one; it stays when the extension is removed");
    assert!(step.problem.is_some(), "the account is still to be made");
}

/// MS-PLAN-01: a first install: why this bundle, every object, permissions as rules in words, images with sizes or why there are none.
#[test]
fn an_install() {
    let mut extra = Extra::default();
    extra.images.insert(image("2.0.0"), Ok(ImageSize { digest: "sha256:aa".to_owned(), size: 4711 }));
    extra.images.insert("example.com/widgets:2.0.0".to_owned(), Err("the registry did not answer within 3 s".into()));
    assert_snapshot!(case_with(&extra, |scene| {
        scene.offer("2.0.0", &Content { webhook: true, ..Content::default() });
    }));
}

/// MS-PLAN-01: an upgrade: objects that come, change (field by field, without what the server adds), go and stay; what restarts; webhooks.
#[test]
fn an_upgrade() {
    assert_snapshot!(case(|scene| {
        let mut kept = config("kept", "1");
        kept["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
        scene.offer(
            "1.0.0",
            &Content {
                more: vec![config("old", "1"), config("both", "1"), config("same", "1"), kept],
                webhook: true,
                ..Content::default()
            },
        );
        scene.offer("1.1.0", &Content { more: vec![config("new", "1"), config("both", "2"), config("same", "1")], ..Content::default() });
        scene.have("1.0.0", State::Deployed);
        // What servers and controllers add is no change.
        scene.touch("Deployment", "widgets", |live| {
            live["status"] = json!({"readyReplicas": 1});
            live["spec"]["revisionHistoryLimit"] = json!(10);
            live["metadata"]["resourceVersion"] = json!("17");
            live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
        });
        only("1.1.0", scene);
    }));
}

/// MS-PLAN-01: a field that somebody changed is put back; what is as wanted is not named.
#[test]
fn a_repair_and_nothing() {
    assert_snapshot!(table(&[
        (
            "somebody scaled it",
            case(|scene| {
                scene.have("2.0.0", State::Deployed);
                scene.touch("Deployment", "widgets", |live| live["spec"]["replicas"] = json!(0));
            })
        ),
        ("all is well", case(|scene| scene.have("2.0.0", State::Deployed))),
    ]));
}

/// MS-PLAN-01, OLM1-OWN-03: objects that carry the extension's labels are adopted; those of others are in the way, and say whose they are.
#[test]
fn adopted_and_conflicting() {
    let marked = |owner: &str, controller: Option<&str>| {
        let mut object = config("shared", "1");
        object["metadata"]["namespace"] = json!("work");
        object["metadata"]["labels"] =
            json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": owner});
        if let Some(uid) = controller {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": owner, "uid": uid, "controller": true}]);
        }
        object
    };
    let with = |object: Value| {
        case(|scene| {
            scene.offer("2.0.0", &Content { more: vec![config("shared", "2")], ..Content::default() });
            scene.see(object);
        })
    };
    let mut nobodys = marked("", None);
    nobodys["metadata"]["labels"] = Value::Null;
    assert_snapshot!(table(&[
        ("adopted", with(marked("widgets", None))),
        ("of another extension", with(marked("gadgets", Some("uid-2")))),
        ("of nobody", with(nobodys)),
    ]));
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "work"}, "spec": spec})
}

fn instances(all: &[Value]) -> Extra {
    let mut extra = Extra::default();
    extra.instances.insert("widgets.example.com".to_owned(), Ok(CustomResources { count: all.len(), objects: all.to_vec() }));
    extra
}

/// MS-PLAN-01, OLM1-CRD-01, OLM1-CRD-07: what a changed CRD does to custom resources: how many there are, and which would no longer
/// validate; refused or, with the check switched off, done with a warning. An instance that was invalid before is not held against it.
#[test]
fn crds_with_their_custom_resources() {
    let some = instances(&[
        widget("small", &json!({"size": 1})),
        widget("large", &json!({"size": 1000, "colour": "red"})),
        widget("broken", &json!({"size": "huge", "colour": "red"})),
    ]);
    let change = |scene: &mut Scene| {
        let colour = ("colour", json!({"type": "string"}));
        scene.offer("1.0.0", &Content { fields: vec![colour.clone()], ..Content::default() });
        let fields = vec![("size", json!({"type": "integer", "maximum": 10})), colour];
        scene.offer("1.1.0", &Content { fields, required: vec!["colour"], ..Content::default() });
        scene.have("1.0.0", State::Deployed);
        only("1.1.0", scene);
    };
    let off = |scene: &mut Scene| {
        change(scene);
        scene.extension["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
    };
    let harmless = |scene: &mut Scene| {
        scene.offer("1.1.0", &Content { fields: vec![("colour", json!({"type": "string"}))], ..Content::default() });
        scene.have("1.0.0", State::Deployed);
        only("1.1.0", scene);
    };
    let gone = |scene: &mut Scene| {
        scene.offer("1.1.0", &Content { without_crd: true, ..Content::default() });
        scene.have("1.0.0", State::Deployed);
        only("1.1.0", scene);
    };
    let crds = |extra: &Extra, change: &dyn Fn(&mut Scene)| {
        let step = step_with(extra, change);
        told(&Step { objects: Vec::new(), images: Vec::new(), restarts: Vec::new(), reasons: Vec::new(), ..step })
    };
    assert_snapshot!(table(&[
        ("a stricter schema", crds(&some, &change)),
        ("a stricter schema, the check is off", crds(&some, &off)),
        ("another field", crds(&some, &harmless)),
        ("nobody may look", {
            let mut extra = Extra::default();
            extra.instances.insert("widgets.example.com".to_owned(), Err("widgets.example.com is forbidden".into()));
            crds(&extra, &harmless)
        }),
        ("the CRD goes", crds(&some, &gone)),
    ]));
}

/// The bundle of a version with its CSV changed.
fn changed(version: &str, change: impl FnOnce(&mut Value)) -> Arc<Bundle> {
    let mut all = files(version, &Content::default());
    let csv = all.iter_mut().find(|(name, _)| name == "manifests/csv.yaml").unwrap();
    let mut object: Value = serde_json::from_str(&csv.1).unwrap();
    change(&mut object);
    csv.1 = object.to_string();
    Arc::new(Bundle::read(all.into_iter().map(|(path, text)| (path, text.into_bytes()))).unwrap())
}

/// MS-PLAN-01, MS-POL-02: permissions of the operator's accounts, as rules in words: what is gained, lost, and where.
#[test]
fn permissions_gained_and_lost() {
    let step = step_with(&Extra::default(), |scene| {
        let bundle = changed("1.1.0", |csv| {
            let spec = &mut csv["spec"]["install"]["spec"];
            spec["clusterPermissions"][0]["rules"] = json!([
                {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "update"]},
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
            ]);
            spec["permissions"] = json!([{"serviceAccountName": "widgets", "rules": [
                {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["lock"], "verbs": ["get"]}
            ]}]);
        });
        scene.bundles.insert(image("1.1.0"), Ok(bundle));
        scene.have("1.0.0", State::Deployed);
        only("1.1.0", scene);
    });
    assert_eq!(
        step.permissions_gained,
        [
            "service account work/widgets: get configmaps (only lock) in all namespaces",
            "service account work/widgets: get, list, watch namespaces in all namespaces",
            "service account work/widgets: update widgets.example.com in all namespaces",
            "service account work/widgets: anything with secrets in all namespaces",
        ]
    );
    assert_eq!(step.permissions_lost, ["service account work/widgets: watch widgets.example.com in all namespaces"]);
}

/// MS-PLAN-01, MS-POL-05, OLM1-CTRL-05: deprecations; minKubeVersion above the server's; olm.maxOpenShiftVersion; the check of CRDs off.
#[test]
fn warnings() {
    let extra = Extra { server_version: Some("1.30.4".to_owned()), ..Extra::default() };
    let step = step_with(&extra, |scene| {
        let text = "channel stable: 1.0.0 1.1.0<1.0.0 2.0.0<1.1.0
            deprecated package: use gadgets
            deprecated channel stable: use fast
            deprecated bundle widgets.v2.0.0: has a leak";
        scene.catalogs = vec![catalog("main", text)];
        scene.request("channels", json!(["stable"]));
        scene.request("version", json!("2.0.0"));
        scene.extension["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
        let bundle = changed("2.0.0", |csv| {
            csv["spec"]["minKubeVersion"] = json!("1.33.0");
            csv["metadata"]["annotations"] = json!({"olm.properties": r#"[{"type": "olm.maxOpenShiftVersion", "value": "4.19"}]"#});
        });
        scene.bundles.insert(image("2.0.0"), Ok(bundle));
    });
    assert_snapshot!(step.warnings.join("\n"));
    let new = Extra { server_version: Some("1.34.0".to_owned()), ..Extra::default() };
    let fits = step_with(&new, |scene| {
        scene.bundles.insert(image("2.0.0"), Ok(changed("2.0.0", |csv| csv["spec"]["minKubeVersion"] = json!("1.33.0"))));
    });
    assert_eq!(fits.warnings, Vec::<String>::new());
    // OLM1-COMPAT-02, OLM1-COMPAT-03, OLM1-COMPAT-06: where the platform's version is known, it is said what the bundle does to its update.
    let on = |minor: u64, value: &'static str| {
        let extra = Extra { platform: Some(Platform { major: 4, minor }), ..Extra::default() };
        let step = step_with(&extra, |scene| {
            let properties = format!(r#"[{{"type": "olm.maxOpenShiftVersion", "value": {value}}}]"#);
            let bundle = changed("2.0.0", |csv| csv["metadata"]["annotations"] = json!({"olm.properties": properties}));
            scene.bundles.insert(image("2.0.0"), Ok(bundle));
        });
        step.warnings.join("; ")
    };
    assert_eq!(
        on(19, "4.10"),
        "the bundle supports platform versions up to 4.10, so updating the platform to 4.20 is blocked: update the extension to a version that has a valid path and supports 4.20, or remove it; then retry the platform update"
    );
    assert!(on(18, "\"4.19\"").starts_with("the bundle supports OpenShift up to 4.19"), "{}", on(18, "\"4.19\""));
    assert!(on(18, "\"v4.19\"").contains("cannot be told: invalid \"olm.maxOpenShiftVersion\" property"));
}

/// MS-PLAN-01, MS-EXPL-01: what cannot be done says why, and hints that were tried; a package that nobody has is told apart.
#[test]
fn refusals() {
    let step = step_with(&Extra::default(), |scene| scene.request("version", json!("9.x")));
    assert_eq!(step.kind, Kind::Refused);
    let problem = step.problem.clone().unwrap();
    assert!(!problem.unknown_package && !problem.hints.is_empty(), "{problem:?}");
    let unknown = step_with(&Extra::default(), |scene| scene.request("packageName", json!("nothing")));
    assert!(unknown.problem.unwrap().unknown_package);
    assert_snapshot!(told(&step));
}

/// MS-PLAN-01, MS-EXPL-01: what cannot be installed as asked says what would do: the package that serves a kind, the namespaces that it can
/// watch.
#[test]
fn what_would_do() {
    let monitor = |scene: &mut Scene| {
        let monitor = json!({"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "m"}});
        scene.offer("2.0.0", &Content { more: vec![monitor], ..Content::default() });
        let (api_version, kind) = ("monitoring.coreos.com/v1".to_owned(), "ServiceMonitor".to_owned());
        scene.live.insert(ObjectRef { api_version, kind, namespace: "work".into(), name: "m".into() }, Live::NotServed);
    };
    let modes = |modes: &'static [&'static str], watched: Option<&'static str>| {
        case(|scene| {
            scene.offer("2.0.0", &Content { modes: modes.to_vec(), ..Content::default() });
            if let Some(watched) = watched {
                scene.extension["metadata"]["annotations"] = json!({"olm.operatorframework.io/watch-namespace": watched});
            }
        })
    };
    assert_snapshot!(table(&[
        ("a kind that nobody serves", case(monitor)),
        (
            "a kind that a package brings",
            case(|scene| {
                monitor(scene);
                scene.catalogs.push(provider(
                    "metrics",
                    "watcher",
                    &json!({"group": "monitoring.coreos.com", "version": "v1", "kind": "ServiceMonitor"}),
                ));
            })
        ),
        ("its own namespace only", modes(&["OwnNamespace"], None)),
        ("another namespace only", modes(&["SingleNamespace"], Some("work"))),
        ("all namespaces only", modes(&["AllNamespaces"], Some("work"))),
    ]));
}

/// A catalog with one package of one bundle, which provides an API.
fn provider(catalog: &str, package: &str, api: &Value) -> CatalogFact {
    let name = format!("{package}.v1.0.0");
    let blobs = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": name}]}),
        json!({"schema": "olm.bundle", "package": package, "name": name, "image": format!("example.com/{package}:v1"), "properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}}, {"type": "olm.gvk", "value": api},
        ]}),
    ];
    let text: String = blobs.iter().map(ToString::to_string).collect();
    let content = Catalog::load(&MemorySource::of("catalog.json", text), &Limits::default()).unwrap();
    let content = CatalogContent::Served(Arc::new(ModelSource::new(content)));
    CatalogFact {
        name: catalog.to_owned(),
        labels: [("olm.operatorframework.io/metadata.name".to_owned(), catalog.to_owned())].into(),
        priority: 0,
        pull_secret: None,
        content,
    }
}

/// MS-PLAN-01: what cannot be done changes nothing: over an installed version, too, neither objects nor permissions nor images are told.
#[test]
fn what_is_refused_changes_nothing() {
    let change = |scene: &mut Scene| {
        scene.have("1.0.0", State::Deployed);
        scene.request("version", json!("9.x"));
    };
    let mut scene = Scene::new();
    change(&mut scene);
    let (_, plan, snapshot) = scene.decide();
    let permissions = |scene: &mut Scene| {
        change(scene);
        scene.request("version", json!("2.0.0"));
        scene.policy = scene::permissions(&json!([]));
    };
    for step in [step_with(&Extra::default(), change), step_with(&Extra::default(), permissions)] {
        assert!(step.problem.is_some() && step.kind == Kind::Refused && step.from.is_some(), "{step:#?}");
        let told = Step { problem: None, reasons: Vec::new(), bundle: None, from: None, ..step };
        assert_eq!(told, Step { kind: Kind::Refused, ..Step::default() });
    }
    assert!(preview::summary(&snapshot, &plan).is_empty());
}

/// Walks as the cluster would: plan, do, plan again, until it rests.
fn walk(scene: &Scene) -> Vec<Step> {
    let (_, first, mut snapshot) = scene.decide();
    let mut steps = vec![preview::step(&snapshot, &first, &Extra::default())];
    let mut last = first;
    while let Some(mut next) = preview::advance(snapshot, &last) {
        let plan: Plan = loop {
            match plan(&next) {
                Answer::Ready(plan) => break plan,
                Answer::Need(facts) => look(scene, &mut next, facts),
            }
        };
        steps.push(preview::step(&next, &plan, &Extra::default()));
        (snapshot, last) = (next, plan);
    }
    steps
}

/// MS-PLAN-01, OLM1-UPG-06, OLM1-UPG-07: direct edges are walked one by one; each step is held against what the one before leaves, and the
/// last one stays.
#[test]
fn the_path_is_walked_step_by_step() {
    let mut scene = Scene::new();
    scene.offer("1.1.0", &Content { more: vec![config("passing", "1")], ..Content::default() });
    scene.have("1.0.0", State::Deployed);
    let steps = walk(&scene);
    let headlines: Vec<(Kind, &str)> = steps.iter().map(|step| (step.kind, step.bundle.as_ref().unwrap().version.as_str())).collect();
    assert_eq!(headlines, [(Kind::Upgrade, "1.1.0"), (Kind::Upgrade, "2.0.0"), (Kind::Nothing, "2.0.0")]);
    let of = |step: &Step, name: &str| step.objects.iter().find(|object| object.name == name).map(|object| object.change);
    assert_eq!((of(&steps[0], "passing"), of(&steps[1], "passing")), (Some(Change::Created), Some(Change::Deleted)));
    let fields = |step: &Step| step.objects.iter().flat_map(|object| &object.fields).map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        fields(&steps[1]),
        [".spec.template.spec.containers[name=manager].image example.com/widgets:1.1.0 -> example.com/widgets:2.0.0"]
    );
    assert!(fields(&steps[2]).is_empty());
}

/// MS-PLAN-01, OLM1-CTRL-07: an extension that is not there yet is planned as if its finalizers were on it already.
#[test]
fn an_extension_that_is_not_there_yet() {
    let mut scene = Scene::new();
    let metadata = scene.extension["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| key == "name");
    let typed: ClusterExtension = serde_json::from_value(scene.extension.clone()).unwrap();
    let there = preview::hypothetical(typed);
    scene.extension = serde_json::to_value(&there).unwrap();
    let (_, plan, snapshot) = scene.decide();
    let step = preview::step(&snapshot, &plan, &Extra::default());
    assert_eq!(step.kind, Kind::Install);
    assert!(step.objects.iter().all(|object| object.change == Change::Created), "{}", told(&step));
}

/// MS-PLAN-02: facts that a plan rests on, with their revisions: nothing moves by itself or by a status; what moves is named, with what
/// it was and is.
#[test]
fn what_moved_is_named() {
    let mut scene = Scene::new();
    scene.have("1.0.0", State::Deployed);
    let facts = |scene: &Scene| {
        let (_, plan, snapshot) = scene.decide();
        let mut all = preview::revisions(&snapshot);
        all.extend(snapshot.known.live.iter().map(|(target, live)| FactRevision::live(target, live)));
        all.extend(plan.record.as_deref().map(mainstay_lifecycle::preview::rendering));
        all
    };
    let then = facts(&scene);
    assert_eq!(mainstay_lifecycle::preview::moved(&then, &facts(&scene)), Vec::<String>::new());
    scene.touch("Deployment", "widgets", |live| {
        live["metadata"]["resourceVersion"] = json!("99");
        live["status"] = json!({"replicas": 1});
    });
    assert_eq!(mainstay_lifecycle::preview::moved(&then, &facts(&scene)), Vec::<String>::new(), "a status is no fact of the plan");
    scene.touch("Deployment", "widgets", |live| live["spec"]["replicas"] = json!(3));
    let target = scene.target("ServiceAccount", "widgets");
    scene.live.remove(&target);
    scene.policy = scene::permissions(
        &json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["get"]}]),
    );
    let now = facts(&scene);
    let moved = mainstay_lifecycle::preview::moved(&then, &now);
    let named: Vec<&str> = moved.iter().map(|line| line.split(": was ").next().unwrap()).collect();
    assert_eq!(named, ["Deployment work/widgets", "ServiceAccount work/widgets", "permissions of service account work/installer"]);
    assert!(moved[0].contains("is uid") && moved[0].contains("(resourceVersion 99)"), "{}", moved[0]);
    assert!(moved[1].ends_with(", is absent"), "{}", moved[1]);
}

/// MS-POL-01: the same in lines for an object, each list and line bounded.
#[test]
fn summaries_are_bounded() {
    let mut scene = Scene::new();
    let long = "x".repeat(5000);
    let more: Vec<Value> = (0..200).map(|number| config(&format!("config-{number}"), &long)).collect();
    scene.offer("1.1.0", &Content { more, ..Content::default() });
    scene.have("1.0.0", State::Deployed);
    only("1.1.0", &mut scene);
    let (_, plan, snapshot) = scene.decide();
    let summary = preview::summary(&snapshot, &plan);
    assert!(summary.changes.len() <= 61 && summary.changes.last().unwrap().starts_with("... and "), "{:?}", summary.changes.last());
    assert!(summary.changes.iter().all(|line| line.len() < 500));
    assert!(
        summary.changes.iter().any(|line| line.starts_with("change Deployment work/widgets: .spec.template")),
        "{:#?}",
        summary.changes
    );
    assert!(summary.images.iter().any(|line| line.starts_with("example.com/widgets:1.1.0 (")), "{:?}", summary.images);
}
