//! Ways back: the verdict, and when the controller goes one by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use jiff::Timestamp;
use mainstay_lifecycle::Instances;
use mainstay_lifecycle::change::Action;
use mainstay_lifecycle::health_gate::{HEALTHY_WITHIN, ON_UNHEALTHY};
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::revision::{Notes, Revision, State};
use mainstay_lifecycle::rollback::{About, Class, Question, concerned, judge};
use mainstay_olm_v1_core::extension::facts::{PullFailure, PullProblem};
use mainstay_olm_v1_core::extension::plan::{Plan, Verdict};
use serde_json::{Value, json};

use crate::scene::{self, Content, Scene};

fn crd(versions: &Value, stored: &[&str]) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced", "versions": versions},
        "status": {"storedVersions": stored}})
}

fn version(name: &str, storage: bool, spec: &Value) -> Value {
    json!({"name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}}})
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "work"}, "spec": spec})
}

/// The verdict on going back from one set of objects to another, with these custom resources.
fn verdict(from: &[Value], to: &[Value], items: &Instances) -> (Class, Vec<String>) {
    let found = from.iter().chain(to).filter(|object| object["kind"] == "CustomResourceDefinition");
    let mut definitions = BTreeMap::new();
    for object in found {
        definitions.entry(object["metadata"]["name"].as_str().unwrap().to_owned()).or_insert_with(|| object.clone());
    }
    let asked = concerned(from, to, &definitions);
    let instances = asked.into_iter().map(|(name, _)| (name, items.clone())).collect();
    let verdict = judge(&Question { from, to, definitions: &definitions, instances: &instances, lacking: &[] });
    (verdict.verdict, verdict.risks.iter().map(ToString::to_string).collect())
}

/// MS-RB-01: fields that the older definition lacks are a loss only where custom resources have data in them; these are counted and named.
#[test]
fn removed_fields_matter_where_there_is_data() {
    let size = json!({"size": {"type": "integer"}});
    let more = json!({"size": {"type": "integer"}, "colour": {"type": "string"},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}});
    let (old, new) = ([crd(&json!([version("v1", true, &size)]), &["v1"])], [crd(&json!([version("v1", true, &more)]), &["v1"])]);
    let known = |items: &[Value]| Instances::Known(items.to_vec());
    assert_eq!(verdict(&old, &old, &known(&[widget("a", &json!({"size": 1}))])), (Class::Safe, vec![]));
    assert_eq!(verdict(&new, &old, &known(&[])), (Class::Safe, vec![]));
    assert_eq!(verdict(&new, &old, &known(&[widget("a", &json!({"size": 1}))])), (Class::Safe, vec![]));
    let items = [
        widget("a", &json!({"colour": "red"})),
        widget("b", &json!({"colour": "blue", "parts": [{"name": "x"}]})),
        widget("c", &json!({})),
    ];
    let (class, risks) = verdict(&new, &old, &known(&items));
    assert_eq!(class, Class::Unsafe);
    let name = "CustomResourceDefinition widgets.example.com";
    assert_eq!(
        risks,
        [
            format!("{name}: spec.colour is not in the older definition, and is lost; 2 custom resources have data in it: work/a, work/b"),
            format!("{name}: spec.parts is not in the older definition, and is lost; 1 custom resource has data in it: work/b"),
        ]
    );
    let many: Vec<Value> = (0..14).map(|number| widget(&format!("w{number}"), &json!({"colour": "red"}))).collect();
    let (_, risks) = verdict(&new, &old, &known(&many));
    assert!(risks[0].contains("14 custom resources") && risks[0].ends_with("work/w9, and 4 more"), "{risks:?}");
    let (class, risks) = verdict(&new, &old, &Instances::Unreadable("forbidden".into()));
    assert!(class == Class::Unsafe && risks[0].ends_with("the losses are unknown: forbidden"), "{risks:?}");
}

