//! Errors of applying a release, and what they come to (CVO-ERR-01 to CVO-ERR-06).
//!
//! A task ends with an [`UpdateError`]; [`summarized`] makes one of all that a pass ended with; [`waiting`] says whether it is a failure yet.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::health::{OperatorProblem, WorkloadProblem};

/// The effect of an error on the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// It is told; the pass is complete.
    Report,
    /// None: something is still going on.
    None,
    /// The update fails if it lasts.
    FailAfterInterval,
    /// The update fails.
    Fail,
}

/// An answer of the API server that is no success, by its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFailure {
    /// There is no such object, or there is one already.
    NotFound,
    /// The object was changed meanwhile.
    Conflict,
    /// The server did not answer in time, is not available or answered what it should not.
    Down,
    /// The server has an error of its own.
    Internal,
    /// The object is refused.
    Invalid,
    /// The caller is not known.
    Unauthorized,
    /// The caller may not.
    Forbidden,
    /// The server is asked too much.
    Overloaded,
    /// The kind is not served.
    NoSuchKind,
    /// Anything else.
    Other,
}

impl ApiFailure {
    /// The class of an answer, by its code and reason.
    pub fn of(code: u16, reason: &str) -> Self {
        match (code, reason) {
            (_, "NotFound" | "AlreadyExists") | (404, "") => Self::NotFound,
            (_, "Conflict") | (409, "") => Self::Conflict,
            (_, "Timeout" | "ServiceUnavailable") | (503, "") => Self::Down,
            (_, "InternalError") | (500, "") => Self::Internal,
            (_, "Invalid") | (422, "") => Self::Invalid,
            (_, "Unauthorized") | (401, "") => Self::Unauthorized,
            (_, "Forbidden") | (403, "") => Self::Forbidden,
            (_, "ServerTimeout" | "TooManyRequests") | (429, "") => Self::Overloaded,
            _ => Self::Other,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "UpdatePayloadResourceNotFound",
            Self::Conflict => "UpdatePayloadResourceConflict",
            Self::Down => "UpdatePayloadClusterDown",
            Self::Internal => "UpdatePayloadClusterError",
            Self::Invalid => "UpdatePayloadResourceInvalid",
            Self::Unauthorized => "UpdatePayloadClusterUnauthorized",
            Self::Forbidden => "UpdatePayloadResourceForbidden",
            Self::Overloaded => "UpdatePayloadClusterOverloaded",
            Self::NoSuchKind => "UpdatePayloadResourceTypeMissing",
            Self::Other => "UpdatePayloadFailed",
        }
    }

    fn cause(self) -> Option<&'static str> {
        Some(match self {
            Self::NotFound => "resource may have been deleted",
            Self::Conflict => "someone else is updating this resource",
            Self::Down => "the server is down or not responding",
            Self::Internal => "the server is reporting an internal error",
            Self::Invalid => "the object is invalid, possibly due to local cluster configuration",
            Self::Unauthorized => "could not authenticate to the server",
            Self::Forbidden => "the server has forbidden updates to this resource",
            Self::Overloaded => "the server is overloaded and is not accepting updates",
            Self::NoSuchKind => "the server does not recognize this resource, check extension API servers",
            Self::Other => return None,
        })
    }
}

/// A manifest among all of a release, as it is named in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for cluster-wide kinds.
    pub namespace: String,
    /// Its name, or that of its file.
    pub name: String,
    /// Its place, from 1.
    pub index: usize,
    /// The number of all.
    pub total: usize,
}

impl fmt::Display for Task {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) };
        write!(out, "{} {} ({} of {})", self.kind.to_lowercase(), mainstay_golang::quote(&name), self.index, self.total)
    }
}

