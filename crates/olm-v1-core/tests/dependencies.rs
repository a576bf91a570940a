//! Extensions that need each other: refused by default, planned where a policy says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::sync::Arc;

use mainstay_api::lifecycle::{ChangePlan, ChangePlanPhase};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_lifecycle::change::Action;
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::preview::Kind;
use mainstay_lifecycle::revision::State;
use mainstay_olm_v1_core::extension::dependencies::{ApiFact, dependents, needed_by};
use mainstay_olm_v1_core::extension::facts::{CatalogContent, CatalogFact};
use mainstay_olm_v1_core::extension::plan::{Plan, Verdict};
use mainstay_olm_v1_core::extension::preview::{self, Extra};
use mainstay_resolver::joint::Provided;
use mainstay_resolver::{CandidateCatalog, CatalogState, Choice};
use serde_json::{Value, json};

use crate::scene::{Scene, loaded};

/// A catalog from lines `PACKAGE VERSION [<REPLACED] [needs PACKAGE RANGE]... [uses KIND]... [gives KIND]...`.
fn catalog(name: &str, text: &str) -> CatalogFact {
    let mut blobs = String::new();
    let mut packages: Vec<(String, Vec<Value>)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let (package, version) = (words.next().unwrap(), words.next().unwrap());
        let mut entry = json!({"name": format!("{package}.v{version}")});
        let mut properties = vec![json!({"type": "olm.package", "value": {"packageName": package, "version": version}})];
        while let Some(word) = words.next() {
            let api = |kind: &str| json!({"group": "example.org", "version": "v1", "kind": kind});
            match word {
                "needs" => {
                    let (package, range) = (words.next().unwrap(), words.next().unwrap());
                    properties.push(json!({"type": "olm.package.required", "value": {"packageName": package, "versionRange": range}}));
                }
                "uses" => properties.push(json!({"type": "olm.gvk.required", "value": api(words.next().unwrap())})),
                "gives" => properties.push(json!({"type": "olm.gvk", "value": api(words.next().unwrap())})),
                replaced => entry["replaces"] = json!(format!("{package}.v{}", replaced.trim_start_matches('<'))),
            }
        }
        match packages.iter_mut().find(|(name, _)| name == package) {
            Some((_, entries)) => entries.push(entry),
            None => packages.push((package.to_owned(), vec![entry])),
        }
        let image = format!("example.com/{package}:v{version}");
        let blob = json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"), "image": image, "properties": properties});
        let _ = writeln!(blobs, "{blob}");
    }
    for (package, entries) in packages {
        let _ = writeln!(blobs, "{}", json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        let _ = writeln!(blobs, "{}", json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}));
    }
    loaded(name, blobs)
}

/// The extension `widgets` of the scene, whose dependencies are planned, in this catalog.
fn planned(text: &str) -> Scene {
    let mut scene = Scene::new();
    scene.catalogs = vec![catalog("main", text)];
    let spec = serde_json::from_value(json!({"resolveDependencies": "Plan"})).unwrap();
    scene.lifecycle.policies = vec![PolicyFact { name: "together".to_owned(), spec }];
    scene
}

/// Another extension, with what it has installed.
fn peer(scene: &mut Scene, package: &str, installed: Option<&str>, more: &Value) {
    let mut catalog = json!({"packageName": package});
    for (key, value) in more.as_object().into_iter().flatten() {
        catalog[key] = value.clone();
    }
    let mut object = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": package, "uid": format!("uid of {package}")},
        "spec": {"namespace": "work", "serviceAccount": {"name": "installer"}, "source": {"sourceType": "Catalog", "catalog": catalog}}});
    if let Some(version) = installed {
        object["status"] = json!({"install": {"bundle": {"name": format!("{package}.v{version}"), "version": version}}});
    }
    let extension: ClusterExtension = serde_json::from_value(object).unwrap();
    scene.lifecycle.peers.retain(|peer| peer.metadata.name != extension.metadata.name);
    scene.lifecycle.peers.push(Arc::new(extension));
}