/// MS-RB-01, OLM1-CRD-02: what the older definition tightens matters to objects that exist; a stored version that it lacks makes the way
/// impossible, one that it does not store makes it unsafe; so do conversion, versions that are served no more, and CRDs that go.
#[test]
fn definitions_that_differ_otherwise() {
    let spec = json!({"size": {"type": "integer"}});
    let bounded = json!({"size": {"type": "integer", "maximum": 3}});
    let one = |spec: &Value| crd(&json!([version("v1", true, spec)]), &["v1"]);
    let two = crd(&json!([version("v1", false, &spec), version("v2", true, &spec)]), &["v1", "v2"]);
    let items = || Instances::Known(vec![widget("a", &json!({"size": 9}))]);
    let (class, risks) = verdict(&[one(&spec)], &[one(&bounded)], &items());
    assert_eq!(class, Class::Unsafe);
    assert_eq!(
        risks,
        ["CustomResourceDefinition widgets.example.com: 1 custom resource does not satisfy the older definition: \
          work/a: spec.size: Invalid value: 9: spec.size in body should be less than or equal to 3"]
    );
    let small = Instances::Known(vec![widget("a", &json!({"size": 2}))]);
    assert_eq!(verdict(&[one(&spec)], &[one(&bounded)], &small), (Class::Safe, Vec::new()));
    assert_eq!(verdict(&[one(&spec)], &[one(&bounded)], &Instances::Known(vec![])).0, Class::Safe);

    let (class, risks) = verdict(std::slice::from_ref(&two), &[one(&spec)], &items());
    assert_eq!(class, Class::Impossible);
    assert!(risks[0].ends_with("objects are stored as v2, which the older definition lacks; the API server refuses that"), "{risks:?}");
    assert!(risks.iter().any(|risk| risk.ends_with("v2 is no longer served; its clients fail")), "{risks:?}");

    let both = crd(&json!([version("v1", true, &spec), version("v2", false, &spec)]), &["v1"]);
    let (class, risks) = verdict(std::slice::from_ref(&two), std::slice::from_ref(&both), &items());
    assert!(class == Class::Unsafe && risks[0].contains("objects are stored as v2; the older definition stores v1"), "{risks:?}");

    let mut converting = both.clone();
    converting["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"}}});
    let (class, risks) = verdict(&[converting], &[both], &items());
    assert!(class == Class::Unsafe && risks[0].contains("the conversion webhook goes"), "{risks:?}");

    let (class, risks) = verdict(&[one(&spec)], &[], &items());
    assert_eq!(
        (class, risks),
        (
            Class::Unsafe,
            vec![
                "CustomResourceDefinition widgets.example.com: is not in the older bundle and is deleted, with 1 custom resource: work/a"
                    .into()
            ]
        )
    );
    assert_eq!(verdict(&[one(&spec)], &[], &Instances::Known(vec![])).0, Class::Safe);
}

/// MS-RB-01: an older webhook that judges otherwise, and permissions that the installer lacks, make it unsafe.
#[test]
fn webhooks_and_permissions() {
    let hook = |rule: &str, bundle: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "check"},
            "webhooks": [{"name": "check", "rules": [rule], "clientConfig": {"caBundle": bundle, "service": {"path": "/check"}}}]})
    };
    let none = BTreeMap::new();
    let no_instances = BTreeMap::new();
    let ask = |from: &[Value], to: &[Value], lacking: &[String]| {
        judge(&Question { from, to, definitions: &none, instances: &no_instances, lacking })
    };
    assert_eq!(ask(&[hook("a", "x")], &[hook("a", "y")], &[]).verdict, Class::Safe, "only its authority differs");
    let other = ask(&[hook("a", "x")], &[hook("b", "x")], &[]);
    assert!(other.verdict == Class::Unsafe && other.risks[0].about == About::Webhook, "{other:?}");
    assert_eq!(ask(&[], &[hook("a", "x")], &[]).verdict, Class::Unsafe);
    assert_eq!(ask(&[hook("a", "x")], &[], &[]).verdict, Class::Safe);
    let lacking = ask(&[], &[], &["Verbs:[create]".to_owned()]);
    assert_eq!(lacking.text(), "the installer's account: lacks what the older bundle needs: Verbs:[create]");
}

const BY: i64 = 1_700_000_000;

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(BY + seconds).unwrap()
}

/// 1.0.0 and then 1.1.0 installed, the latter with a time to become healthy; the clock stands so many seconds after its end.
fn upgraded(seconds: i64, newer: &Content) -> Scene {
    let mut scene = Scene::new();
    scene.extension["metadata"]["annotations"] = json!({ON_UNHEALTHY: "RollBack", HEALTHY_WITHIN: "2m"});
    scene.offer("1.1.0", newer);
    scene.have("1.0.0", State::Deployed);
    scene.have("1.1.0", State::Deployed);
    scene.request("version", json!("1.1.0"));
    scene.history.as_mut().unwrap().revisions[1].notes.healthy_by = Some(time(0));
    scene.now = Some(time(seconds));
    scene
}