/// Why a release is not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// Cluster operators are not as they should be: one, or several with the same problem.
    #[error("{}", .problem.message(.names))]
    Operators {
        /// The condition that they do not meet.
        problem: OperatorProblem,
        /// Their names, sorted.
        names: Vec<String>,
        /// The effect on the update.
        effect: Effect,
    },
    /// A workload does not roll out.
    #[error("{problem}")]
    Workload {
        /// The workload: `NAMESPACE/NAME`.
        name: String,
        /// The fault.
        problem: WorkloadProblem,
    },
    /// A manifest was not applied.
    #[error("Could not update {task}{}", .failure.cause().map(|cause| format!(": {cause}")).unwrap_or_default())]
    Resource {
        /// The manifest.
        task: Task,
        /// The class of the server's answer.
        failure: ApiFailure,
    },
    /// Some manifests were not reached.
    #[error("{nodes} incomplete task nodes, beginning with {first}")]
    Incomplete {
        /// The number of groups of manifests.
        nodes: usize,
        /// The first of them.
        first: Task,
    },
    /// The pass took too long.
    #[error("context deadline exceeded")]
    DeadlineExceeded,
    /// The pass was ended for a newer one.
    #[error("context canceled")]
    Cancelled,
    /// A release is not taken.
    #[error("{0}")]
    Payload(PayloadProblem),
    /// The operator knows no release.
    #[error("No configured operator version, unable to update cluster")]
    NoDesiredImage,
    /// Several of them.
    #[error("{}", several(.0))]
    Several(Vec<UpdateError>),
}

fn several(errors: &[UpdateError]) -> String {
    let mut messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    messages.sort();
    messages.dedup();
    format!("Multiple errors are preventing progress:\n* {}", messages.join("\n* "))
}

impl UpdateError {
    /// Why, for programs; empty for what was cut short.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Operators { problem, names, .. } => problem.reason(names.len() > 1),
            Self::Workload { problem, .. } => problem.reason(),
            Self::Resource { failure, .. } => failure.reason(),
            Self::Incomplete { .. } | Self::DeadlineExceeded | Self::Cancelled => "",
            Self::Payload(problem) => problem.reason(),
            Self::NoDesiredImage => "NoDesiredImage",
            Self::Several(_) => "MultipleErrors",
        }
    }

    /// The effect on the update; an error of no stated effect counts as a failure.
    pub fn effect(&self) -> Option<Effect> {
        match self {
            Self::Operators { effect, .. } => Some(*effect),
            _ => None,
        }
    }

    /// The short form for a person who watches the progress (CVO-ERR-06).
    pub fn summary(&self) -> String {
        match self {
            Self::Operators { problem, names, .. } => problem.summary(names),
            Self::Workload { name, problem } => problem.summary(name),
            Self::Resource { failure, .. } => summary_of(*failure).to_owned(),
            Self::Incomplete { .. } | Self::DeadlineExceeded | Self::Cancelled => "an error occurred".to_owned(),
            Self::Payload(problem) => problem.summary().to_owned(),
            Self::NoDesiredImage | Self::Several(_) => format!("an unknown error has occurred: {}", self.reason()),
        }
    }
}

fn summary_of(failure: ApiFailure) -> &'static str {
    match failure {
        ApiFailure::NotFound | ApiFailure::Conflict => "some resources could not be updated",
        ApiFailure::Down => "the control plane is down or not responding",
        ApiFailure::Internal => "the control plane is reporting an internal error",
        ApiFailure::Overloaded => "the control plane is overloaded and is not accepting updates",
        ApiFailure::Unauthorized => "could not authenticate to the server",
        ApiFailure::Forbidden => "the server is rejecting updates",
        ApiFailure::NoSuchKind => "a required extension is not available to update",
        ApiFailure::Invalid => "some cluster configuration is invalid",
        ApiFailure::Other => "the update could not be applied",
    }
}