fn told(scene: &Scene) -> String {
    let (_, plan, _) = scene.decide();
    let chosen = plan.resolution.as_ref().map_or_else(String::new, |found| format!(" {}", found.choice.bundle));
    match &plan.verdict {
        Verdict::Reached => format!("{:?}{chosen}", plan.action),
        Verdict::Blocked(text) => format!("Blocked: {text}"),
        Verdict::Retrying(text) => format!("Retrying: {text}"),
        other => format!("{other:?}"),
    }
}

fn plan(scene: &Scene) -> Plan {
    scene.decide().1
}

const PAIR: &str = "
    widgets 1.0.0 needs gadgets >=2.0.0
    gadgets 1.0.0
    gadgets 1.1.0 <1.0.0
    gadgets 2.0.0 <1.1.0 needs gears >=1.0.0
    gears 1.0.0
";

/// OLM1-INST-04: without a policy, or where one refuses, the refusal is upstream's; what is missing is told besides.
#[test]
fn dependencies_are_refused_by_default() {
    let mut scene = planned(PAIR);
    scene.lifecycle.policies.clear();
    let refusal = "Retrying: validating bundle \"widgets.v1.0.0\": bundle \"widgets.v1.0.0\" has a dependency declared via property \"olm.package.required\" which is currently not supported";
    assert_eq!(told(&scene), refusal);
    peer(&mut scene, "gears", Some("1.0.0"), &json!({}));
    let (_, plan, snapshot) = scene.decide();
    let problem = preview::step(&snapshot, &plan, &Extra::default()).problem.unwrap();
    assert!(refusal.ends_with(&problem.message), "{problem:?}");
    assert_eq!(
        problem.causes,
        [
            "gadgets.v2.0.0 requires package gears >=1.0.0: clusterextension gears has installed 1.0.0",
            "widgets.v1.0.0 requires package gadgets >=2.0.0: not installed; gadgets.v2.0.0 (2.0.0) from catalog main satisfies it",
        ]
    );
    let hints = problem.hints.join("\n");
    assert!(hints.contains("resolveDependencies: Plan") && hints.ends_with(" | kubectl apply --server-side -f -"), "{hints}");
    let both = [json!({"resolveDependencies": "Plan"}), json!({"resolveDependencies": "Refuse"})];
    scene.lifecycle.policies = both.map(|spec| PolicyFact { name: "p".to_owned(), spec: serde_json::from_value(spec).unwrap() }).into();
    assert_eq!(told(&scene), refusal, "who refuses wins");
}

