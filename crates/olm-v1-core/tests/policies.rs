//! Approvals: which changes wait, for whom, and what an approval is worth.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use mainstay_api::lifecycle::{BundleRef, CHANGE_PLAN, ChangePlan, ChangePlanPhase, ChangePlanStatus, ChangeSummary, DependencyRef};
use mainstay_lifecycle::Live;
use mainstay_lifecycle::approval::Gate;
use mainstay_lifecycle::change::{Action, Operation};
use mainstay_lifecycle::policy::PolicyFact;
use mainstay_lifecycle::revision::{History, State};
use mainstay_olm_v1_core::extension::plan::{Plan, Verdict};
use serde_json::{Value, json};

use crate::scene::{self, Content, Scene, table};

fn policy(name: &str, spec: Value) -> PolicyFact {
    PolicyFact { name: name.to_owned(), spec: serde_json::from_value(spec).unwrap() }
}

/// What is changed, and how.
type Alter = (&'static str, fn(&mut Scene));
/// What is forged, and how.
type Forge = (&'static str, fn(&mut Scene, &mut ChangePlan));

fn with(policies: &[Value]) -> Scene {
    let mut scene = Scene::new();
    scene.lifecycle.policies = policies.iter().enumerate().map(|(at, spec)| policy(&format!("p{at}"), spec.clone())).collect();
    scene
}

fn gate(scene: &Scene) -> Gate {
    let (_, plan, _) = scene.decide();
    plan.consent.gate.unwrap_or_else(|| panic!("{:?}", plan.verdict))
}

/// The ChangePlan that is kept for the gate; the phase is what `marks` would say.
fn kept(gate: &Gate, approved: bool) -> ChangePlan {
    let mut plan = ChangePlan::new(&gate.name, gate.spec.clone());
    plan.spec.approved_digest = approved.then(|| gate.spec.digest.clone());
    let phase = if approved { ChangePlanPhase::Approved } else { ChangePlanPhase::Pending };
    plan.status = Some(ChangePlanStatus { phase, message: String::new() });
    plan
}

fn keep(scene: &mut Scene, plan: ChangePlan) {
    scene.lifecycle.plans.push(Arc::new(plan));
}

/// What is done, in short: what happens, and what the marks say.
fn told(scene: &Scene) -> String {
    let (_, plan, _) = scene.decide();
    let verdict = match &plan.verdict {
        Verdict::Reached => format!("{:?}", plan.action),
        Verdict::Blocked(reason) | Verdict::Retrying(reason) => reason.to_string(),
        other => format!("{other:?}"),
    };
    let marks = plan.consent.marks.iter().map(|mark| format!("\n{} {:?}: {}", mark.name, mark.phase, mark.message));
    std::iter::once(verdict).chain(marks).collect()
}

fn greedy() -> Content {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "more"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "more"},
        "subjects": [{"kind": "ServiceAccount", "name": "widgets", "namespace": "work"}]});
    Content { more: vec![role, binding], ..Content::default() }
}

/// MS-POL-01: which policies concern an extension, and that the strictest approval counts.
#[test]
fn which_changes_wait() {
    let waits = |policies: &[Value]| {
        let mut scene = with(policies);
        scene.extension["metadata"]["labels"] = json!({"tier": "gold"});
        matches!(scene.decide().1.verdict, Verdict::Blocked(_))
    };
    for (expected, policies) in [
        (false, vec![]),
        (false, vec![json!({})]),
        (true, vec![json!({"approval": "Always"})]),
        (false, vec![json!({"approval": "RightsIncrease"})]),
        (true, vec![json!({"packages": ["wid*"], "approval": "Always"})]),
        (false, vec![json!({"packages": ["gadgets"], "approval": "Always"})]),
        (true, vec![json!({"matchLabels": {"tier": "gold"}, "approval": "Always"})]),
        (false, vec![json!({"matchLabels": {"tier": "lead"}, "approval": "Always"})]),
        (false, vec![json!({"packages": ["widgets"], "matchLabels": {"tier": "lead"}, "approval": "Always"})]),
        (true, vec![json!({"approval": "Always"}), json!({"packages": ["widgets"], "approval": "Automatic"})]),
    ] {
        assert_eq!(waits(&policies), expected, "{policies:?}");
    }
}

