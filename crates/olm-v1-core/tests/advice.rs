//! Every advice was tried: what is typed, read from the text of its commands, lifts the refusal that it is given against (MS-EXPL-01, MS-EXPL-02).
//!
//! Situations are generated: each alone, and every two of them together, with nothing and with a version installed. The commands are carried out on the
//! scene as a shell would read them, so that the text is what counts, and not the typed change behind it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_catalog::{Catalog, Limits, MemorySource};
use mainstay_lifecycle::Live;
use mainstay_lifecycle::explanation::Outcome;
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::revision::State;
use mainstay_merge::merge_patch;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::extension::explain::{self, Action, Explanation, Facts, Remedy, explain, judge};
use mainstay_olm_v1_core::extension::facts::{CatalogContent, CatalogFact, CertificateProblem, PullFailure, PullProblem};
use mainstay_olm_v1_core::extension::plan::{Plan, Verdict};
use mainstay_olm_v1_core::extension::status::status;
use mainstay_rbac::PolicyIndex;
use mainstay_resolver::ModelSource;
use serde_json::{Value, json};

use crate::scene::{Content, STABLE, Scene, catalog, image, permissions};

/// A thing that is wrong; some need a version to be installed before.
type Situation = (&'static str, fn(&mut Scene));

const CRD: &str = "widgets.example.com";

fn crd_of(scene: &mut Scene, metadata: &Value) {
    let mut object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CRD}});
    merge_patch(&mut object["metadata"], metadata);
    scene.see(object);
}

fn controlled(kind: &str, version: &str, name: &str) -> Value {
    json!({"labels": null, "ownerReferences": [{"apiVersion": version, "kind": kind, "name": name, "uid": "u9", "controller": true}]})
}

/// A catalog with one package, which brings nothing else.
fn with_package(name: &str, package: &str) -> CatalogFact {
    let blobs = [
        json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": [{"name": format!("{package}.v1.0.0")}]}),
        json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v1.0.0"), "image": "example.com/widgets:v1.0.0",
            "properties": [{"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}},
                {"type": "olm.gvk", "value": {"group": "monitoring.coreos.com", "kind": "ServiceMonitor", "version": "v1"}}]}),
    ];
    let text = blobs.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let content = Catalog::load(&MemorySource::of("catalog.json", text), &Limits::default()).unwrap();
    CatalogFact { name: name.to_owned(), content: CatalogContent::Served(Arc::new(ModelSource::new(content))), ..catalog(name, STABLE) }
}

/// The newest version also brings an object of this kind, which the cluster does not serve.
fn brings(scene: &mut Scene, api_version: &str, kind: &str) {
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "m"}});
    scene.offer("2.0.0", &Content { more: vec![object], ..Content::default() });
    for namespace in ["work", ""] {
        let target = ObjectRef { api_version: api_version.into(), kind: kind.into(), namespace: namespace.into(), name: "m".into() };
        scene.live.insert(target, Live::NotServed);
    }
}

