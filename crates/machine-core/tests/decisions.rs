//! Rules that hold for any machines.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mainstay_machine_core::condition::{self, Condition, Severity};
use mainstay_machine_core::drain::filter::{Controller, Fate, Obstacle, Pod, Settings, Warning, fate};
use mainstay_machine_core::health_check::check::{HealthCheck, TemplateRef};
use mainstay_machine_core::health_check::external;
use mainstay_machine_core::health_check::plan::{HealthEvent, Refusal, plan};
use mainstay_machine_core::health_check::remediate::{Remediation, remediation};
use mainstay_machine_core::health_check::target::{EXTERNAL_ANNOTATION, Target, TargetNode};
use mainstay_machine_core::hooks::{LifecycleHook, LifecycleHooks};
use mainstay_machine_core::machine::Machine;
use mainstay_machine_core::set::priority::DeletePolicy;
use proptest::prelude::*;
use serde_json::json;

fn now() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

fn hook(name: &str, owner: &str) -> LifecycleHook {
    LifecycleHook { name: name.to_owned(), owner: owner.to_owned() }
}

fn hooks(pre_drain: &[LifecycleHook]) -> LifecycleHooks {
    LifecycleHooks { pre_drain: pre_drain.to_vec(), pre_terminate: Vec::new() }
}

fn said(errors: &[mainstay_schema::field::Error]) -> Vec<String> {
    errors.iter().map(|error| format!("{}: {}", error.field, error.body())).collect()
}

/// MACH-HOOK-02: names and owners that are allowed, and what is said of others.
#[test]
fn names_and_owners_of_hooks() {
    for name in ["Hold", "abc", "MoveLedgerFirst", "example.com/hold-it.1_2", "a/b1c", "A--9"] {
        assert_eq!(said(&hooks(&[hook(name, "clusteroperator/etcd")]).validate()), Vec::<String>::new(), "{name}");
    }
    for name in ["-ab", "ab-", "a b", "Example.com/x", "a./x", "a/b/c", "/abc", "ab/", "ä12"] {
        let found = said(&hooks(&[hook(name, "owner")]).validate());
        assert!(found.iter().any(|text| text.contains("should match")), "{name}: {found:?}");
    }
    let short = said(&hooks(&[hook("ab", "me")]).validate());
    assert_eq!(
        short,
        [
            "spec.lifecycleHooks.preDrain[0].name: Invalid value: \"ab\": spec.lifecycleHooks.preDrain[0].name in body should be at least 3 chars long",
            "spec.lifecycleHooks.preDrain[0].owner: Invalid value: \"me\": spec.lifecycleHooks.preDrain[0].owner in body should be at least 3 chars long",
        ]
    );
    assert_eq!(said(&hooks(&[hook(&"a".repeat(257), &"o".repeat(513))]).validate()).len(), 2);
}

/// MACH-HOOK-03: names are unique within a list.
#[test]
fn hooks_of_one_name() {
    let found = said(&hooks(&[hook("Hold", "one"), hook("Hold", "two")]).validate());
    assert_eq!(found, ["spec.lifecycleHooks.preDrain[1]: Duplicate value: {\"name\":\"Hold\"}"]);
    let both = LifecycleHooks { pre_drain: vec![hook("Hold", "one")], pre_terminate: vec![hook("Hold", "one")] };
    assert!(both.validate().is_empty());
}

/// MACH-HOOK-04: once deletion was asked for, hooks go, and do not come or change.
#[test]
fn hooks_of_a_machine_that_is_deleted() {
    let before = hooks(&[hook("Hold", "one"), hook("Wait", "one")]);
    let refused = |after: &LifecycleHooks| said(&before.validate_change(after, true));
    assert!(refused(&hooks(&[hook("Wait", "one")])).is_empty());
    assert!(refused(&before).is_empty());
    assert_eq!(
        refused(&hooks(&[hook("Hold", "two"), hook("Wait", "one"), hook("More", "one")])),
        [
            "spec.lifecycleHooks.preDrain: Forbidden: pre-drain hooks are immutable when machine is marked for deletion: the following hooks \
             are new or changed: [{Name:Hold Owner:two} {Name:More Owner:one}]"
        ]
    );
    assert!(before.validate_change(&hooks(&[hook("More", "one")]), false).is_empty());
}

/// MACH-API-06, MACH-DEL-04: every machine says whether it may be drained and its instance removed.
#[test]
fn conditions_of_hooks() {
    let [drainable, terminable] = hooks(&[hook("Hold", "one"), hook("Wait", "two")]).conditions();
    assert_eq!(
        (drainable.kind.as_str(), drainable.reason.as_str(), drainable.severity),
        ("Drainable", "HookPresent", Some(Severity::Warning))
    );
    assert_eq!(drainable.message, "Drain operation currently blocked by: [{Name:Hold Owner:one} {Name:Wait Owner:two}]");
    assert_eq!(terminable, Condition::is_true("Terminable", ""));
}

