//! The status of a ClusterVersion.
#![allow(clippy::unwrap_used)]

use mainstay_api::condition::Status;
use mainstay_api::config_v1::{Architecture, CapabilitiesStatus, Capability, ClusterVersionStatus, Release};
use mainstay_cluster_version_core::error::{Effect, UpdateError, WaitingSince};
use mainstay_cluster_version_core::health::OperatorProblem;
use mainstay_cluster_version_core::load::{EventType, Load, Step};
use mainstay_cluster_version_core::release::Known;
use mainstay_cluster_version_core::status::{Facts, Recreated, Work, Write, update, update_failed, write, write_after_conflict};
use mainstay_cluster_version_core::wanted::Wanted;
use mainstay_schema::field;

use crate::support::{condition, degraded, minutes, operators, said, start, unavailable, updating};

fn own() -> Release {
    Release { version: "4.19.1".into(), image: "r@sha256:01".into(), channels: vec!["fast-4.19".into()], ..Release::default() }
}

fn work() -> Work {
    Work { actual: Release { channels: Vec::new(), ..own() }, ..Work::default() }
}

fn invalid(count: usize) -> Vec<field::Error> {
    let path = field::Path::new("spec").child("clusterID");
    (0..count).map(|index| field::Error::invalid(&path, index.to_string(), "must be a version-4 UUID")).collect()
}

/// The status after one look, with waits that began at the beginning and `at` minutes later.
fn after(before: &ClusterVersionStatus, work: &Work, invalid: &[field::Error], at: i64) -> ClusterVersionStatus {
    let own = own();
    let mut since = WaitingSince::default();
    for name in ["a", "b"] {
        since.begin(name, start());
    }
    let facts = Facts { own: &own, known: Known::default(), invalid, since: &since, shows_architecture: false };
    let mut status = before.clone();
    update(&mut status, work, &facts, minutes(at));
    status
}