/// Why a release is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadProblem {
    /// Its content was not retrieved.
    #[error("Unable to download and prepare the update: {cause}")]
    NotRetrieved {
        /// The cause.
        cause: String,
    },
    /// Its content is not what it should be.
    #[error("Error loading manifests from {folder}: {cause}")]
    Integrity {
        /// Where the content lies.
        folder: String,
        /// The cause.
        cause: String,
    },
    /// Its signature was not verified.
    #[error("The update cannot be verified: {cause}")]
    NotVerified {
        /// The cause.
        cause: String,
    },
    /// Preconditions do not hold.
    #[error("{summary}")]
    Precondition {
        /// Their words.
        summary: String,
    },
}

impl PayloadProblem {
    fn reason(&self) -> &'static str {
        match self {
            Self::NotRetrieved { .. } => "UpdatePayloadRetrievalFailed",
            Self::Integrity { .. } => "UpdatePayloadIntegrity",
            Self::NotVerified { .. } => "ImageVerificationFailed",
            Self::Precondition { .. } => "UpgradePreconditionCheckFailed",
        }
    }

    fn summary(&self) -> &'static str {
        match self {
            Self::NotRetrieved { .. } => "could not download the update",
            Self::Integrity { .. } => "the contents of the update are invalid",
            Self::NotVerified { .. } => "the image may not be safe to use",
            Self::Precondition { .. } => "it may not be safe to apply this update",
        }
    }
}

/// The end of a task that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskFailure {
    /// The pass was ended before or during it.
    Interrupted,
    /// It failed.
    Failed(UpdateError),
}

/// The sum of all failures of a pass (CVO-ERR-03); `None` if the pass was only ended.
pub fn summarized(failures: impl IntoIterator<Item = TaskFailure>) -> Option<UpdateError> {
    let failures = failures.into_iter().filter_map(|failure| match failure {
        TaskFailure::Interrupted => None,
        TaskFailure::Failed(error) => Some(error),
    });
    joined(condensed(failures))
}

/// One error is itself; several are told together.
fn joined(mut errors: Vec<UpdateError>) -> Option<UpdateError> {
    match errors.len() {
        0 | 1 => errors.pop(),
        _ => Some(UpdateError::Several(errors)),
    }
}

/// Cluster operators with the same problem become one error; they come last, by their reason.
fn condensed(errors: impl Iterator<Item = UpdateError>) -> Vec<UpdateError> {
    let mut others = Vec::new();
    let mut operators: BTreeMap<&'static str, (OperatorProblem, Vec<String>, Effect)> = BTreeMap::new();
    for error in errors {
        match error {
            UpdateError::Operators { problem, names, effect } => {
                let entry = operators.entry(problem.reason(false)).or_insert_with(|| (problem, Vec::new(), effect));
                entry.1.extend(names);
                entry.2 = entry.2.max(effect);
            }
            other => others.push(other),
        }
    }
    others.extend(operators.into_values().map(|(problem, mut names, effect)| {
        names.sort();
        UpdateError::Operators { problem, names, effect }
    }));
    others
}

/// The error without what only waits, for condition Failing (CVO-COND-04).
pub fn without_waiting(error: &UpdateError) -> Option<UpdateError> {
    match error {
        UpdateError::Several(errors) => joined(errors.iter().filter(|error| error.effect() != Some(Effect::None)).cloned().collect()),
        other => Some(other.clone()),
    }
}

/// Since when cluster operators have been waited for (CVO-HEALTH-03).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingSince(BTreeMap<String, Timestamp>);

impl WaitingSince {
    /// A pass begins anew.
    pub fn reset(&mut self) {
        self.0.clear();
    }

    /// An operator is looked at; the first time counts.
    pub fn begin(&mut self, name: &str, now: Timestamp) {
        self.0.entry(name.to_owned()).or_insert(now);
    }