/// MACH-API-04: conditions are sorted by type, and only a change is a new time.
#[test]
fn conditions_keep_their_times() {
    let mut conditions = vec![Condition { changed: Some(Timestamp::UNIX_EPOCH), ..Condition::is_true("Terminable", "") }];
    condition::set(&mut conditions, Condition::is_true("Terminable", ""), now());
    condition::set(&mut conditions, Condition::is_true("Drainable", ""), now());
    let seen: Vec<(&str, Option<Timestamp>)> = conditions.iter().map(|one| (one.kind.as_str(), one.changed)).collect();
    assert_eq!(seen, [("Drainable", Some(now())), ("Terminable", Some(Timestamp::UNIX_EPOCH))]);
    condition::set(&mut conditions, Condition::is_true("Terminable", "other words"), now());
    assert_eq!(conditions[1].changed, Some(now()));
}

/// MACH-DRAIN-01: the order of the rules, one pod each.
#[test]
fn fates_of_pods() {
    let managed = Pod { controller: Some(Controller::Other), ..Pod::default() };
    let daemon = Pod { controller: Some(Controller::DaemonSet("ds".to_owned())), ..Pod::default() };
    let of = |pod: &Pod, settings, exists| fate(pod, settings, now(), |_, _| exists);
    assert_eq!(of(&daemon, Settings::MACHINE, true), Fate::Left(Some(Warning::DaemonSet)));
    assert_eq!(of(&daemon, Settings::PLAIN, true), Fate::Refused(Obstacle::DaemonSet));
    assert_eq!(of(&daemon, Settings::MACHINE, false), Fate::Evicted(None));
    assert_eq!(of(&Pod { finished: true, ..daemon.clone() }, Settings::PLAIN, true), Fate::Evicted(None));
    assert_eq!(of(&Pod { mirror: true, ..managed.clone() }, Settings::PLAIN, true), Fate::Left(None));
    assert_eq!(of(&Pod { local_data: true, ..managed.clone() }, Settings::PLAIN, true), Fate::Refused(Obstacle::LocalData));
    assert_eq!(of(&Pod { local_data: true, ..managed.clone() }, Settings::MACHINE, true), Fate::Evicted(None));
    assert_eq!(of(&Pod::default(), Settings::MACHINE, true), Fate::Evicted(Some(Warning::Unmanaged)));
    let deleted = |seconds| Pod { deleted: Some(now() - SignedDuration::from_secs(seconds)), ..managed.clone() };
    assert_eq!(of(&deleted(2), Settings::UNREACHABLE, true), Fate::Left(None));
    assert_eq!(of(&deleted(1), Settings::UNREACHABLE, true), Fate::Evicted(None));
    assert_eq!(of(&deleted(2), Settings::MACHINE, true), Fate::Evicted(None));
}