/// CVO-COND-01, CVO-COND-03, CVO-COND-04, CVO-COND-05: every combination of state, error and validity.
#[test]
fn progressing_and_failing() {
    let check = |work: Work, errors: usize, at: i64, progressing: &str, failing: &str| {
        let status = after(&ClusterVersionStatus::default(), &work, &invalid(errors), at);
        assert_eq!(said(&status.conditions, "Progressing"), progressing);
        assert_eq!(said(&status.conditions, "Failing"), failing);
    };
    let fine = "False : ";
    let reconciling = || Work { reconciling: true, completed: 1, done: 9, total: 9, ..work() };
    let some = || Work { done: 29, total: 100, ..work() };
    let with = |work: Work, failure: UpdateError| Work { failure: Some(failure), ..work };

    // Nothing is wrong.
    check(work(), 0, 1, "True : Working towards 4.19.1", fine);
    check(some(), 0, 1, "True : Working towards 4.19.1: 29 of 100 done (29% complete)", fine);
    check(reconciling(), 0, 1, "False : Cluster version is 4.19.1", fine);
    check(Work { done: 999, total: 1000, ..work() }, 0, 1, "True : Working towards 4.19.1: 999 of 1000 done (99% complete)", fine);
    // The spec is wrong.
    check(work(), 1, 1, "True InvalidClusterVersion: Reconciling 4.19.1: the cluster version is invalid", fine);
    check(some(), 1, 1, "True InvalidClusterVersion: Reconciling 4.19.1: the cluster version is invalid", fine);
    check(reconciling(), 1, 1, "False InvalidClusterVersion: Stopped at 4.19.1: the cluster version is invalid", fine);
    // Operators are waited for.
    check(with(work(), updating(&["a", "b"])), 0, 1, "True ClusterOperatorsUpdating: Working towards 4.19.1: waiting on a, b", fine);
    check(
        with(some(), updating(&["a"])),
        0,
        1,
        "True ClusterOperatorUpdating: Working towards 4.19.1: 29 of 100 done (29% complete), waiting on a",
        fine,
    );
    check(
        with(some(), updating(&["a"])),
        0,
        31,
        "True ClusterOperatorUpdating: Working towards 4.19.1: 29 of 100 done (29% complete), waiting on a over 30 minutes which is longer than \
         expected",
        "Unknown SlowClusterOperator: waiting on a over 30 minutes which is longer than expected",
    );
    check(
        with(work(), degraded(&["a"])),
        0,
        40,
        "True ClusterOperatorDegraded: Working towards 4.19.1: waiting up to 40 minutes on a",
        fine,
    );
    check(with(some(), updating(&["a"])), 1, 1, "True InvalidClusterVersion: Reconciling 4.19.1: the cluster version is invalid", fine);
    // They were waited for long enough.
    check(
        with(some(), degraded(&["a"])),
        0,
        41,
        "True ClusterOperatorDegraded: Unable to apply 4.19.1: wait has exceeded 40 minutes for these operators: a",
        "True ClusterOperatorDegraded: Cluster operator a is degraded",
    );
    // Failures count at once; while the release is kept, every error does.
    check(
        with(some(), unavailable(&["a"])),
        0,
        1,
        "True ClusterOperatorNotAvailable: Unable to apply 4.19.1: the cluster operator a is not available",
        "True ClusterOperatorNotAvailable: Cluster operator a is not available",
    );
    check(
        with(reconciling(), updating(&["a"])),
        0,
        1,
        "False ClusterOperatorUpdating: Error while reconciling 4.19.1: a has an unknown error: ClusterOperatorUpdating",
        "True ClusterOperatorUpdating: Cluster operator a is updating versions",
    );
    check(
        with(reconciling(), degraded(&["a"])),
        1,
        1,
        "False ClusterOperatorDegraded: Error while reconciling 4.19.1: the cluster operator a is degraded",
        "True ClusterOperatorDegraded: Cluster operator a is degraded",
    );
    check(
        with(some(), operators(OperatorProblem::Degraded, Effect::Report, &["a"])),
        0,
        1,
        "True ClusterOperatorDegraded: Unable to apply 4.19.1: Cluster operator a is degraded",
        "True ClusterOperatorDegraded: Cluster operator a is degraded",
    );
    check(
        with(work(), UpdateError::DeadlineExceeded),
        0,
        1,
        "True : Unable to apply 4.19.1: an error occurred",
        "True : context deadline exceeded",
    );
    // Of several, those that only wait are left out of Failing.
    check(
        with(some(), UpdateError::Several(vec![updating(&["b"]), degraded(&["a"])])),
        0,
        1,
        "True MultipleErrors: Unable to apply 4.19.1: an unknown error has occurred: MultipleErrors",
        "True ClusterOperatorDegraded: Cluster operator a is degraded",
    );
    check(
        with(some(), UpdateError::Several(vec![updating(&["b"]), updating(&["a"])])),
        0,
        1,
        "True MultipleErrors: Unable to apply 4.19.1: an unknown error has occurred: MultipleErrors",
        fine,
    );
    // The version is not known, or nothing at all.
    let by_image = Work { actual: Release { image: "r@sha256:09".into(), ..Release::default() }, ..work() };
    check(by_image, 0, 1, "True : Working towards r@sha256:09", fine);
}

/// CVO-API-13: an operator without a release does nothing but say so.
#[test]
fn no_release() {
    let nothing = Work { failure: Some(UpdateError::NoDesiredImage), ..Work::default() };
    let own = Release::default();
    let since = WaitingSince::default();
    let facts = Facts { own: &own, known: Known::default(), invalid: &[], since: &since, shows_architecture: false };
    let mut status = ClusterVersionStatus::default();
    update(&mut status, &nothing, &facts, start());
    let message = "No configured operator version, unable to update cluster";
    assert_eq!(said(&status.conditions, "Failing"), format!("True NoDesiredImage: {message}"));
    assert_eq!(
        said(&status.conditions, "Progressing"),
        "True NoDesiredImage: Unable to apply <unknown>: an unknown error has occurred: NoDesiredImage"
    );
    assert!(status.history.is_empty() && status.desired == Release::default(), "CVO-HIST-05");
}