fn modes(scene: &mut Scene, modes: &[&'static str]) {
    for version in ["1.1.0", "2.0.0"] {
        scene.offer(version, &Content { modes: modes.to_vec(), ..Content::default() });
    }
}

fn fails(scene: &mut Scene, problem: PullProblem, message: &str, terminal: bool) {
    scene.bundles.insert(image("2.0.0"), Err(PullFailure { problem, message: message.to_owned(), terminal }));
}

/// Everything that can be wrong.
const SITUATIONS: [Situation; 39] = [
    ("nothing", |_| {}),
    ("no catalog", |scene| scene.catalogs.clear()),
    ("catalog off", |scene| set_content(scene, CatalogContent::Unavailable)),
    ("catalog away", |scene| set_content(scene, CatalogContent::NotServing)),
    ("catalog unreachable", |scene| set_content(scene, CatalogContent::Failed("no route".to_owned()))),
    ("catalog bad", |scene| set_content(scene, CatalogContent::Broken { reason: "line 3: no name".to_owned(), last: None })),
    ("another catalog is bad", |scene| {
        scene
            .catalogs
            .push(CatalogFact { content: CatalogContent::Broken { reason: "no".to_owned(), last: None }, ..catalog("bad", STABLE) });
    }),
    ("name misspelt", |scene| scene.request("packageName", json!("widget"))),
    ("name unknown", |scene| scene.request("packageName", json!("strange"))),
    ("version unknown", |scene| scene.request("version", json!("9.x"))),
    ("version is no range", |scene| scene.request("version", json!("1.2.3.4"))),
    ("older version", |scene| scene.request("version", json!("1.0.0"))),
    ("channel misspelt", |scene| scene.request("channels", json!(["stabel"]))),
    ("channel gone", |scene| {
        scene.request("channels", json!(["stable"]));
        scene.catalogs = vec![catalog("main", "channel fast: 1.0.0 1.1.0<1.0.0 2.0.0<1.1.0")];
    }),
    ("channel with a quote", |scene| {
        scene.request("channels", json!(["nothing"]));
        scene.catalogs = vec![catalog("main", "channel it's$(id): 1.0.0 1.1.0<1.0.0 2.0.0<1.1.0")];
    }),
    ("selector", |scene| scene.request("selector", json!({"matchLabels": {"tier": "gold"}}))),
    ("selector is none", |scene| scene.request("selector", json!({"matchExpressions": [{"key": "a", "operator": "Is"}]}))),
    ("equal catalogs", |scene| scene.catalogs.push(catalog("other", STABLE))),
    ("no edge", |scene| scene.catalogs = vec![catalog("main", "channel stable: 1.0.0 2.0.0\nchannel old: 1.1.0")]),
    ("dependency away", |scene| scene.catalogs = vec![catalog("main", &format!("{STABLE}\nneeds 2.0.0 olm.package.required"))]),
    ("dependency there", |scene| {
        scene.catalogs = vec![catalog("main", &format!("{STABLE}\nneeds 2.0.0 olm.package.required")), with_package("more", "gadgets")];
    }),
    ("account away", |scene| scene.account = Ok(false)),
    ("account not named", |scene| scene.extension["spec"]["serviceAccount"] = Value::Null),
    ("few permissions", |scene| scene.policy = permissions(&json!([{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}]))),
    ("CRD changes", |scene| {
        let content = Content { fields: vec![("size", json!({"type": "string"}))], required: vec!["colour"], ..Content::default() };
        scene.offer("2.0.0", &content);
    }),
    ("CRD of another extension", |scene| crd_of(scene, &controlled("ClusterExtension", "olm.operatorframework.io/v1", "first"))),
    ("CRD of OLM classic", |scene| crd_of(scene, &controlled("ClusterServiceVersion", "operators.coreos.com/v1alpha1", "widgets.v1"))),
    ("CRD of Helm", |scene| {
        let annotations = json!({"meta.helm.sh/release-name": "w", "meta.helm.sh/release-namespace": "tools"});
        crd_of(scene, &json!({"labels": null, "ownerReferences": null, "annotations": annotations}));
    }),
    ("CRD by hand", |scene| {
        crd_of(scene, &json!({"labels": null, "ownerReferences": null, "managedFields": [{"manager": "kubectl-create"}]}));
    }),
    ("kind not served", |scene| brings(scene, "monitoring.coreos.com/v1", "ServiceMonitor")),
    ("kind not served, and to be had", |scene| {
        brings(scene, "monitoring.coreos.com/v1", "ServiceMonitor");
        scene.catalogs.push(with_package("more", "prometheus"));
    }),
    ("kind retired", |scene| brings(scene, "policy/v1beta1", "PodSecurityPolicy")),
    ("own namespace only", |scene| modes(scene, &["OwnNamespace"])),
    ("one other namespace only", |scene| modes(scene, &["SingleNamespace"])),
    ("many namespaces only", |scene| modes(scene, &["MultiNamespace"])),
    ("webhooks without certificates", |scene| {
        scene.gate("WebhookProviderOpenshiftServiceCA=false");
        scene.offer("2.0.0", &Content { webhook: true, ..Content::default() });
    }),
    ("watched namespace", |scene| {
        scene.extension["metadata"]["annotations"] = json!({"olm.operatorframework.io/watch-namespace": "Not A Name"});
    }),
    ("API server", |scene| scene.offer("2.0.0", &Content { api_service: true, ..Content::default() })),
    ("bad image, expired certificate", |scene| {
        let text = "invalid peer certificate: certificate expired: verification time 1700000300 (UNIX)";
        fails(
            scene,
            PullProblem::Certificate(CertificateProblem::Expired),
            text,
            scene.history.as_ref().is_ok_and(|history| history.revisions.is_empty()),
        );
    }),
];

fn set_content(scene: &mut Scene, content: CatalogContent) {
    if let Some(first) = scene.catalogs.first_mut() {
        first.content = content;
    }
}

/// The facts of an explanation, with conditions as the controller writes them.
fn facts(scene: &Scene) -> Facts {
    let (_, plan, mut snapshot) = scene.decide();
    let then = Timestamp::from_second(1_700_000_000).unwrap();
    let mut extension: ClusterExtension = (*snapshot.extension).clone();
    extension.status = Some(status(&extension, &plan, &plan.verdict, snapshot.history.as_ref(), then));
    snapshot.extension = Arc::new(extension);
    Facts {
        plan: Ok(plan),
        objects: Vec::new(),
        events: Vec::new(),
        catalogs: Vec::new(),
        change_plans: Vec::new(),
        namespace_exists: Some(true),
        may_act: Some(true),
        platform: None,
        simulation: None,
        now: then,
        snapshot,
    }
}

/// The explanation with every remedy tried, as the command line does it.
fn weighed(scene: &Scene) -> (Facts, Explanation) {
    let facts = facts(scene);
    let answer = explain(&facts);
    let outcome = |remedy: Remedy| {
        let outcome = match remedy.applied(&facts.snapshot) {
            Err(untried) => Outcome::Unknown(untried.to_string()),
            Ok(mut copy) => {
                let (_, plan) = scene.settle(&mut copy);
                judge(&remedy, facts.plan.as_ref().unwrap(), &plan)
            }
        };
        (remedy, outcome)
    };
    let outcomes: Vec<(Remedy, Outcome)> = answer.proposals().into_iter().map(outcome).collect();
    let answer = explain::weighed(answer, &facts, &outcomes);
    (facts, answer)
}

/// A line as a shell splits it: programs between `|`, and their words.
fn words(line: &str) -> Vec<Vec<String>> {
    let (mut programs, mut word, mut any) = (vec![Vec::new()], String::new(), false);
    let mut characters = line.chars().chain([' ']);
    while let Some(character) = characters.next() {
        match character {
            '\'' => {
                any = true;
                word.extend(characters.by_ref().take_while(|character| *character != '\''));
            }
            '\\' => word.extend(characters.next()),
            ' ' => {
                let whole = std::mem::take(&mut word);
                if whole == "|" {
                    programs.push(Vec::new());
                } else if any || !whole.is_empty() {
                    programs.last_mut().unwrap().push(whole);
                }
                any = false;
            }
            '$' | '`' | '"' | ';' | '&' => panic!("{line}: a shell would read {character} as something else"),
            other => word.push(other),
        }
    }
    programs
}

fn all_permissions(scene: &Scene) -> PolicyIndex {
    let name = scene.extension["spec"]["serviceAccount"]["name"].as_str().unwrap_or("installer");
    let mut policy = PolicyIndex::default();
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    policy.apply(&json!({"kind": "ClusterRole", "metadata": {"name": "all"}, "rules": rules})).unwrap();
    let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "work"}]});
    policy.apply(&binding).unwrap();
    policy
}

