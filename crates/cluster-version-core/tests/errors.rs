//! What errors come to.
#![allow(clippy::unwrap_used)]

use mainstay_cluster_version_core::error::{
    ApiFailure, Effect, PayloadProblem, Task, TaskFailure, UpdateError, Waiting, WaitingSince, summarized, waiting, without_waiting,
};
use mainstay_cluster_version_core::health::OperatorProblem;

use crate::support::{degraded, minutes, operators, unavailable, updating};

fn task(namespace: &str) -> Task {
    Task { kind: "ConfigMap".into(), namespace: namespace.into(), name: "demo".into(), index: 7, total: 90 }
}

/// CVO-ERR-02, CVO-ERR-06: each class of answer with its reason, its message and its summary.
#[test]
fn answers_of_the_server() {
    let check = |code: u16, reason: &str, expected: &str| {
        let error = UpdateError::Resource { task: task("ns"), failure: ApiFailure::of(code, reason) };
        assert_eq!(format!("{} | {error} | {}", error.reason(), error.summary()), expected, "{code} {reason}");
        assert_eq!(error.effect(), None);
    };
    let line = |reason: &str, cause: &str, summary: &str| {
        format!("{reason} | Could not update configmap \"ns/demo\" (7 of 90){cause} | {summary}")
    };
    let missing = line("UpdatePayloadResourceNotFound", ": resource may have been deleted", "some resources could not be updated");
    check(404, "NotFound", &missing);
    check(409, "AlreadyExists", &missing);
    let conflict = line("UpdatePayloadResourceConflict", ": someone else is updating this resource", "some resources could not be updated");
    check(409, "Conflict", &conflict);
    let down = line("UpdatePayloadClusterDown", ": the server is down or not responding", "the control plane is down or not responding");
    check(504, "Timeout", &down);
    check(503, "ServiceUnavailable", &down);
    check(503, "", &down);
    check(
        500,
        "InternalError",
        &line(
            "UpdatePayloadClusterError",
            ": the server is reporting an internal error",
            "the control plane is reporting an internal error",
        ),
    );
    check(
        422,
        "Invalid",
        &line(
            "UpdatePayloadResourceInvalid",
            ": the object is invalid, possibly due to local cluster configuration",
            "some cluster configuration is invalid",
        ),
    );
    check(
        401,
        "Unauthorized",
        &line("UpdatePayloadClusterUnauthorized", ": could not authenticate to the server", "could not authenticate to the server"),
    );
    check(
        403,
        "Forbidden",
        &line("UpdatePayloadResourceForbidden", ": the server has forbidden updates to this resource", "the server is rejecting updates"),
    );
    let busy = line(
        "UpdatePayloadClusterOverloaded",
        ": the server is overloaded and is not accepting updates",
        "the control plane is overloaded and is not accepting updates",
    );
    check(500, "ServerTimeout", &busy);
    check(429, "TooManyRequests", &busy);
    check(400, "BadRequest", &line("UpdatePayloadFailed", "", "the update could not be applied"));
    let error = UpdateError::Resource { task: task(""), failure: ApiFailure::NoSuchKind };
    assert_eq!(
        error.to_string(),
        "Could not update configmap \"demo\" (7 of 90): the server does not recognize this resource, check extension API servers"
    );
    assert_eq!(error.summary(), "a required extension is not available to update");
}

/// CVO-ERR-06: the short forms of everything else.
#[test]
fn summaries() {
    let payload = |problem| UpdateError::Payload(problem);
    let cases = [
        (payload(PayloadProblem::NotRetrieved { cause: "c".into() }), "UpdatePayloadRetrievalFailed", "could not download the update"),
        (
            payload(PayloadProblem::Integrity { folder: "d".into(), cause: "c".into() }),
            "UpdatePayloadIntegrity",
            "the contents of the update are invalid",
        ),
        (payload(PayloadProblem::NotVerified { cause: "c".into() }), "ImageVerificationFailed", "the image may not be safe to use"),
        (
            payload(PayloadProblem::Precondition { summary: "s".into() }),
            "UpgradePreconditionCheckFailed",
            "it may not be safe to apply this update",
        ),
        (degraded(&["a"]), "ClusterOperatorDegraded", "the cluster operator a is degraded"),
        (degraded(&["a", "b"]), "ClusterOperatorsDegraded", "a, b has an unknown error: ClusterOperatorsDegraded"),
        (unavailable(&["a"]), "ClusterOperatorNotAvailable", "the cluster operator a is not available"),
        (unavailable(&["a", "b"]), "ClusterOperatorsNotAvailable", "some cluster operators are not available"),
        (
            operators(OperatorProblem::NoVersions, Effect::Fail, &["a"]),
            "ClusterOperatorNoVersions",
            "the cluster operator a does not declare expected versions",
        ),
        (UpdateError::NoDesiredImage, "NoDesiredImage", "an unknown error has occurred: NoDesiredImage"),
        (UpdateError::DeadlineExceeded, "", "an error occurred"),
        (UpdateError::Several(Vec::new()), "MultipleErrors", "an unknown error has occurred: MultipleErrors"),
    ];
    for (error, reason, summary) in cases {
        assert_eq!((error.reason(), error.summary().as_str()), (reason, summary));
    }
    assert_eq!(UpdateError::NoDesiredImage.to_string(), "No configured operator version, unable to update cluster", "CVO-API-13");
}

fn failed(errors: &[UpdateError]) -> Vec<TaskFailure> {
    errors.iter().cloned().map(TaskFailure::Failed).collect()
}