/// MS-POL-01, MS-EXPL-05: what is missing becomes part of the plan and waits for an approval; once it is asked for, its install is waited
/// for, and then the extension goes on by itself.
#[test]
fn what_is_missing_is_approved_with_the_change() {
    let mut scene = planned(PAIR);
    let (asked, waiting, _) = scene.decide();
    assert!(asked.contains(&"APIs".to_owned()), "{asked:?}");
    let gate = waiting.consent.gate.clone().unwrap();
    let step = preview::step(&scene.decide().2, &waiting, &Extra::default());
    let along: Vec<_> = step.dependencies.iter().map(|each| (each.bundle.name.as_str(), each.because.join("; "))).collect();
    let because = |text: &str| text.to_owned();
    assert_eq!(
        along,
        [
            ("gears.v1.0.0", because("gadgets.v2.0.0 requires package gears >=1.0.0")),
            ("gadgets.v2.0.0", because("widgets.v1.0.0 requires package gadgets >=2.0.0")),
        ]
    );
    let approval = step.approval.unwrap();
    assert_eq!((approval.change_plan, approval.reasons), (None, vec!["also installs gears.v1.0.0, gadgets.v2.0.0".to_owned()]));
    assert_eq!((step.kind, step.problem), (Kind::Install, None));
    let said = &gate.spec.summary.warnings[0];
    assert_eq!(said, "gears.v1.0.0 is installed in addition: gadgets.v2.0.0 requires package gears >=1.0.0");
    let names: Vec<&str> = gate.spec.summary.dependencies.iter().map(|bundle| bundle.name.as_str()).collect();
    assert_eq!(names, ["gears.v1.0.0", "gadgets.v2.0.0"], "dependencies first");
    assert_eq!(
        told(&scene),
        format!(
            "Blocked: waits for approval of change plan {name}: install widgets.v1.0.0: also installs gears.v1.0.0, gadgets.v2.0.0\nmainstay approve {name} shows and approves it",
            name = gate.name
        )
    );
    let mut kept = ChangePlan::new(&gate.name, gate.spec.clone());
    kept.spec.approved_digest = Some(gate.spec.digest.clone());
    scene.lifecycle.plans = vec![Arc::new(kept)];
    assert_eq!(
        told(&scene),
        format!(
            "Retrying: waits for gears.v1.0.0, gadgets.v2.0.0, which no extension installs yet; mainstay approve {} makes their extensions for resolved bundle \"widgets.v1.0.0\" with version \"1.0.0\"",
            gate.name
        )
    );
    // Made along with the plan, as the command does.
    peer(&mut scene, "gears", None, &json!({"version": "1.0.0"}));
    peer(&mut scene, "gadgets", None, &json!({"version": "2.0.0"}));
    let waits = told(&scene);
    assert!(
        waits.starts_with("Retrying: waits for gadgets.v2.0.0 of clusterextension gadgets, gears.v1.0.0 of clusterextension gears"),
        "{waits}"
    );
    let mark = plan(&scene).consent.marks.pop().unwrap();
    assert_eq!((mark.name, mark.phase), (gate.name, ChangePlanPhase::Approved));
    peer(&mut scene, "gears", Some("1.0.0"), &json!({"version": "1.0.0"}));
    peer(&mut scene, "gadgets", Some("2.0.0"), &json!({"version": "2.0.0"}));
    assert_eq!(told(&scene), "Install widgets.v1.0.0");
}

/// OLM1-INST-04: an API that is there without any extension is there.
#[test]
fn apis_of_nobody_count() {
    let text = "widgets 1.0.0 uses Gadget\ngadgets 1.0.0 gives Gadget";
    let mut scene = planned(text);
    assert!(told(&scene).contains("also installs gadgets.v1.0.0"), "{}", told(&scene));
    let api = |extension: Option<&str>| ApiFact {
        provided: Provided {
            group: "example.org".into(),
            version: "v1".into(),
            kind: "Gadget".into(),
            by: "customresourcedefinition gadgets.example.org".into(),
        },
        extension: extension.map(str::to_owned),
    };
    scene.apis = Ok(vec![api(None)]);
    assert_eq!(told(&scene), "Install widgets.v1.0.0");
    scene.apis = Ok(vec![api(Some("nobody-known"))]);
    assert_eq!(told(&scene), "Install widgets.v1.0.0", "its extension is gone; the API is there");
    scene.apis = Err("the server is away".into());
    assert_eq!(told(&scene), "Retrying: the APIs of the cluster cannot be told: the server is away");
}

/// MS-EXPL-05: two extensions that need each other's next versions go together; one that needs another's next version lets it go first.
#[test]
fn extensions_upgrade_together() {
    let mutual = "
        widgets 1.0.0
        widgets 2.0.0 <1.0.0 needs gadgets >=2.0.0
        gadgets 1.0.0
        gadgets 2.0.0 <1.0.0 needs widgets >=2.0.0
    ";
    let mut scene = planned(mutual);
    scene.have("1.0.0", State::Deployed);
    peer(&mut scene, "gadgets", Some("1.0.0"), &json!({}));
    assert_eq!(told(&scene), "Upgrade widgets.v2.0.0");
    // The other one is pinned: nobody moves, and that is no error of this extension's neighbours.
    peer(&mut scene, "gadgets", Some("1.0.0"), &json!({"version": "1.0.0"}));
    assert_eq!(told(&scene), "Reassert widgets.v1.0.0");

    let one_way = "
        widgets 1.0.0
        widgets 2.0.0 <1.0.0 needs gadgets >=2.0.0
        gadgets 1.0.0
        gadgets 2.0.0 <1.0.0
    ";
    let mut scene = planned(one_way);
    scene.have("1.0.0", State::Deployed);
    peer(&mut scene, "gadgets", Some("1.0.0"), &json!({}));
    assert!(told(&scene).starts_with("Retrying: waits for gadgets.v2.0.0 of clusterextension gadgets"), "{}", told(&scene));
    assert_eq!(plan(&scene).consent.meanwhile.unwrap().action, Action::Reassert);
    peer(&mut scene, "gadgets", Some("2.0.0"), &json!({}));
    assert_eq!(told(&scene), "Upgrade widgets.v2.0.0");
}