/// The live object that kubectl would find.
fn named(scene: &Scene, resource: &str, name: &str) -> ObjectRef {
    let kind = |target: &ObjectRef| match target.group() {
        "" => target.kind.to_lowercase(),
        group => format!("{}.{group}", target.kind.to_lowercase()),
    };
    let found = scene.live.keys().find(|target| kind(target) == resource && target.name == name);
    found.unwrap_or_else(|| panic!("kubectl finds no {resource} {name}")).clone()
}

/// Carries out a command as it is written. False where it only shows something.
fn obey(scene: &mut Scene, line: &str) -> bool {
    let programs = words(line);
    let text: Vec<Vec<&str>> = programs.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    match text.iter().map(Vec::as_slice).collect::<Vec<_>>().as_slice() {
        [["kubectl", "patch", "clusterextension", "widgets", "--type", "merge", "-p", patch]] => {
            merge_patch(&mut scene.extension, &serde_json::from_str(patch).unwrap());
        }
        [["kubectl", "patch", "clustercatalog", name, "--type", "merge", "-p", patch]] => {
            let patch: Value = serde_json::from_str(patch).unwrap();
            let found = scene.catalogs.iter_mut().find(|found| found.name == *name).expect("a catalog");
            if let Some(priority) = patch["spec"]["priority"].as_i64() {
                found.priority = i32::try_from(priority).unwrap();
            }
            if patch["spec"]["availabilityMode"] == "Unavailable" {
                found.content = CatalogContent::Unavailable;
            }
        }
        [["kubectl", "annotate", "clusterextension", "widgets", annotation, rest @ ..]] => {
            assert!(rest.is_empty() || rest == ["--overwrite"], "{line}");
            if let Some((key, value)) = annotation.split_once('=') {
                scene.extension["metadata"]["annotations"][key] = json!(value);
            } else {
                let key = annotation.strip_suffix('-').unwrap();
                scene.extension["metadata"]["annotations"].as_object_mut().unwrap().remove(key);
            }
        }
        [["kubectl", "label", resource, name, rest @ ..]] => {
            let target = named(scene, resource, name);
            let Some(Live::Present(live)) = scene.live.get(&target).cloned() else { panic!("{target}") };
            let mut live = (*live).clone();
            for (key, value) in rest.iter().filter_map(|word| word.split_once('=')) {
                live["metadata"]["labels"][key] = json!(value);
            }
            scene.live.insert(target, Live::Present(Arc::new(live)));
        }
        [["kubectl", "delete", resource, name, ..]] => {
            let target = named(scene, resource, name);
            scene.live.remove(&target);
        }
        [["kubectl", "create", "namespace", "work"]] => {}
        [["mainstay", "rbac", "widgets"], ["kubectl", "apply", "--server-side", "-f", "-"]] => scene.account = Ok(true),
        [["mainstay", "catalog", "remove", name]] => scene.catalogs.retain(|found| found.name != *name),
        [["mainstay", "uninstall", name]] => {
            let theirs = |live: &Live| matches!(live, Live::Present(live) if live["metadata"]["ownerReferences"][0]["name"] == **name);
            scene.live.retain(|_, live| !theirs(live));
        }
        [["mainstay", "install", package]] => scene.request("packageName", json!(package)),
        [["mainstay", "install", _, "--catalog", _]] => scene.live.retain(|_, live| *live != Live::NotServed),
        [["echo", policy], ["kubectl", "apply", "--server-side", "-f", "-"]] => {
            let policy: Value = serde_json::from_str(policy).unwrap();
            let name = policy["metadata"]["name"].as_str().unwrap().to_owned();
            scene.lifecycle.policies.push(PolicyFact { name, spec: serde_json::from_value(policy["spec"].clone()).unwrap() });
        }
        [["mainstay", "up", gate]] => {
            let gate = gate.strip_prefix("--feature-gates=").and_then(|gate| gate.strip_suffix("=true")).unwrap();
            scene.gates = scene.gates.with(gate).unwrap();
        }
        [["mainstay", "graph", package]] => {
            let has = |catalog: &CatalogFact| match &catalog.content {
                CatalogContent::Served(source) => source.package(package).is_some(),
                _ => false,
            };
            assert!(scene.catalogs.iter().any(has), "{line}: no catalog has the package");
            return false;
        }
        [["mainstay", verb, ..]] => {
            assert!(["explain", "describe", "graph", "catalog", "list", "status", "history", "approve"].contains(verb), "{line}");
            assert!(*verb != "catalog" || ["search", "list", "add", "mirror"].iter().any(|word| line.contains(word)), "{line}");
            return false;
        }
        [["kubectl", verb, ..]] => {
            assert!(["get", "describe", "edit", "logs"].contains(verb), "{line}");
            return false;
        }
        other => panic!("{line}: {other:?}"),
    }
    true
}

