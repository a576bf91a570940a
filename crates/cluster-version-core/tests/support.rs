//! What tests share.
#![allow(clippy::unwrap_used)]

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::condition::Status;
use mainstay_api::config_v1::{ClusterVersion, StatusCondition};
use mainstay_cluster_version_core::error::{Effect, UpdateError};
use mainstay_cluster_version_core::health::OperatorProblem;
use serde_json::{Value, json};

/// The time at which tests begin.
pub fn start() -> Timestamp {
    "2026-01-01T08:00:00Z".parse().unwrap()
}

/// Minutes after the beginning.
pub fn minutes(count: i64) -> Timestamp {
    start().checked_add(SignedDuration::from_mins(count)).unwrap()
}

pub fn condition(kind: &str, status: Status, reason: &str, message: &str) -> StatusCondition {
    StatusCondition {
        kind: kind.to_owned(),
        status,
        last_transition_time: Some(Time(start())),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// A ClusterVersion named version.
pub fn cluster_version(spec: Value, status: Value) -> ClusterVersion {
    serde_json::from_value(json!({"metadata": {"name": "version"}, "spec": spec, "status": status})).unwrap()
}

/// `STATUS REASON: MESSAGE` of a condition.
pub fn said(conditions: &[StatusCondition], kind: &str) -> String {
    conditions
        .iter()
        .find(|condition| condition.kind == kind)
        .map_or_else(|| "absent".to_owned(), |StatusCondition { status, reason, message, .. }| format!("{status:?} {reason}: {message}"))
}

pub fn operators(problem: OperatorProblem, effect: Effect, names: &[&str]) -> UpdateError {
    UpdateError::Operators { problem, effect, names: names.iter().map(|name| (*name).to_owned()).collect() }
}

pub fn updating(names: &[&str]) -> UpdateError {
    operators(OperatorProblem::Updating, Effect::None, names)
}

pub fn degraded(names: &[&str]) -> UpdateError {
    operators(OperatorProblem::Degraded, Effect::FailAfterInterval, names)
}

pub fn unavailable(names: &[&str]) -> UpdateError {
    operators(OperatorProblem::NotAvailable, Effect::Fail, names)
}
