//! The health of applied objects (CVO-HEALTH-01 to CVO-HEALTH-04).

use std::fmt;

use mainstay_api::condition::Status;
use mainstay_api::config_v1::{ClusterOperator, StatusCondition};
use serde_json::Value;

use crate::Mode;
use crate::conditions::{self, text};
use crate::error::{Effect, UpdateError};

/// The condition that a cluster operator does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorProblem {
    /// Its manifest says no versions.
    NoVersions,
    /// It does not work.
    NotAvailable,
    /// It works worse than it should.
    Degraded,
    /// Not every operand has its version.
    Updating,
}

impl OperatorProblem {
    /// The reason, for one operator or for several.
    pub fn reason(self, several: bool) -> &'static str {
        match (self, several) {
            (Self::NoVersions, false) => "ClusterOperatorNoVersions",
            (Self::NoVersions, true) => "ClusterOperatorsNoVersions",
            (Self::NotAvailable, false) => "ClusterOperatorNotAvailable",
            (Self::NotAvailable, true) => "ClusterOperatorsNotAvailable",
            (Self::Degraded, false) => "ClusterOperatorDegraded",
            (Self::Degraded, true) => "ClusterOperatorsDegraded",
            (Self::Updating, false) => "ClusterOperatorUpdating",
            (Self::Updating, true) => "ClusterOperatorsUpdating",
        }
    }

    /// The message for these operators.
    pub(crate) fn message(self, names: &[String]) -> String {
        let several = names.len() > 1;
        let says = match (self, several) {
            (Self::NoVersions, false) => "does not declare expected versions",
            (Self::NoVersions, true) => "do not declare expected versions",
            (Self::NotAvailable, false) => "is not available",
            (Self::NotAvailable, true) => "are not available",
            (Self::Degraded, false) => "is degraded",
            (Self::Degraded, true) => "are degraded",
            (Self::Updating, false) => "is updating versions",
            (Self::Updating, true) => "are updating versions",
        };
        format!("Cluster operator{} {} {says}", if several { "s" } else { "" }, names.join(", "))
    }

    /// The short form for these operators.
    pub(crate) fn summary(self, names: &[String]) -> String {
        let name = names.join(", ");
        match (self, names.len() > 1) {
            (Self::NoVersions, false) => format!("the cluster operator {name} does not declare expected versions"),
            (Self::NotAvailable, false) => format!("the cluster operator {name} is not available"),
            (Self::NotAvailable, true) => "some cluster operators are not available".to_owned(),
            (Self::Degraded, false) => format!("the cluster operator {name} is degraded"),
            (_, several) => format!("{name} has an unknown error: {}", self.reason(several)),
        }
    }
}

/// The obstacle to the rollout of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadProblem {
    /// Pods cannot be made.
    ReplicaFailure {
        /// `NAMESPACE/NAME`.
        deployment: String,
        /// The condition's reason.
        reason: String,
        /// The condition's message.
        message: String,
    },
    /// It does not work, and nothing goes on.
    NotAvailable {
        /// `NAMESPACE/NAME`.
        deployment: String,
        /// Reason and message of condition Available.
        available: (String, String),
        /// Reason and message of condition Progressing.
        progressing: (String, String),
    },
    /// It has taken too long.
    DeadlineExceeded {
        /// `NAMESPACE/NAME`.
        deployment: String,
        /// The condition's message.
        message: String,
    },
}

impl WorkloadProblem {
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::ReplicaFailure { .. } | Self::DeadlineExceeded { .. } => "WorkloadNotProgressing",
            Self::NotAvailable { .. } => "WorkloadNotAvailable",
        }
    }

    pub(crate) fn summary(&self, name: &str) -> String {
        match self {
            Self::ReplicaFailure { .. } | Self::DeadlineExceeded { .. } => format!("the workload {name} cannot roll out"),
            Self::NotAvailable { .. } => format!("the workload {name} has not yet successfully rolled out"),
        }
    }
}

impl fmt::Display for WorkloadProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReplicaFailure { deployment, reason, message } => {
                write!(out, "deployment {deployment} has a replica failure {reason}: {message}")
            }
            Self::NotAvailable { deployment, available: (reason, message), progressing: (why, said) } => {
                write!(out, "deployment {deployment} is not available {reason} ({message}) or progressing {why} ({said})")
            }
            Self::DeadlineExceeded { deployment, message } => {
                write!(out, "deployment {deployment} is Progressing=False: {PROGRESS_DEADLINE}: {message}")
            }
        }
    }
}