fn refusal(plan: &Plan) -> Option<String> {
    match &plan.verdict {
        Verdict::Reached => None,
        _ if plan.consent.meanwhile.is_some() => None,
        Verdict::Retrying(reason) | Verdict::Blocked(reason) => Some(reason.to_string()),
        other => Some(format!("{other:?}")),
    }
}

/// What is wrong with an action; `first` is the one thing to do.
fn fault(scene: &Scene, facts: &Facts, action: &Action, first: bool) -> Option<String> {
    let before = refusal(facts.plan.as_ref().unwrap());
    let mut after = scene.clone();
    let changes = action.commands.iter().filter(|line| obey(&mut after, line)).count() > 0;
    let Some(remedy) = &action.remedy else {
        return changes.then(|| format!("{:?} changes something and was not tried", action.commands));
    };
    if first && (action.refused.is_some() || action.guess && !action.works()) {
        return Some("the one thing to do is refused".to_owned());
    }
    if action.guess && !action.works() {
        return Some("a guess that does not work is said".to_owned());
    }
    if action.not_checked.is_some() {
        let off = |remedy: &Remedy| matches!(remedy, Remedy::Switch { on: true, .. });
        let pulled = action.not_checked.as_ref().is_some_and(|why| why.contains("cannot be pulled") || why.contains("installed together"));
        let all_off = match remedy {
            Remedy::All(all) => all.iter().all(off),
            one => off(one),
        };
        return (!all_off && !pulled).then(|| format!("{remedy:?} was not checked: {:?}", action.not_checked));
    }
    if action.refused.is_some() || remedy.removes("widgets") {
        return None;
    }
    // Whether the account may do it is an advice of its own.
    (after.policy, after.account) = (all_permissions(&after), Ok(true));
    let (_, plan, _) = after.decide();
    match refusal(&plan) {
        None => None,
        // Something else is in the way then, and that is said.
        Some(text) if Some(&text) != before.as_ref() && action.after.is_some() => None,
        Some(text) => Some(format!("{:?} leaves it refused: {text}", action.commands)),
    }
}

