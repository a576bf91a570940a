//! Phases: what comes before what, where a gate stands, and what an attempt that waits at it does next.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use mainstay_lifecycle::change::{Action, GATED, Operation};
use mainstay_lifecycle::revision::State;
use mainstay_objects::Step;
use serde_json::{Value, json};

use crate::scene::{Content, Scene};

fn webhook() -> Content {
    Content { webhook: true, ..Content::default() }
}

/// The steps as words.
fn steps(scene: &Scene) -> Vec<String> {
    let (_, plan, _) = scene.decide();
    let word = |change: Operation, step: &Step| match (change, step) {
        (_, Step::Probe(_)) => "probe",
        (_, Step::Wait { .. }) => "wait",
        (Operation::Create, _) => "create",
        (Operation::Update, _) => "update",
        (Operation::Same, _) => "apply",
        (Operation::Delete, _) => "delete",
        (Operation::Wait, _) => "?",
    };
    plan.steps.iter().map(|planned| format!("{} {}", word(planned.operation, &planned.step), planned.target.kind)).collect()
}

/// MS-RB-01, OLM1-CTRL-03: CRDs are served before anything else is applied; webhooks are registered when their Deployments are available, and
/// not before. Where nothing comes after the Deployments, nobody waits for them.
#[test]
fn webhooks_come_after_their_deployments() {
    let mut scene = Scene::new();
    scene.offer("2.0.0", &webhook());
    assert_eq!(
        steps(&scene),
        [
            "create CustomResourceDefinition",
            "wait CustomResourceDefinition",
            "create ServiceAccount",
            "create ClusterRole",
            "create ClusterRoleBinding",
            "create Service",
            "create Deployment",
            "probe Deployment",
            "create ValidatingWebhookConfiguration"
        ]
    );
    let without = steps(&Scene::new());
    assert!(!without.iter().any(|step| step.starts_with("probe")), "{without:?}");
}

/// MS-RB-01, OLM1-CTRL-11: an attempt that waits at the gate applies only what differs by now, and looks again; content that is another is
/// applied whole; what is deployed is put right without passing a gate (OLM1-INST-14).
#[test]
fn an_attempt_goes_on_at_the_gate() {
    let mut scene = Scene::new();
    scene.offer("2.0.0", &webhook());
    scene.have("2.0.0", State::Pending);
    let gone = scene.target("ValidatingWebhookConfiguration", "");
    scene.live.remove(&gone);
    scene.history.as_mut().unwrap().revisions[0].notes.waits_before = Some(GATED.to_owned());
    assert_eq!(steps(&scene), ["probe Deployment", "create ValidatingWebhookConfiguration"]);
    scene.touch("Deployment", "widgets", |live| live["spec"]["replicas"] = json!(0));
    assert_eq!(steps(&scene), ["update Deployment", "probe Deployment", "create ValidatingWebhookConfiguration"]);

    scene.history.as_mut().unwrap().revisions[0].notes.waits_before = None;
    let all = steps(&scene);
    assert!(all.contains(&"apply ServiceAccount".to_owned()), "nobody knows what was applied: {all:?}");

    scene.history.as_mut().unwrap().revisions[0].state = State::Deployed;
    scene.touch("Deployment", "widgets", |live| live["spec"]["replicas"] = json!(1));
    let (_, plan, _) = scene.decide();
    assert_eq!(plan.action, Action::Reassert);
    assert_eq!(steps(&scene), ["create ValidatingWebhookConfiguration"]);
}

/// MS-RB-01: a record knows its phases, in order, and its digest.
#[test]
fn records_know_their_phases() {
    let mut scene = Scene::new();
    scene.offer("2.0.0", &webhook());
    let (_, plan, _) = scene.decide();
    let record = plan.record.unwrap();
    assert_eq!(record.phases(), [("crds", 1), ("accounts", 1), ("rights", 2), ("services", 1), ("workloads", 1), ("admission", 1)]);
    assert!(record.digest().starts_with("sha256:"));
}

fn config(name: &str, kept: bool) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
    if kept {
        object["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    }
    object
}

/// OLM1-OWN-01, OLM1-OWN-03: an object is taken over only where it was this extension's before: by its owner, by its labels after the extension
/// was made again under the same name, or because the installed revision applied it and only its marks were taken off.
#[test]
fn objects_are_adopted_only_from_the_same_extension() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut scene = Scene::new();
        scene.have("2.0.0", State::Deployed);
        scene.history = Ok(mainstay_lifecycle::revision::History::default());
        scene.touch("Deployment", "widgets", change);
        scene.short()
    };
    let words = "Retrying: Deployment 'widgets' already exists in namespace 'work' and cannot be managed by operator-controller for resolved \
                 bundle \"widgets.v2.0.0\" with version \"2.0.0\"";
    let taken = "Install 2.0.0 of main";
    assert_eq!(refused(&|_| {}), taken, "its own");
    assert_eq!(refused(&|live| live["metadata"]["ownerReferences"][0]["uid"] = json!("older")), taken, "of a deleted one of the same name");
    let other = |live: &mut Value| {
        live["metadata"]["ownerReferences"][0]["name"] = json!("other");
        live["metadata"]["ownerReferences"][0]["uid"] = json!("other");
    };
    assert_eq!(refused(&other), words, "of another extension, whatever its labels say");
    assert_eq!(refused(&|live| live["metadata"]["ownerReferences"] = json!([])), taken, "by its labels");
    assert_eq!(refused(&|live| live["metadata"] = json!({"name": "widgets", "namespace": "work", "uid": "u"})), words, "of nobody");

    let mut scene = Scene::new();
    scene.have("2.0.0", State::Deployed);
    let bare = |manager: &str| json!({"name": "widgets", "namespace": "work", "uid": "u", "managedFields": [{"manager": manager}]});
    scene.touch("Deployment", "widgets", |live| live["metadata"] = bare("kubectl-create"));
    assert_eq!(scene.short(), words, "made anew by somebody else");
    scene.touch("Deployment", "widgets", |live| live["metadata"] = bare("operator-controller"));
    assert_eq!(scene.short(), "Reassert 2.0.0 of main", "its marks were taken off");
    assert_eq!(steps(&scene), ["update Deployment"]);
}

/// OLM1-INST-14, OLM1-CTRL-10: what the new bundle does not hold is deleted at the end, the other way round; what asks to be kept, what belongs
/// to another by now and what is on its way out already is left alone.
#[test]
fn what_is_gone_is_deleted_last() {
    let mut scene = Scene::new();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "helper"}});
    let more = vec![config("old", false), config("kept", true), config("taken", false), config("leaving", false), account];
    scene.offer("1.1.0", &Content { more, ..Content::default() });
    scene.have("1.1.0", State::Deployed);
    scene.request("version", json!("2.0.0"));
    scene.touch("ConfigMap", "taken", |live| {
        live["metadata"]["ownerReferences"][0] = json!({"kind": "X", "name": "x", "uid": "x", "controller": true});
    });
    scene.touch("ConfigMap", "leaving", |live| live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let (_, plan, _) = scene.decide();
    let deleted: Vec<String> =
        plan.steps.iter().filter(|planned| planned.operation == Operation::Delete).map(|planned| planned.target.name.clone()).collect();
    let first = plan.steps.iter().position(|planned| planned.operation == Operation::Delete).unwrap();
    assert!(plan.steps[first..].iter().all(|planned| planned.operation == Operation::Delete), "deletions are last");
    let own: Vec<&str> = deleted.iter().map(String::as_str).filter(|name| !name.contains("-wid")).collect();
    assert_eq!(own, ["old", "helper"]);
}
