//! Conditions of ClusterVersions: each type once, its time moves with its status alone (CVO-API-07).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::condition::Status;
use mainstay_api::config_v1::StatusCondition;

/// The content of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Which aspect.
    pub kind: &'static str,
    /// The status.
    pub status: Status,
    /// Why, for programs; may be empty.
    pub reason: String,
    /// Why, for people; may be empty.
    pub message: String,
}

impl Said {
    /// A condition without a reason.
    pub fn new(kind: &'static str, status: Status) -> Self {
        Self { kind, status, reason: String::new(), message: String::new() }
    }

    /// The same with a reason.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// The same with a message.
    #[must_use]
    pub fn saying(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }
}

/// Sets a condition.
pub fn set(conditions: &mut Vec<StatusCondition>, said: Said, now: Timestamp) {
    let Said { kind, status, reason, message } = said;
    if let Some(found) = conditions.iter_mut().find(|condition| condition.kind == kind) {
        if found.status != status {
            found.status = status;
            found.last_transition_time = Some(Time(now));
        }
        found.reason = reason;
        found.message = message;
    } else {
        conditions.push(StatusCondition { kind: kind.to_owned(), status, last_transition_time: Some(Time(now)), reason, message });
    }
}

/// Removes a condition.
pub fn remove(conditions: &mut Vec<StatusCondition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [StatusCondition], kind: &str) -> Option<&'a StatusCondition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// Returns whether a condition is there and has this status.
pub fn is(conditions: &[StatusCondition], kind: &str, status: Status) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == status)
}

/// A status as it is written.
pub fn text(status: Status) -> &'static str {
    match status {
        Status::True => "True",
        Status::False => "False",
        Status::Unknown => "Unknown",
    }
}