/// CVO-ERR-03, CVO-HEALTH-02: what a pass ended with becomes one error.
#[test]
fn aggregation() {
    let check = |failures: Vec<TaskFailure>, expected: Option<(&str, &str, Option<Effect>)>| {
        let found = summarized(failures);
        let found = found.as_ref().map(|error| (error.reason(), error.to_string(), error.effect()));
        assert_eq!(found, expected.map(|(reason, message, effect)| (reason, message.to_owned(), effect)));
    };
    check(vec![], None);
    check(vec![TaskFailure::Interrupted, TaskFailure::Interrupted], None);
    check(failed(&[updating(&["a"])]), Some(("ClusterOperatorUpdating", "Cluster operator a is updating versions", Some(Effect::None))));
    check(
        failed(&[updating(&["b"]), updating(&["a"])]),
        Some(("ClusterOperatorsUpdating", "Cluster operators a, b are updating versions", Some(Effect::None))),
    );
    check(
        failed(&[unavailable(&["b"]), unavailable(&["a"])]),
        Some(("ClusterOperatorsNotAvailable", "Cluster operators a, b are not available", Some(Effect::Fail))),
    );
    check(
        failed(&[operators(OperatorProblem::Degraded, Effect::Report, &["b"]), degraded(&["a"])]),
        Some(("ClusterOperatorsDegraded", "Cluster operators a, b are degraded", Some(Effect::FailAfterInterval))),
    );
    let nothing = operators(OperatorProblem::NoVersions, Effect::Fail, &["x"]);
    check(
        failed(&[nothing.clone(), operators(OperatorProblem::NoVersions, Effect::Fail, &["w"])]),
        Some(("ClusterOperatorsNoVersions", "Cluster operators w, x do not declare expected versions", Some(Effect::Fail))),
    );
    let down = UpdateError::Resource { task: task("ns"), failure: ApiFailure::Down };
    check(
        failed(&[down.clone(), updating(&["b"]), down.clone(), degraded(&["a"])]).into_iter().chain([TaskFailure::Interrupted]).collect(),
        Some((
            "MultipleErrors",
            "Multiple errors are preventing progress:\n* Cluster operator a is degraded\n* Cluster operator b is updating versions\n\
             * Could not update configmap \"ns/demo\" (7 of 90): the server is down or not responding",
            None,
        )),
    );
    // A pass that took too long tells how far it came.
    check(
        failed(&[UpdateError::Incomplete { nodes: 3, first: task("ns") }, UpdateError::DeadlineExceeded]),
        Some((
            "MultipleErrors",
            "Multiple errors are preventing progress:\n* 3 incomplete task nodes, beginning with configmap \"ns/demo\" (7 of 90)\n\
             * context deadline exceeded",
            None,
        )),
    );
    let several = summarized(failed(&[updating(&["b"]), degraded(&["a"])])).unwrap();
    assert_eq!(without_waiting(&several), Some(degraded(&["a"])), "CVO-COND-04");
    assert_eq!(without_waiting(&UpdateError::Several(vec![updating(&["b"])])), None);
    assert_eq!(without_waiting(&updating(&["b"])), Some(updating(&["b"])));
}

/// CVO-ERR-04, CVO-ERR-05, CVO-HEALTH-03: what is waited for, and for how long.
#[test]
fn time_limits() {
    let mut since = WaitingSince::default();
    for name in ["a", "b", "machine-config"] {
        since.begin(name, minutes(0));
    }
    since.begin("late", minutes(60));
    // The first look counts.
    since.begin("a", minutes(20));
    let check = |error: &UpdateError, at: i64, expected: &str| {
        let found = match waiting(error, &since, minutes(at)) {
            Waiting::Failure(None) => "failure".to_owned(),
            Waiting::Failure(Some(text)) => format!("failure: {text}"),
            Waiting::Expected(text) => format!("expected: {text}"),
            Waiting::Slow(text) => format!("slow: {text}"),
        };
        assert_eq!(found, expected, "{error} after {at} minutes");
    };
    check(&updating(&["a", "b"]), 30, "expected: waiting on a, b");
    check(&updating(&["a", "b"]), 31, "slow: waiting on a, b over 30 minutes which is longer than expected");
    check(&updating(&["a", "late"]), 61, "slow: waiting on a over 30 minutes which is longer than expected");
    check(&updating(&["machine-config"]), 90, "expected: waiting on machine-config");
    check(&updating(&["machine-config"]), 91, "slow: waiting on machine-config over 90 minutes which is longer than expected");
    check(
        &updating(&["a", "machine-config"]),
        91,
        "slow: waiting on a over 30 minutes and machine-config over 90 minutes which is longer than expected",
    );
    check(&updating(&["a", "machine-config"]), 31, "slow: waiting on a over 30 minutes which is longer than expected");
    // An operator that was never looked at is not slow, but its being degraded counts at once.
    check(&updating(&["never"]), 31, "expected: waiting on never");
    check(&degraded(&["a", "b"]), 40, "expected: waiting up to 40 minutes on a, b");
    check(&degraded(&["a", "late"]), 62, "failure: wait has exceeded 40 minutes for these operators: a");
    check(&degraded(&["never"]), 1, "failure: wait has exceeded 40 minutes for these operators: never");
    check(&unavailable(&["a"]), 1, "failure");
    check(&operators(OperatorProblem::Degraded, Effect::Report, &["a"]), 1, "failure: Cluster operator a is degraded");
    check(&UpdateError::NoDesiredImage, 1, "failure");
    check(&UpdateError::Several(vec![updating(&["a"]), updating(&["b"])]), 1, "failure");

    since.end("a");
    since.begin("a", minutes(50));
    let slow = waiting(&updating(&["a"]), &since, minutes(60));
    assert!(matches!(slow, Waiting::Expected(_)));
    since.reset();
    assert_eq!(since, WaitingSince::default());
}
