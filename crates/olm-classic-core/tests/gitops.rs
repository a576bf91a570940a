//! The verdicts of Argo CD and Flux on our objects. Both rest on facts that OLM's objects have had for years, so each must find them.
//!
//! Argo CD has a rule for Subscriptions alone (`resource_customizations/operators.coreos.com/Subscription/health.lua`): among the conditions it
//! counts those that are pending and those that are bad. Flux's kstatus knows nothing of OLM's kinds, and takes each for current unless it is being
//! deleted; who waits for an operator gives it expressions, which stand in `docs/classic.md`.

use jiff::Timestamp;
use mainstay_cel::{Activation, Env, Program, Type, Value as CelValue};
use mainstay_olm_classic_core::csv::{Phase, Reason, Transition, next_status};
use mainstay_olm_classic_core::subscription::{Facts, Resolution, VisibleCatalog, observed, resolved};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../docs/classic.md");

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Argo CD's rule.
fn argo(subscription: &Value) -> &'static str {
    let Some(conditions) = subscription["status"]["conditions"].as_array() else { return "Progressing" };
    let holds = |condition: &Value| condition["status"] == "True";
    let pending = conditions.iter().any(|one| one["type"] == "InstallPlanPending" && holds(one));
    let missing = |one: &Value| one["type"] == "InstallPlanMissing" && one["reason"] != "ReferencedInstallPlanNotFound";
    let bad = |one: &Value| {
        ["CatalogSourcesUnhealthy", "InstallPlanFailed", "ResolutionFailed"].iter().any(|kind| one["type"] == *kind) && holds(one)
    };
    match (conditions.iter().any(|one| missing(one) || bad(one)), pending) {
        (true, _) => "Degraded",
        (false, true) => "Progressing",
        (false, false) => "Healthy",
    }
}

/// The expression that the page gives Flux for a kind.
fn expression(kind: &str, field: &str) -> String {
    let rest = PAGE.split(&format!("    kind: {kind}\n")).nth(1).unwrap_or_else(|| panic!("no expressions for {kind}"));
    let line =
        rest.lines().map(str::trim).take_while(|line| !line.starts_with("- ")).find_map(|line| line.strip_prefix(&format!("{field}: ")));
    line.unwrap_or_else(|| panic!("{kind} has no {field}")).to_owned()
}

fn flux(object: &Value) -> &'static str {
    let kind = object["kind"].as_str().unwrap();
    let holds = |field: &str| {
        let env = ["metadata", "spec", "status"].into_iter().fold(Env::new(), |env, name| env.variable(name, Type::Dyn));
        let program = Program::compile(&expression(kind, field), &env).unwrap();
        let mut values = Activation::new();
        for name in ["metadata", "spec", "status"] {
            values = values.with(name, CelValue::from_json(&object[name]));
        }
        // What cannot be evaluated is not so yet, as Flux has it.
        program.eval(&values).is_ok_and(|value| matches!(value, CelValue::Bool(true)))
    };
    match (holds("failed"), holds("current")) {
        (true, _) => "Failed",
        (false, true) => "Current",
        (false, false) => "InProgress",
    }
}

fn subscription(status: &Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": "s", "namespace": "n"},
        "spec": {"name": "p", "channel": "stable", "source": "one", "sourceNamespace": "market"}, "status": status})
}

/// A Subscription from its creation to the head of its channel, and every way in which it stops.
#[test]
fn subscriptions() {
    let catalog = |healthy: bool| {
        let (name, namespace) = ("one".to_owned(), "market".to_owned());
        [VisibleCatalog { name, namespace, uid: "u".to_owned(), resource_version: "1".to_owned(), healthy }]
    };
    let (good, bad) = (catalog(true), catalog(false));
    let facts = Facts {
        catalogs: &good,
        install_plan: None,
        generated_by: None,
        current_csv_exists: false,
        fails_forward: false,
        deprecations: None,
    };
    let verdicts = |status: &Value| (argo(&subscription(status)), flux(&subscription(status)));
    let plan = |phase: &str| {
        json!({"metadata": {"name": "install-a", "namespace": "n", "uid": "1"}, "spec": {"generation": 1}, "status": {"phase": phase,
            "conditions": [{"type": "Installed", "status": "False", "reason": "InstallComponentFailed", "message": "no"}]}})
    };
    assert_eq!(verdicts(&Value::Null), ("Progressing", "InProgress"));
    let seen = observed(&subscription(&Value::Null), &facts, now());
    // Argo CD takes what is not resolved yet for healthy; that is its rule, with upstream as with us.
    assert_eq!(verdicts(&seen), ("Healthy", "InProgress"));
    let failed = resolved(&subscription(&seen), &Resolution::Failed { unsatisfiable: true, message: "no" }, now());
    assert_eq!(verdicts(&failed), ("Degraded", "Failed"));
    let unpacking = resolved(&subscription(&seen), &Resolution::UnpackFailed { reason: "BundleUnpackFailed", message: "no" }, now());
    assert_eq!(verdicts(&unpacking).1, "Failed");
    let made = plan("RequiresApproval");
    let planned = resolved(&subscription(&seen), &Resolution::Planned { plan: &made, generation: 1, csv: "p.v1" }, now());
    let waits = observed(&subscription(&planned), &Facts { install_plan: Some(&made), ..facts }, now());
    assert_eq!(verdicts(&waits), ("Progressing", "InProgress"));
    let stopped = plan("Failed");
    let stopped = observed(&subscription(&waits), &Facts { install_plan: Some(&stopped), ..facts }, now());
    assert_eq!(verdicts(&stopped), ("Degraded", "Failed"));
    let complete = plan("Complete");
    let done = observed(&subscription(&waits), &Facts { install_plan: Some(&complete), current_csv_exists: true, ..facts }, now());
    let done = resolved(&subscription(&done), &Resolution::Current, now());
    assert_eq!(verdicts(&done), ("Healthy", "Current"), "{done:#}");
    // A plan that was carried out and cleaned up is not missed; a catalog that goes is told.
    let collected = observed(&subscription(&done), &Facts { current_csv_exists: true, ..facts }, now());
    assert_eq!(verdicts(&collected), ("Healthy", "Current"));
    let dark =
        observed(&subscription(&done), &Facts { catalogs: &bad, install_plan: Some(&complete), current_csv_exists: true, ..facts }, now());
    assert_eq!(verdicts(&dark), ("Degraded", "Failed"));
}

/// A CSV in every phase; a copy counts as what it was copied from.
#[test]
fn csvs() {
    let of = |phase: Phase, reason: Reason| {
        let status = next_status(&Value::Null, &Transition::new(phase, reason, "told"), now());
        flux(&json!({"kind": "ClusterServiceVersion", "metadata": {"name": "c"}, "spec": {}, "status": status}))
    };
    assert_eq!(flux(&json!({"kind": "ClusterServiceVersion", "metadata": {"name": "c"}, "spec": {}})), "InProgress");
    for (phase, reason, verdict) in [
        (Phase::Pending, Reason::RequirementsNotMet, "InProgress"),
        (Phase::InstallReady, Reason::AllRequirementsMet, "InProgress"),
        (Phase::Installing, Reason::InstallWaiting, "InProgress"),
        (Phase::Succeeded, Reason::InstallSucceeded, "Current"),
        (Phase::Succeeded, Reason::Copied, "Current"),
        (Phase::Failed, Reason::ComponentUnhealthy, "Failed"),
        (Phase::Replacing, Reason::BeingReplaced, "InProgress"),
    ] {
        assert_eq!(of(phase, reason), verdict, "{phase} {reason:?}");
    }
}