fn check(max_unhealthy: &serde_json::Value) -> HealthCheck {
    let object = json!({
        "metadata": {"name": "check", "namespace": "ns"},
        "spec": {"maxUnhealthy": max_unhealthy, "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "5m"}]},
    });
    HealthCheck::of(&object).unwrap()
}

/// MACH-MHC-04: a request is made from the template, named as the machine and owned by it.
#[test]
fn requests_from_a_template() {
    let mut asked = check(&json!("100%"));
    let reference =
        TemplateRef { api_version: "remedy.example.com/v1".to_owned(), kind: "RebootTemplate".to_owned(), name: "t".to_owned() };
    asked.template = Some(reference.clone());
    let machine = Machine { name: "m".to_owned(), namespace: "ns".to_owned(), uid: "u".to_owned(), ..Machine::default() };
    assert_eq!(remediation(&Target { machine: &machine, node: TargetNode::None }, &asked), Remediation::Request);
    assert_eq!(reference.request_kind(), "Reboot");
    let template = json!({
        "apiVersion": "remedy.example.com/v1", "kind": "RebootTemplate", "metadata": {"name": "t"},
        "spec": {"template": {"metadata": {"uid": "x", "labels": {"a": "b"}}, "spec": {"strategy": "off-and-on"}}},
    });
    assert_eq!(
        external::request(&template, &reference, &machine).unwrap(),
        json!({
            "apiVersion": "remedy.example.com/v1", "kind": "Reboot", "spec": {"strategy": "off-and-on"},
            "metadata": {
                "name": "m", "namespace": "ns", "labels": {"a": "b"},
                "annotations": {"machine.openshift.io/cloned-from-name": "t", "machine.openshift.io/cloned-from-groupkind": "RebootTemplate.remedy.example.com"},
                "ownerReferences": [{"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m", "uid": "u"}],
            },
        })
    );
    let missing = external::request(&json!({"apiVersion": "a/v1", "kind": "T", "metadata": {"name": "t"}}), &reference, &machine);
    assert_eq!(missing.unwrap_err().to_string(), "missing Spec.Template on a/v1, Kind=T \"t\"");
}

/// MACH-MHC-03: a limit that cannot be read stops everything, in words that name it.
#[test]
fn limits_that_cannot_be_read() {
    let machine = Machine { phase: Some("Failed".to_owned()), controller: Some("set".to_owned()), ..Machine::default() };
    let targets = vec![Target { machine: &machine, node: TargetNode::None }];
    let (_, refused) = plan(&check(&json!("two")), targets, now());
    assert!(matches!(refused, Err(Refusal::MaxUnhealthy(_))), "{refused:?}");
    let bad = json!({"spec": {"unhealthyConditions": [{"timeout": "5 minutes"}]}});
    assert!(HealthCheck::of(&bad).unwrap_err().to_string().starts_with("spec.unhealthyConditions[0].timeout: time: "));
}

fn any_machine() -> impl Strategy<Value = Machine> {
    let phase = proptest::option::of(prop_oneof!["Running", "Failed", "Deleting"]);
    let annotated = prop_oneof![Just(None), Just(Some("machine.openshift.io/delete-machine")), Just(Some(EXTERNAL_ANNOTATION)),];
    let node = proptest::option::of("[ab]");
    let age = proptest::option::of(-100_000_i64..500_000_000);
    (phase, annotated, node, age, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(phase, annotated, node, age, deleting, controlled, errored)| Machine {
            namespace: "ns".to_owned(),
            annotations: annotated.map(|key| BTreeMap::from([(key.to_owned(), "yes".to_owned())])).unwrap_or_default(),
            created: age.map(|age| now() - SignedDuration::from_secs(age)),
            last_updated: age.map(|age| now() - SignedDuration::from_secs(age / 100_000)),
            deleting,
            controller: controlled.then(|| "set".to_owned()),
            phase,
            node,
            errored,
            ..Machine::default()
        },
    )
}

fn named(mut machines: Vec<Machine>) -> Vec<Machine> {
    for (index, machine) in machines.iter_mut().enumerate() {
        machine.name = format!("m{index:02}");
    }
    machines
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// MACH-SET-03: priorities lie between 0 and 100, what goes is at least as urgent as what stays, and of a dozen machines that are equally
    /// urgent the earlier ones go.
    #[test]
    fn the_most_urgent_go(
        machines in proptest::collection::vec(any_machine(), 0..13).prop_map(named),
        policy in prop_oneof![Just(DeletePolicy::Random), Just(DeletePolicy::Newest), Just(DeletePolicy::Oldest)],
        count in 0_usize..15,
    ) {
        let priority = |machine: &Machine| policy.priority(machine, now());
        let chosen = policy.choose(&machines, count, now());
        prop_assert_eq!(chosen.len(), count.min(machines.len()));
        for machine in &machines {
            prop_assert!((0.0..=100.0).contains(&priority(machine)));
        }
        if count < machines.len() {
            for stays in machines.iter().filter(|machine| !chosen.iter().any(|gone| gone.name == machine.name)) {
                for goes in &chosen {
                    let (goes_by, stays_by) = (priority(goes), priority(stays));
                    let fair = goes_by.total_cmp(&stays_by).then_with(|| stays.name.cmp(&goes.name)) == Ordering::Greater;
                    prop_assert!(fair);
                }
            }
        }
    }

    /// MACH-MHC-03: remediation is allowed exactly as long as no more are unhealthy than may be; else nothing is done but telling.
    #[test]
    fn the_short_circuit(
        machines in proptest::collection::vec(any_machine(), 0..12).prop_map(named),
        limit in prop_oneof![
            (-3_i32..15).prop_map(|number| json!(number)),
            (-50_i64..400).prop_map(|percent| json!(format!("{percent}%"))),
            (-3_i64..15).prop_map(|number| json!(number.to_string())),
        ],
    ) {
        let asked = check(&limit);
        let targets: Vec<Target<'_>> = machines.iter().map(|machine| Target::of(machine, |_| None)).collect();
        let expected = targets.len();
        let (events, planned) = plan(&asked, targets, now());
        let planned = planned.unwrap();
        let unhealthy = (planned.expected - planned.healthy) as i64;
        let most = match asked.max_unhealthy.clone().unwrap().to_string() {
            text if text.ends_with('%') => (text.trim_end_matches('%').parse::<i64>().unwrap() * expected as i64).div_euclid(100),
            text => text.parse().unwrap(),
        };
        prop_assert_eq!(planned.allowed, unhealthy <= most.max(0));
        prop_assert_eq!(i64::from(planned.remediations_allowed), (most.max(0) - unhealthy).max(0));
        if !planned.allowed {
            prop_assert!(planned.remediations.is_empty());
            prop_assert_eq!(planned.requeue, Some(Duration::from_millis(1)));
        }
        let restricted = events.iter().any(|event| matches!(event, HealthEvent::RemediationRestricted(_)));
        prop_assert_eq!(restricted, !planned.allowed);
        for (target, remediation) in &planned.remediations {
            prop_assert!(*remediation != Remediation::Delete || (target.machine.controller.is_some() && !target.machine.deleting));
        }
        prop_assert!(planned.requeue.is_none_or(|wait| wait <= Duration::from_secs(3600)));
    }
}