/// CVO-COND-01, CVO-API-07: the other conditions, and their times.
#[test]
fn other_conditions() {
    let first = after(&ClusterVersionStatus::default(), &work(), &[], 0);
    assert_eq!(said(&first.conditions, "Available"), "False : ");
    assert_eq!(said(&first.conditions, "RetrievedUpdates"), "False : ");
    assert_eq!(said(&first.conditions, "ImplicitlyEnabledCapabilities"), "False AsExpected: Capabilities match configured spec");
    assert_eq!(said(&first.conditions, "ReleaseAccepted"), "absent");
    assert_eq!(said(&first.conditions, "Invalid"), "absent");
    assert_eq!(first.desired.channels, ["fast-4.19"], "CVO-USC-13");

    let mut before = first.clone();
    before.conditions.push(condition("ImplicitlyEnabled", Status::True, "", ""));
    let capability = |name: &str| Capability(name.into());
    let more = Work {
        completed: 1,
        generation: 3,
        version_hash: "h".into(),
        implicitly_enabled: vec![capability("Storage"), capability("Console")],
        capabilities: CapabilitiesStatus { enabled_capabilities: vec![capability("Console")], known_capabilities: Vec::new() },
        ..work()
    };
    let second = after(&before, &more, &invalid(2), 5);
    assert_eq!(said(&second.conditions, "Available"), "True : Done applying 4.19.1");
    assert_eq!(
        said(&second.conditions, "ImplicitlyEnabledCapabilities"),
        "True CapabilitiesImplicitlyEnabled: The following capabilities could not be disabled: Console, Storage",
        "CVO-CAP-04"
    );
    assert_eq!(said(&second.conditions, "ImplicitlyEnabled"), "absent");
    assert_eq!(
        said(&second.conditions, "Invalid"),
        "True InvalidClusterVersion: The cluster version is invalid:\n* spec.clusterID: Invalid value: \"0\": must be a version-4 UUID\n\
         * spec.clusterID: Invalid value: \"1\": must be a version-4 UUID\n"
    );
    let one = after(&second, &more, &invalid(1), 6);
    assert_eq!(
        said(&one.conditions, "Invalid"),
        "True InvalidClusterVersion: The cluster version is invalid: spec.clusterID: Invalid value: \"0\": must be a version-4 UUID"
    );
    assert_eq!((second.observed_generation, second.version_hash.as_str()), (3, "h"));
    assert_eq!(second.capabilities.enabled_capabilities, [capability("Console")]);
    // Available stays; times move with the status alone.
    let third = after(&one, &Work { version_hash: String::new(), ..work() }, &[], 9);
    assert_eq!(said(&third.conditions, "Available"), "True : Done applying 4.19.1");
    assert_eq!(said(&third.conditions, "Invalid"), "absent");
    assert_eq!(third.version_hash, "h");
    let since = |kind: &str| third.conditions.iter().find(|one| one.kind == kind).unwrap().last_transition_time.clone().unwrap().0;
    assert_eq!((since("Available"), since("Progressing")), (minutes(5), minutes(0)));
}