/// MS-EXPL-01, MS-EXPL-02, MS-EXPL-04: in every generated situation there is one thing to do, and whatever is advised lifts the refusal.
#[test]
fn advice_was_tried() {
    let (mut faults, mut seen, mut cases) = (Vec::new(), BTreeSet::new(), 0);
    let mut look = |name: String, scene: &Scene| {
        let (facts, answer) = weighed(scene);
        seen.insert(answer.situation);
        cases += 1;
        if refusal(facts.plan.as_ref().unwrap()).is_some() && answer.next.is_none() {
            faults.push(format!("{name}: nothing to do: {answer:#?}"));
        }
        let newer = answer.newer.iter().filter_map(|newer| newer.action.as_ref());
        for (action, first) in
            answer.next.iter().map(|next| (next, true)).chain(answer.alternatives.iter().chain(newer).map(|one| (one, false)))
        {
            faults.extend(fault(scene, &facts, action, first).map(|fault| format!("{name}: {} {fault}", action.text)));
        }
    };
    for installed in [None, Some("1.0.0"), Some("1.1.0")] {
        let mut begun = Scene::new();
        if let Some(version) = installed {
            begun.have(version, State::Deployed);
        }
        for (at, (one, first)) in SITUATIONS.iter().enumerate() {
            let mut scene = begun.clone();
            first(&mut scene);
            look(format!("{installed:?}, {one}"), &scene);
            if installed == Some("1.0.0") {
                continue;
            }
            for (other, second) in &SITUATIONS[at + 1..] {
                let mut both = scene.clone();
                second(&mut both);
                look(format!("{installed:?}, {one}, {other}"), &both);
            }
        }
    }
    assert!(faults.is_empty(), "{} of {cases}:\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
    assert!(cases > 1_400 && seen.len() > 18, "{cases} cases, {seen:?}");
}