/// Why an applied object is not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unhealthy {
    /// It is not tried again within its task.
    Update {
        /// The error.
        error: Box<UpdateError>,
        /// The words of the object itself, for logs and explanations.
        detail: String,
    },
    /// It is tried again; when it stays, the manifest counts as not applied.
    Object(ObjectProblem),
}

/// The faults of the object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectProblem {
    /// It is going away.
    #[error("{kind} {name} is being deleted")]
    Deleted {
        /// `deployment` or `daemonset`.
        kind: &'static str,
        /// `NAMESPACE/NAME`.
        name: String,
    },
    /// A Job has failed.
    #[error("deadline exceeded, reason: {}, message: {}", mainstay_golang::quote(.reason), mainstay_golang::quote(.message))]
    JobFailed {
        /// Why, for programs.
        reason: String,
        /// Why, for people.
        message: String,
    },
    /// A definition's kind is not served.
    #[error("CustomResourceDefinition {name} Established={status}, {reason}: {message}")]
    NotEstablished {
        /// Its name.
        name: String,
        /// The condition's status.
        status: String,
        /// The condition's reason.
        reason: String,
        /// The condition's message.
        message: String,
    },
    /// A definition does not say whether its kind is served.
    #[error("CustomResourceDefinition {name} does not declare an Established status condition: {conditions}")]
    NoEstablished {
        /// Its name.
        name: String,
        /// The conditions that it has.
        conditions: String,
    },
}

const PROGRESS_DEADLINE: &str = "ProgressDeadlineExceeded";
const JOB_DEADLINE: &str = "DeadlineExceeded";

/// Checks that a cluster operator is as its manifest expects (CVO-HEALTH-01, CVO-HEALTH-02).
pub fn cluster_operator(expected: &ClusterOperator, live: &ClusterOperator, mode: Mode) -> Result<(), Unhealthy> {
    let name = expected.metadata.name.clone().unwrap_or_default();
    let fail = |problem, effect, detail| {
        Err(Unhealthy::Update { error: Box::new(UpdateError::Operators { problem, names: vec![name.clone()], effect }), detail })
    };
    let expected = &expected.status.versions;
    if expected.is_empty() {
        return fail(OperatorProblem::NoVersions, Effect::Fail, String::new());
    }
    let mut undone: Vec<String> = expected
        .iter()
        .filter_map(|wanted| {
            let current = live.status.versions.iter().find(|version| version.name == wanted.name);
            match current.map(|version| version.version.as_str()).unwrap_or_default() {
                current if current == wanted.version => None,
                "" => Some(format!("{} to {}", wanted.name, wanted.version)),
                current => Some(format!("{} from {current} to {}", wanted.name, wanted.version)),
            }
        })
        .collect();
    undone.sort();
    let condition = |kind| conditions::find(&live.status.conditions, kind);
    let (available, degraded) = (condition("Available"), condition("Degraded"));
    let is = |condition: Option<&StatusCondition>, status| condition.is_some_and(|condition| condition.status == status);
    let is_available = is(available, Status::True);
    let is_degraded = !is(degraded, Status::False);
    let told = |found: Option<&StatusCondition>, between: &str| match found.filter(|found| !found.message.is_empty()) {
        Some(StatusCondition { kind, status, reason, message, .. }) => {
            format!("cluster operator {name} is {kind}={}: {reason}{between}{message}", text(*status))
        }
        None => format!(
            "cluster operator {name}: available={is_available}, progressing={}, degraded={is_degraded}, undone={}",
            !is(condition("Progressing"), Status::False),
            undone.join(", ")
        ),
    };
    if !is_available {
        return fail(OperatorProblem::NotAvailable, Effect::Fail, told(available, ": "));
    }
    if is_degraded {
        let effect = if mode == Mode::Initializing { Effect::Report } else { Effect::FailAfterInterval };
        return fail(OperatorProblem::Degraded, effect, told(degraded, ", "));
    }
    if !undone.is_empty() && mode != Mode::Initializing {
        let detail = format!(
            "cluster operator {name} is available and not degraded but has not finished updating to target version: {}",
            undone.join(", ")
        );
        return fail(OperatorProblem::Updating, Effect::None, detail);
    }
    Ok(())
}