    /// An operator is as it should be.
    pub fn end(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The same operators with other times: where time is played faster than it passes.
    #[must_use]
    pub fn mapped(&self, time: impl Fn(Timestamp) -> Timestamp) -> Self {
        Self(self.0.iter().map(|(name, since)| (name.clone(), time(*since))).collect())
    }

    fn longer_than(&self, name: &str, limit: Duration, now: Timestamp) -> bool {
        self.0.get(name).is_some_and(|since| now.duration_since(*since).unsigned_abs() > limit && *since < now)
    }
}

/// The time that an operator may take before it is called slow.
const SLOW: Duration = Duration::from_secs(30 * 60);
/// The same for `machine-config`, which updates nodes one after the other.
const SLOW_MACHINE_CONFIG: Duration = Duration::from_secs(90 * 60);
/// The time for which an operator may be degraded before the update fails.
const DEGRADED: Duration = Duration::from_secs(40 * 60);
const MACHINE_CONFIG: &str = "machine-config";

/// The state of an error: waited for, or a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It is a failure; the text says more if there is more to say.
    Failure(Option<Text>),
    /// Operators are waited for.
    Expected(Text),
    /// Operators are waited for longer than is usual.
    Slow(Text),
}

/// The message about operators that are waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// They are on their way.
    On(Vec<String>),
    /// Some take long; `machine_config` if it is among them.
    Slow {
        /// Those that take long, without `machine-config`.
        names: Vec<String>,
        /// True if `machine-config` takes long.
        machine_config: bool,
    },
    /// They are degraded, and may be for some time.
    UpTo(Vec<String>),
    /// They have been degraded for too long.
    Exceeded(Vec<String>),
    /// The error itself.
    Reported(String),
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(names) => write!(out, "waiting on {}", names.join(", ")),
            Self::Slow { names, machine_config: false } => {
                write!(out, "waiting on {} over 30 minutes which is longer than expected", names.join(", "))
            }
            Self::Slow { names, machine_config: true } if names.is_empty() => {
                out.write_str("waiting on machine-config over 90 minutes which is longer than expected")
            }
            Self::Slow { names, machine_config: true } => write!(
                out,
                "waiting on {} over 30 minutes and machine-config over 90 minutes which is longer than expected",
                names.join(", ")
            ),
            Self::UpTo(names) => write!(out, "waiting up to 40 minutes on {}", names.join(", ")),
            Self::Exceeded(names) => write!(out, "wait has exceeded 40 minutes for these operators: {}", names.join(", ")),
            Self::Reported(message) => out.write_str(message),
        }
    }
}

/// Returns whether an error is a failure yet, while a release is being installed or updated to (CVO-ERR-04, CVO-ERR-05).
pub fn waiting(error: &UpdateError, since: &WaitingSince, now: Timestamp) -> Waiting {
    let UpdateError::Operators { names, effect, .. } = error else { return Waiting::Failure(None) };
    match effect {
        Effect::Fail => Waiting::Failure(None),
        Effect::Report => Waiting::Failure(Some(Text::Reported(error.to_string()))),
        Effect::None => {
            let machine_config = names.iter().any(|name| name == MACHINE_CONFIG && since.longer_than(name, SLOW_MACHINE_CONFIG, now));
            let slow = names.iter().filter(|name| *name != MACHINE_CONFIG && since.longer_than(name, SLOW, now));
            let slow: Vec<String> = slow.cloned().collect();
            if slow.is_empty() && !machine_config {
                Waiting::Expected(Text::On(names.clone()))
            } else {
                Waiting::Slow(Text::Slow { names: slow, machine_config })
            }
        }
        Effect::FailAfterInterval => {
            // An operator whose wait has no beginning counts as waited for long.
            let exceeded = names.iter().filter(|name| !since.0.contains_key(*name) || since.longer_than(name, DEGRADED, now));
            let exceeded: Vec<String> = exceeded.cloned().collect();
            if exceeded.is_empty() {
                Waiting::Expected(Text::UpTo(names.clone()))
            } else {
                Waiting::Failure(Some(Text::Exceeded(exceeded)))
            }
        }
    }
}