/// MS-POL-01: a change that waits names the plan and the command, changes nothing, and is done once its very digest is approved.
#[test]
fn an_approval_is_for_one_change() {
    let mut scene = with(&[json!({"approval": "Always"})]);
    scene.request("version", json!("1.0.0"));
    let first = gate(&scene);
    assert!(!first.open && !first.kept && first.name.starts_with("widgets-"), "{first:?}");
    let name = &first.name;
    assert_eq!(
        told(&scene),
        format!(
            "waits for approval of change plan {name}: install widgets.v1.0.0: every change waits (lifecyclepolicy p0)\nmainstay approve {name} shows and approves it"
        )
    );
    let (_, plan, _) = scene.decide();
    assert_eq!((plan.action, plan.consent.meanwhile.unwrap().action), (Action::Install, Action::Report));
    keep(&mut scene, kept(&first, false));
    assert!(gate(&scene).kept && !gate(&scene).open);
    scene.lifecycle.plans.clear();
    keep(&mut scene, kept(&first, true));
    assert_eq!(told(&scene), "Install");

    // Another bundle is another change.
    scene.request("version", json!("1.1.0"));
    let second = gate(&scene);
    assert_ne!(second.spec.digest, first.spec.digest);
    assert!(!second.open);
    let marks = scene.decide().1.consent.marks;
    assert_eq!((marks.len(), &marks[0].name, marks[0].phase), (1, &first.name, ChangePlanPhase::Superseded));
    assert_eq!(marks[0].message, format!("change plan {} took its place", second.name));

    // So is other content of the same bundle.
    scene.request("version", json!("1.0.0"));
    scene.offer("1.0.0", &greedy());
    assert!(!gate(&scene).open);
    assert_ne!(gate(&scene).spec.digest, first.spec.digest);
    // And so is the same bundle for another extension of that name.
    scene.offer("1.0.0", &Content::default());
    assert!(gate(&scene).open);
    scene.extension["metadata"]["uid"] = json!("uid-2");
    assert!(!gate(&scene).open);
}

/// MS-POL-01: what is approved is the digest that the controller computes; neither another one nor a foreign plan counts.
#[test]
fn forged_approvals_do_not_count() {
    let mut scene = with(&[json!({"approval": "Always"})]);
    let first = gate(&scene);
    let mut forged = kept(&first, false);
    forged.spec.approved_digest = Some("sha256:0000".to_owned());
    keep(&mut scene, forged);
    assert!(!gate(&scene).open);
    scene.lifecycle.plans.clear();
    // A plan under the name that says something else.
    let mut foreign = kept(&first, true);
    foreign.spec.digest = "sha256:0000".to_owned();
    foreign.spec.approved_digest = Some("sha256:0000".to_owned());
    keep(&mut scene, foreign);
    let told = told(&scene);
    assert!(told.contains("is there and is of another change"), "{told}");
}