/// Checks that an applied object of any other kind is as it should be (CVO-HEALTH-04). While a cluster is being installed nothing is looked at.
pub fn object(live: &Value, mode: Mode) -> Result<(), Unhealthy> {
    if mode == Mode::Initializing {
        return Ok(());
    }
    match (live["apiVersion"].as_str(), live["kind"].as_str()) {
        (Some("apps/v1"), Some("Deployment")) => deployment(live),
        (Some("apps/v1"), Some("DaemonSet")) => not_deleted("daemonset", live),
        (Some("batch/v1"), Some("Job")) => job(live),
        (Some("apiextensions.k8s.io/v1"), Some("CustomResourceDefinition")) => definition(live),
        _ => Ok(()),
    }
}

fn string(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn name(live: &Value) -> String {
    format!("{}/{}", string(&live["metadata"], "namespace"), string(&live["metadata"], "name"))
}

fn condition<'a>(live: &'a Value, kind: &str) -> Option<&'a Value> {
    live["status"]["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == kind)
}

fn not_deleted(kind: &'static str, live: &Value) -> Result<(), Unhealthy> {
    if live["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    Err(Unhealthy::Object(ObjectProblem::Deleted { kind, name: name(live) }))
}

fn deployment(live: &Value) -> Result<(), Unhealthy> {
    not_deleted("deployment", live)?;
    let deployment = name(live);
    let count = |field: &str| live["status"][field].as_i64().unwrap_or_default();
    let (available, progressing) = (condition(live, "Available"), condition(live, "Progressing"));
    let told = |condition: &Value| (string(condition, "reason"), string(condition, "message"));
    let is_false = |condition: Option<&Value>| condition.is_some_and(|condition| condition["status"] == "False");
    let (problem, detail) = match (condition(live, "ReplicaFailure"), available, progressing) {
        (Some(failure), ..) if failure["status"] == "True" => {
            let (reason, message) = told(failure);
            let detail = format!("deployment {deployment} has some pods failing; unavailable replicas={}", count("unavailableReplicas"));
            (WorkloadProblem::ReplicaFailure { deployment: deployment.clone(), reason, message }, detail)
        }
        (_, Some(available), Some(progressing)) if is_false(Some(available)) && is_false(Some(progressing)) => {
            let detail = format!(
                "deployment {deployment} is not available and not progressing; updated replicas={} of {replicas}, available replicas={} of \
                 {replicas}",
                count("updatedReplicas"),
                count("availableReplicas"),
                replicas = count("replicas")
            );
            let (available, progressing) = (told(available), told(progressing));
            (WorkloadProblem::NotAvailable { deployment: deployment.clone(), available, progressing }, detail)
        }
        (_, _, Some(progressing)) if is_false(Some(progressing)) && progressing["reason"] == PROGRESS_DEADLINE => {
            let problem = WorkloadProblem::DeadlineExceeded { deployment: deployment.clone(), message: string(progressing, "message") };
            let detail = problem.to_string();
            (problem, detail)
        }
        _ => return Ok(()),
    };
    Err(Unhealthy::Update { error: Box::new(UpdateError::Workload { name: deployment, problem }), detail })
}

fn job(live: &Value) -> Result<(), Unhealthy> {
    let count = |field: &str| live["status"][field].as_i64().unwrap_or_default();
    if count("succeeded") > 0 || count("active") != 0 {
        return Ok(());
    }
    let failed = condition(live, "Failed").filter(|condition| condition["status"] == "True");
    let (reason, message) = match failed {
        Some(failed) if count("failed") > 0 || failed["reason"] == JOB_DEADLINE => (string(failed, "reason"), string(failed, "message")),
        None if count("failed") > 0 => (JOB_DEADLINE.to_owned(), "Job was active longer than specified deadline".to_owned()),
        _ => return Ok(()),
    };
    Err(Unhealthy::Object(ObjectProblem::JobFailed { reason, message }))
}

fn definition(live: &Value) -> Result<(), Unhealthy> {
    let name = string(&live["metadata"], "name");
    let problem = match condition(live, "Established") {
        Some(established) if established["status"] == "True" => return Ok(()),
        Some(established) => ObjectProblem::NotEstablished {
            name,
            status: string(established, "status"),
            reason: string(established, "reason"),
            message: string(established, "message"),
        },
        None => {
            let kinds = live["status"]["conditions"].as_array().into_iter().flatten().map(|condition| string(condition, "type"));
            ObjectProblem::NoEstablished { name, conditions: format!("[{}]", kinds.collect::<Vec<_>>().join(" ")) }
        }
    };
    Err(Unhealthy::Object(problem))
}