fn available(scene: &mut Scene) {
    scene.touch("Deployment", "widgets", |live| {
        live["status"] = json!({"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
    });
}

/// The sentence of a plan that is blocked.
fn blocked(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Blocked(reason) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

fn decide(scene: &Scene) -> Plan {
    scene.decide().1
}

const WORDS: &str = "widgets.v1.1.0 did not become healthy within 2m: Deployment work/widgets: 0 of 1 pods are of the new template; rolled \
                     back to widgets.v1.0.0; change spec.source.catalog or the annotation to try again";

/// MS-RB-01, OLM1-CTRL-11: with the annotation an upgrade has its time; in it nothing happens, healthy Deployments end it, and at its end what
/// was there before is applied again. Without the annotation nothing is rolled back.
#[test]
fn unhealthy_upgrades_are_rolled_back_where_that_is_asked_for() {
    let waiting = decide(&upgraded(-5, &Content::default()));
    assert_eq!((waiting.action, waiting.verdict, waiting.gate.until), (Action::Reassert, Verdict::Reached, Some(time(0))));

    let mut healthy = upgraded(5, &Content::default());
    available(&mut healthy);
    let healthy = decide(&healthy);
    assert!(healthy.gate.passed && healthy.verdict == Verdict::Reached, "{healthy:?}");

    let back = decide(&upgraded(5, &Content::default()));
    assert_eq!(back.action, Action::Upgrade);
    assert_eq!(blocked(&back.verdict), WORDS);
    assert_eq!(back.record.unwrap().bundle.name, "widgets.v1.0.0");
    let rolled_back = back.gate.rolled_back.unwrap();
    assert_eq!((rolled_back.from, rolled_back.bundle.as_str(), rolled_back.generation), (2, "widgets.v1.1.0", 3));

    let mut off = upgraded(5, &Content::default());
    off.extension["metadata"]["annotations"] = json!({});
    let off = decide(&off);
    assert_eq!((off.action, off.verdict, off.gate.rolled_back), (Action::Reassert, Verdict::Reached, None));

    for (key, value) in [(ON_UNHEALTHY, "Explode"), (HEALTHY_WITHIN, "soon"), (HEALTHY_WITHIN, "48h"), (HEALTHY_WITHIN, "0s")] {
        let mut scene = upgraded(5, &Content::default());
        scene.extension["metadata"]["annotations"][key] = json!(value);
        let plan = decide(&scene);
        assert_eq!(plan.verdict, Verdict::Reached);
        assert!(plan.warnings.iter().any(|warning| warning.contains(key) && warning.contains(value)), "{:?}", plan.warnings);
    }
}

/// MS-RB-01: data that would be lost keeps the newer revision in place, and the condition says so; without such data it goes back although
/// the preflight would refuse the CRD.
#[test]
fn unsafe_ways_are_not_gone() {
    let newer = Content { fields: vec![("colour", json!({"type": "string"}))], ..Content::default() };
    let mut scene = upgraded(5, &newer);
    scene.offer("2.0.0", &newer);
    scene.instances.insert("Widget".to_owned(), Instances::Known(vec![widget("a", &json!({"colour": "red"}))]));
    let plan = decide(&scene);
    let words = blocked(&plan.verdict);
    assert_eq!(plan.action, Action::Reassert, "drift is still repaired");
    assert!(words.contains("it is not rolled back to widgets.v1.0.0, which is unsafe") && words.ends_with("work/a"), "{words}");
    scene.request("version", json!("2.0.0"));
    assert_eq!(scene.short(), "Upgrade 2.0.0 of main", "another version is a way out");

    scene.request("version", json!("1.1.0"));
    scene.instances.insert("Widget".to_owned(), Instances::Known(vec![widget("a", &json!({"size": 1}))]));
    assert_eq!(blocked(&decide(&scene).verdict), WORDS);
}

/// MS-RB-01: an attempt that still stands before its webhooks has its time as well: it is rolled back to what is installed, or says why not.
#[test]
fn an_attempt_at_the_gate_has_its_time_too() {
    let webhook = Content { webhook: true, ..Content::default() };
    let mut scene = upgraded(5, &webhook);
    let latest = &mut scene.history.as_mut().unwrap().revisions[1];
    (latest.state, latest.notes.waits_before) = (State::Pending, Some("admission".to_owned()));
    scene.history.as_mut().unwrap().revisions[0].state = State::Deployed;
    let back = decide(&scene);
    assert_eq!(blocked(&back.verdict), WORDS);
    assert!(back.steps.iter().any(|step| step.target.kind == "ValidatingWebhookConfiguration"), "what is not in the older one goes");

    let mut only = upgraded(5, &webhook);
    only.history.as_mut().unwrap().revisions.remove(0);
    let latest = &mut only.history.as_mut().unwrap().revisions[0];
    (latest.state, latest.notes.waits_before) = (State::Pending, Some("admission".to_owned()));
    let words = blocked(&decide(&only).verdict);
    assert!(words.ends_with("there is no earlier revision to go back to"), "{words}");
}

/// MS-RB-01, MS-POL-01: the time to become healthy runs on while another change waits for an approval or cannot be pulled, so that somebody
/// looks at its end; then it goes back, for which nobody is asked.
#[test]
fn the_time_runs_whatever_else_waits() {
    let waiting = |seconds: i64| {
        let mut scene = upgraded(seconds, &Content::default());
        scene.offer("2.0.0", &Content::default());
        scene.request("version", json!("2.0.0"));
        let spec = serde_json::from_value(json!({"approval": "Always"})).unwrap();
        scene.lifecycle.policies = vec![PolicyFact { name: "all".to_owned(), spec }];
        scene
    };
    let held = decide(&waiting(-5)).consent.meanwhile.expect("it waits for an approval");
    assert!(matches!(held.verdict, Verdict::Blocked(_)), "{:?}", held.verdict);
    assert_eq!(held.gate.until, Some(time(0)));
    let back = decide(&waiting(5));
    assert!(back.gate.rolled_back.is_some() && back.consent.gate.is_none() && back.consent.meanwhile.is_none(), "{back:?}");

    let mut gone = waiting(-5);
    let terminal = PullFailure { problem: PullProblem::Other, message: "no such image".to_owned(), terminal: true };
    gone.bundles.insert(scene::image("2.0.0"), Err(terminal));
    let gone = decide(&gone);
    assert!(matches!(gone.verdict, Verdict::Blocked(_)), "{:?}", gone.verdict);
    assert_eq!(gone.gate.until, Some(time(0)));
}

/// MS-RB-01: what was rolled back is not tried again until the extension, its annotation or the bundle changes; drift is repaired meanwhile; a
/// rollback that was left half-way goes on.
#[test]
fn what_was_rolled_back_is_remembered() {
    let mut scene = upgraded(5, &Content::default());
    let rolled_back = decide(&scene).gate.rolled_back.unwrap();
    let history = scene.history.as_mut().unwrap();
    let record = history.revisions[0].record.clone();
    let notes = Notes { rolled_back: Some(rolled_back.clone()), ..Notes::default() };
    history.revisions.push(Revision { number: 3, state: State::Pending, record, notes });
    let again = decide(&scene);
    assert_eq!((again.action, again.gate.rolled_back), (Action::Upgrade, Some(rolled_back)));

    let history = scene.history.as_mut().unwrap();
    history.revisions[2].state = State::Deployed;
    history.revisions[1].state = State::Failed;
    history.revisions[0].state = State::Superseded;
    let held = decide(&scene);
    assert_eq!((&held.action, blocked(&held.verdict).as_str()), (&Action::Reassert, WORDS));
    assert!(held.steps.iter().any(|planned| planned.target.kind == "Deployment"), "1.0.0's Deployment is put right");

    let changed = |change: &dyn Fn(&mut Scene)| {
        let mut scene = upgraded(5, &Content::default());
        scene.history.clone_from(&held_scene().history);
        change(&mut scene);
        scene.short()
    };
    let blocked = format!("Blocked: {WORDS}");
    assert_eq!(changed(&|_| {}), blocked);
    assert_eq!(changed(&|scene| scene.extension["metadata"]["generation"] = json!(4)), "Upgrade 1.1.0 of main");
    assert_eq!(changed(&|scene| scene.extension["metadata"]["annotations"] = json!({})), "Upgrade 1.1.0 of main");
    assert_eq!(changed(&|scene| scene.extension["metadata"]["annotations"][HEALTHY_WITHIN] = json!("1h")), "Upgrade 1.1.0 of main");
    let other = Content { fields: vec![("colour", json!({"type": "string"}))], ..Content::default() };
    assert_eq!(changed(&|scene| scene.offer("1.1.0", &other)), "Upgrade 1.1.0 of main");
    assert_eq!(changed(&|scene| scene.extension["spec"]["source"]["catalog"]["version"] = json!("1.0.0")), "Reassert 1.0.0 of main");
}

/// After a rollback from 1.1.0 to 1.0.0.
fn held_scene() -> Scene {
    let mut scene = upgraded(5, &Content::default());
    let rolled_back = decide(&scene).gate.rolled_back.unwrap();
    let history = scene.history.as_mut().unwrap();
    let record = history.revisions[0].record.clone();
    history.revisions[0].state = State::Superseded;
    history.revisions[1].state = State::Failed;
    let notes = Notes { rolled_back: Some(rolled_back), ..Notes::default() };
    history.revisions.push(Revision { number: 3, state: State::Deployed, record, notes });
    scene
}