/// MS-POL-01: an approval is for one change of one object, once: whatever it is bound to and is another by now needs an approval anew, and
/// a plan that had its turn approves nothing, not even the very same change.
#[test]
fn an_approval_is_bound_to_its_change() {
    let mut scene = with(&[json!({"approval": "Always"})]);
    scene.gate("PreflightPermissions=false");
    let first = gate(&scene);
    keep(&mut scene, kept(&first, true));
    assert_eq!(told(&scene), "Install");
    let changes: [Alter; 9] = [
        ("uid", |scene| scene.extension["metadata"]["uid"] = json!("uid-2")),
        ("namespace", |scene| scene.extension["spec"]["namespace"] = json!("other")),
        ("service account", |scene| scene.extension["spec"]["serviceAccount"]["name"] = json!("other")),
        ("target bundle", |scene| scene.request("version", json!("1.1.0"))),
        ("content of the target bundle", |scene| scene.offer("2.0.0", &greedy())),
        ("the checks of CRDs", |scene| {
            scene.extension["spec"]["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}});
        }),
        ("the watched namespace", |scene| {
            scene.extension["metadata"]["annotations"] = json!({"olm.operatorframework.io/watch-namespace": "work"});
            scene.offer("2.0.0", &Content { modes: vec!["OwnNamespace", "AllNamespaces"], ..Content::default() });
        }),
        ("the current revision", |scene| scene.have("1.1.0", State::Deployed)),
        ("a later revision of the same bundle", |scene| {
            scene.have("1.1.0", State::Deployed);
            scene.have("1.0.0", State::Deployed);
        }),
    ];
    for (what, change) in changes {
        let mut scene = scene.clone();
        change(&mut scene);
        let gate = gate(&scene);
        assert!(!gate.open && gate.spec.digest != first.spec.digest, "{what}: {gate:?}");
    }
    for phase in [ChangePlanPhase::Applied, ChangePlanPhase::Superseded] {
        let mut plan = kept(&first, true);
        plan.status.as_mut().unwrap().phase = phase;
        scene.lifecycle.plans = vec![Arc::new(plan.clone())];
        let again = gate(&scene);
        assert_eq!((again.open, again.kept, &again.spec.digest), (false, false, &first.spec.digest), "{phase:?}");
        assert_eq!(again.name, format!("{}-2", first.name), "{phase:?}");
        // Without anybody to ask it does not stand either: the change simply is not this plan's.
        scene.lifecycle.policies.clear();
        assert!(scene.decide().1.consent.gate.is_none(), "{phase:?}");
        scene.lifecycle.policies = with(&[json!({"approval": "Always"})]).lifecycle.policies;
        // The next turn has an approval of its own, and its own end.
        keep(&mut scene, kept(&again, true));
        assert!(gate(&scene).open && gate(&scene).name == again.name);
        let mut used = kept(&again, true);
        used.status.as_mut().unwrap().phase = ChangePlanPhase::Applied;
        scene.lifecycle.plans = vec![Arc::new(plan), Arc::new(used)];
        assert_eq!(gate(&scene).name, format!("{}-3", first.name));
    }
    // What was superseded before anybody approved it may wait again.
    let mut waiting = kept(&first, false);
    waiting.status.as_mut().unwrap().phase = ChangePlanPhase::Superseded;
    scene.lifecycle.plans = vec![Arc::new(waiting)];
    let again = gate(&scene);
    assert_eq!((again.open, again.kept, again.name), (false, true, first.name));
}

/// MS-POL-01: what was approved and done is told as done where the next step of the path waits already.
#[test]
fn a_step_of_a_path_is_done() {
    let mut scene = with(&[json!({"approval": "Always"})]);
    scene.have("1.0.0", State::Deployed);
    scene.request("version", json!("1.1.0"));
    let first = gate(&scene);
    keep(&mut scene, kept(&first, true));
    scene.have("1.1.0", State::Deployed);
    scene.request("upgradeConstraintPolicy", json!("SelfCertified"));
    scene.request("version", json!("1.0.0"));
    let next = gate(&scene);
    assert_ne!(next.name, first.name);
    let told = told(&scene);
    assert!(told.contains(&format!("{} Applied: the change was done", first.name)), "{told}");
}

/// MS-POL-01: an approval is used up when its change was done, even where the same change comes again; repairs never wait.
#[test]
fn an_approval_is_used_up() {
    let mut scene = with(&[json!({"approval": "Always"})]);
    scene.have("1.0.0", State::Deployed);
    scene.request("version", json!("1.1.0"));
    let upgrade = gate(&scene);
    assert_eq!(upgrade.spec.from.as_ref().map(|from| from.name.as_str()), Some("widgets.v1.0.0"));
    keep(&mut scene, kept(&upgrade, true));
    assert_eq!(told(&scene), "Upgrade");

    scene.have("1.1.0", State::Deployed);
    assert_eq!(told(&scene), format!("Reassert\n{} Applied: the change was done", upgrade.name), "after a crash before it was said");
    let repair = scene.target("Deployment", "widgets");
    scene.live.insert(repair, Live::Absent);
    assert!(told(&scene).starts_with("Reassert"));

    // Back, and forth again: asked again.
    scene.have("1.0.0", State::Deployed);
    assert!(told(&scene).starts_with("waits for approval"));
    assert_ne!(gate(&scene).name, upgrade.name);
}

/// MS-POL-02: an upgrade that grants more than what is installed waits, says what it grants, and others do not.
#[test]
fn more_permissions_wait() {
    let mut scene = with(&[json!({"approval": "RightsIncrease"})]);
    assert_eq!(told(&scene), "Install", "a first install is no increase");
    scene.have("1.0.0", State::Deployed);
    scene.request("version", json!("1.1.0"));
    assert_eq!(told(&scene), "Upgrade");
    scene.offer("1.1.0", &greedy());
    let told = told(&scene);
    assert!(told.contains("grants more than the installed version has (lifecyclepolicy p0)"), "{told}");
    let summary = gate(&scene).spec.summary;
    assert!(summary.permissions_gained.iter().any(|line| line.contains("secrets")), "{summary:?}");
    assert!(summary.images.iter().any(|line| line.contains("example.com/widgets:1.1.0")), "{summary:?}");
    assert!(summary.changes.iter().any(|line| line.contains("Deployment")), "{summary:?}");
    // The installer of this scene may do anything.
    let excess = |summary: &ChangeSummary| {
        summary.warnings.iter().any(|line| line.starts_with("the account work/installer may do more than this change needs: * on *"))
    };
    assert!(excess(&summary), "{summary:?}");
    // Less is fine.
    scene.have("1.1.0", State::Deployed);
    scene.request("version", json!("2.0.0"));
    assert_eq!(self::told(&scene), "Upgrade");
}

/// MS-POL-01, OLM1-INST-14: while an upgrade waits, what is installed is kept as it is, and nothing of the upgrade is done.
#[test]
fn what_is_installed_is_repaired_meanwhile() {
    let mut scene = with(&[json!({"approval": "Always"})]);
    scene.have("1.0.0", State::Deployed);
    scene.request("version", json!("1.1.0"));
    let meanwhile = |scene: &Scene| -> Plan { *scene.decide().1.consent.meanwhile.unwrap() };
    let quiet = meanwhile(&scene);
    assert_eq!((quiet.action, quiet.steps.len()), (Action::Reassert, 0));
    let gone = scene.target("Deployment", "widgets");
    scene.live.insert(gone.clone(), Live::Absent);
    let repair = meanwhile(&scene);
    let steps: Vec<_> = repair.steps.iter().map(|step| (step.operation, step.target.clone())).collect();
    assert_eq!(steps, [(Operation::Create, gone.clone())]);
    assert_eq!(repair.record.unwrap().bundle.version, "1.0.0");
    assert!(matches!(repair.verdict, Verdict::Blocked(_)));
    // What somebody else has taken is theirs.
    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "widgets", "namespace": "work",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o", "controller": true}]}});
    scene.live.insert(gone, Live::Present(Arc::new(other)));
    let (_, plan, _) = scene.decide();
    assert!(plan.consent.gate.is_none(), "the upgrade itself is refused: {:?}", plan.verdict);
}

/// MS-POL-01: policies that go, or cannot be told.
#[test]
fn policies_come_and_go() {
    let mut scene = with(&[json!({"approval": "Always"})]);
    let first = gate(&scene);
    keep(&mut scene, kept(&first, false));
    scene.lifecycle.policies.clear();
    assert_eq!(told(&scene), format!("Install\n{} Superseded: the next change needs no approval", first.name));
    scene.have("2.0.0", State::Deployed);
    assert_eq!(told(&scene), format!("Reassert\n{} Superseded: the cluster changed since; this is no longer the next change", first.name));
    let mut scene = Scene::new();
    scene.lifecycle.problem = Some("lifecyclepolicies or changeplans cannot be read".into());
    assert!(
        told(&scene).starts_with("whether the change needs an approval cannot be told: lifecyclepolicies or changeplans cannot be read")
    );
    scene.have("2.0.0", State::Deployed);
    assert_eq!(told(&scene), "Reassert", "what is installed is repaired without them");
}

/// MS-POL-01: an attempt that failed is tried again under its approval, and going back to what is installed needs none.
#[test]
fn attempts_that_failed() {
    let mut scene = with(&[json!({"approval": "Always"})]);
    scene.have("1.0.0", State::Deployed);
    scene.request("version", json!("1.1.0"));
    let upgrade = gate(&scene);
    keep(&mut scene, kept(&upgrade, true));
    scene.have("1.1.0", State::Failed);
    assert_eq!(told(&scene), "Upgrade", "the same change, still approved");
    scene.request("version", json!("1.0.0"));
    assert!(told(&scene).starts_with("Upgrade\n"), "back to what is installed");
}

/// MS-POL-01: what was approved along with another extension's change is not asked for twice, and nothing else comes through with it.
#[test]
fn one_approval_is_for_all_it_lists() {
    let mut scene = with(&[json!({"approval": "Always"})]);
    scene.gate("PreflightPermissions=false");
    let bundle = |image: &str| BundleRef {
        package: "widgets".to_owned(),
        name: "widgets.v2.0.0".to_owned(),
        version: "2.0.0".to_owned(),
        image: image.to_owned(),
        catalog: "main".to_owned(),
    };
    let other = |image: &str, approved: bool| {
        let mut gate = gate(&Scene { lifecycle: with(&[json!({"approval": "Always"})]).lifecycle, ..Scene::new() });
        gate.spec.subject.name = "gadgets".to_owned();
        gate.spec.subject.uid = "uid-9".to_owned();
        gate.spec.summary.dependencies = vec![bundle(image)];
        gate.name = "gadgets-1".to_owned();
        kept(&gate, approved)
    };
    let other = |image: &str, approved: bool| {
        let mut plan = other(image, approved);
        plan.spec.approved_dependencies = vec![DependencyRef {
            name: "widgets".to_owned(),
            uid: "uid-1".to_owned(),
            package: "widgets".to_owned(),
            namespace: "work".to_owned(),
            service_account: "installer".to_owned(),
        }];
        plan
    };
    let image = scene::image("2.0.0");
    keep(&mut scene, other(&image, true));
    assert!(told(&scene).starts_with("waits for approval"), "the extension does not belong to that plan");
    scene.extension["metadata"]["annotations"] = json!({CHANGE_PLAN: "gadgets-1"});
    assert_eq!(told(&scene), "Install");
    // The approval names this very extension, as it is, and is used up with its change.
    let forged: [Forge; 8] = [
        ("another object of the name", |scene, _| scene.extension["metadata"]["uid"] = json!("uid-2")),
        ("another name", |scene, _| scene.extension["metadata"]["name"] = json!("mine")),
        ("another namespace", |scene, _| scene.extension["spec"]["namespace"] = json!("mine")),
        ("another account", |scene, _| scene.extension["spec"]["serviceAccount"]["name"] = json!("cluster-admin")),
        ("nobody was named", |_, plan| plan.spec.approved_dependencies.clear()),
        ("another package was named", |_, plan| plan.spec.approved_dependencies[0].package = "gears".to_owned()),
        ("the change was done", |_, plan| plan.status.as_mut().unwrap().phase = ChangePlanPhase::Applied),
        ("the change was superseded", |_, plan| plan.status.as_mut().unwrap().phase = ChangePlanPhase::Superseded),
    ];
    for (what, forge) in forged {
        let mut scene = scene.clone();
        let mut plan = other(&image, true);
        forge(&mut scene, &mut plan);
        scene.lifecycle.plans = vec![Arc::new(plan)];
        scene.account = Ok(true);
        assert!(told(&scene).starts_with("waits for approval"), "{what}: {}", told(&scene));
    }
    for plan in [other(&image, false), other("example.com/other", true)] {
        scene.lifecycle.plans = vec![Arc::new(plan)];
        assert!(told(&scene).starts_with("waits for approval"));
    }
    keep(&mut scene, other(&image, true));
    scene.history = Ok(History::default());
    scene.have("1.1.0", State::Deployed);
    assert!(told(&scene).starts_with("waits for approval"), "only a first install comes along");
}

/// MS-POL-01: a plan stays within what the API takes.
#[test]
fn summaries_are_bounded() {
    let long = ChangeSummary {
        changes: (0..500).map(|at| format!("{at} {}", "ä".repeat(2000))).collect(),
        warnings: vec!["short".to_owned()],
        ..ChangeSummary::default()
    };
    let bounded = long.bounded();
    assert_eq!(bounded.changes.len(), ChangeSummary::LINES + 1);
    assert_eq!(bounded.changes.last().unwrap(), "... and 300 more");
    assert!(bounded.changes.iter().all(|line| line.len() <= ChangeSummary::LINE + 4));
    assert_eq!(bounded.warnings, ["short"]);
    assert_eq!(table(&[("x", "y".to_owned())]), "== x\ny\n\n");
}