/// CVO-COND-06, CVO-COND-07: the steps of loading, as a condition and as events.
#[test]
fn loading() {
    let load = |step: Step| Load {
        wanted: Wanted { version: "4.19.2".into(), image: "i".into(), force: false },
        step: Some(step),
        ..Load::default()
    };
    let check = |step: Step, condition: Option<&str>, kind: EventType, event: &str| {
        let load = load(step);
        let found = load.condition().map(|said| format!("{:?} {}: {}", said.status, said.reason, said.message));
        assert_eq!(found.as_deref(), condition);
        let found = load.event().unwrap();
        assert_eq!((found.kind, format!("{}: {}", found.reason, found.message)), (kind, event.to_owned()));
    };
    let cause = || "first\nsecond".to_owned();
    let (normal, warning) = (EventType::Normal, EventType::Warning);
    let subject = "version=\"4.19.2\" image=\"i\"";
    let text = |before: &str, after: &str| format!("{before} {subject}{after}");
    check(
        Step::Retrieving,
        Some(&text("Unknown RetrievePayload: Retrieving and verifying payload", "")),
        normal,
        &text("RetrievePayload: Retrieving and verifying payload", ""),
    );
    check(
        Step::NotRetrieved { cause: cause() },
        Some(&text("False RetrievePayload: Retrieving payload failed", " failure=first\nsecond")),
        warning,
        &text("RetrievePayloadFailed: Retrieving payload failed", " failure=first // second"),
    );
    check(Step::Unverified { risk: "forced".into() }, None, warning, "RetrievePayload: forced");
    check(Step::Loading, None, normal, &text("LoadPayload: Loading payload", ""));
    check(
        Step::NotLoaded { cause: "c".into() },
        Some(&text("False LoadPayload: Loading payload failed", " failure=c")),
        warning,
        &text("LoadPayloadFailed: Loading payload failed", " failure=c"),
    );
    let other = " failure=release image version 4.19.3 does not match the expected upstream version 4.19.2";
    check(
        Step::OtherVersion { found: "4.19.3".into() },
        Some(&text("False VerifyPayloadVersion: Verifying payload failed", other)),
        warning,
        &text("VerifyPayloadVersionFailed: Verifying payload failed", other),
    );
    check(
        Step::Blocked { summary: "s".into() },
        Some(&text("False PreconditionChecks: Preconditions failed for payload loaded", ": s")),
        warning,
        &text("PreconditionBlock: Preconditions failed for payload loaded", ": s"),
    );
    check(Step::Warned { summary: "s".into() }, None, warning, &text("PreconditionWarn: precondition warning for payload loaded", ": s"));
    check(Step::Passed, None, normal, &text("PreconditionsPassed: preconditions passed for payload loaded", ""));
    check(
        Step::Loaded { architecture: Some("amd64".into()) },
        Some(&text("True PayloadLoaded: Payload loaded", " architecture=\"amd64\"")),
        normal,
        &text("PayloadLoaded: Payload loaded", " architecture=\"amd64\""),
    );
    check(
        Step::Loaded { architecture: None },
        Some(&text("True PayloadLoaded: Payload loaded", "")),
        normal,
        &text("PayloadLoaded: Payload loaded", ""),
    );
    assert_eq!(Load::default().condition(), None);
    assert!(load(Step::Blocked { summary: String::new() }).has_failed() && !load(Step::Retrieving).has_failed());

    // What is risked is noted with the release that it is about.
    let mut accepted = load(Step::Loaded { architecture: None });
    accepted.accept("forced");
    accepted.accept("warned");
    let other = after(&ClusterVersionStatus::default(), &Work { load: accepted.clone(), ..work() }, &[], 0);
    assert_eq!(other.history[0].accepted_risks, "");
    let actual = Release { version: "4.19.2".into(), image: "i".into(), architecture: Some(Architecture::Multi), ..Release::default() };
    let same = after(&other, &Work { load: accepted, actual, ..work() }, &[], 1);
    assert_eq!(same.history[0].accepted_risks, "forced\nwarned", "CVO-HIST-04, CVO-PRE-02");
    assert_eq!(same.desired.architecture, None);
}

/// CVO-COND-08: the status says that it cannot be brought up to date.
#[test]
fn failures_of_the_status_itself() {
    let before = after(&ClusterVersionStatus::default(), &Work { completed: 1, ..work() }, &[], 0);
    let mut status = before.clone();
    update_failed(&mut status, &Recreated, &own(), Known::default(), minutes(3));
    let error = "cluster version was deleted and recreated, cannot update status";
    assert_eq!(said(&status.conditions, "Available"), "False : ");
    assert_eq!(said(&status.conditions, "Failing"), format!("True : {error}"));
    assert_eq!(said(&status.conditions, "Progressing"), format!("True : Error ensuring the cluster version is up to date: {error}"));
    let mut status = after(&before, &Work { completed: 2, reconciling: true, ..work() }, &[], 1);
    update_failed(&mut status, &Recreated, &own(), Known::default(), minutes(3));
    assert!(said(&status.conditions, "Progressing").starts_with("False : Error ensuring"));
}

/// CVO-COND-09: what is the same is not written; another object's status neither.
#[test]
fn writing() {
    let one = after(&ClusterVersionStatus::default(), &work(), &[], 0);
    let other = after(&one, &Work { done: 3, total: 9, ..work() }, &[], 1);
    assert_eq!((write(&one, &one), write(&one, &other)), (Write::Nothing, Write::Status));
    assert_eq!(write_after_conflict("u", "u", &one, &other), Ok(Write::Status));
    assert_eq!(write_after_conflict("u", "u", &other, &other), Ok(Write::Nothing));
    assert_eq!(write_after_conflict("u", "v", &one, &other), Err(Recreated));
}