/// MS-EXPL-05, MS-EXPL-01: what cannot be satisfied is told where it is at fault, as a chain, and never stops a neighbour.
#[test]
fn blame_stays_where_it_belongs() {
    let text = "
        widgets 1.0.0 needs gadgets >=5.0.0
        gadgets 1.0.0
        springs 1.0.0
    ";
    let scene = planned(text);
    let told_ = told(&scene);
    assert!(told_.starts_with("Retrying: ") && told_.contains("gadgets") && told_.contains(">=5.0.0"), "{told_}");
    // The neighbour whose request is hopeless.
    let mut scene = planned("widgets 1.0.0\ngadgets 1.0.0");
    peer(&mut scene, "gadgets", None, &json!({"version": "9.x"}));
    peer(&mut scene, "nonsense", None, &json!({}));
    assert_eq!(told(&scene), "Install widgets.v1.0.0");
    // The dependency's catalog goes: what was resolved is not any more.
    let mut scene = planned("widgets 1.0.0 needs gadgets >=1.0.0");
    scene.catalogs.push(catalog("more", "gadgets 1.0.0"));
    assert!(told(&scene).starts_with("Blocked: "), "{}", told(&scene));
    scene.catalogs[1].content = CatalogContent::Unavailable;
    assert!(told(&scene).starts_with("Retrying: "), "{}", told(&scene));
}

/// MS-RB-02: who would miss a package, directly or through others.
#[test]
fn dependents_are_known() {
    let CatalogFact { name, labels, priority, content, .. } = catalog("main", PAIR);
    let CatalogContent::Served(source) = &content else { panic!() };
    let catalogs = [CandidateCatalog { name: &name, labels: &labels, priority, state: CatalogState::Content(&**source) }];
    let choice = |package: &str, version: &str| {
        (
            package.to_owned(),
            Choice {
                catalog: "main".to_owned(),
                package: package.to_owned(),
                bundle: format!("{package}.v{version}"),
                version: version.to_owned(),
                image: format!("example.com/{package}:v{version}"),
            },
        )
    };
    let installed = [choice("widgets", "1.0.0"), choice("gadgets", "2.0.0"), choice("gears", "1.0.0")];
    let who = |package: &str| dependents(package, &installed, &catalogs, &[]).into_iter().map(|each| each.name).collect::<Vec<_>>();
    assert_eq!(who("gadgets"), ["widgets"]);
    assert!(who("gears").contains(&"gadgets".to_owned()));
    assert!(who("widgets").is_empty());

    let text = format!("{PAIR}\nboats 1.0.0 uses Sail\nsails 1.0.0 gives Sail");
    let mut scene = planned(&text);
    scene.extension["spec"]["source"]["catalog"]["packageName"] = json!("sails");
    scene.request("version", json!("9.x"));
    peer(&mut scene, "gadgets", Some("2.0.0"), &json!({}));
    peer(&mut scene, "boats", Some("1.0.0"), &json!({}));
    let needed = needed_by(&scene.decide().2);
    assert_eq!(needed.iter().map(|each| each.name.as_str()).collect::<Vec<_>>(), ["boats"], "{needed:?}");
    assert!(needed[0].needs[0].starts_with("boats.v1.0.0 requires ") && needed[0].needs[0].contains("Sail"), "{needed:?}");
}
