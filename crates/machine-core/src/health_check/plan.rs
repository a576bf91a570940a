//! One reconcile of a MachineHealthCheck: the short circuit, status, events and remediations (MACH-MHC-03, MACH-MHC-04).

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mainstay_objects::{IntOrString, IntOrStringError, PlainText, Rounding};

use super::check::HealthCheck;
use super::remediate::{Remediation, remediation};
use super::target::{Health, Target, TargetName, next};
use crate::condition::{self, Condition, Severity};
use crate::event::EventKind;

/// Condition that says whether unhealthy machines are remediated.
pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
const TOO_MANY_UNHEALTHY: &str = "TooManyUnhealthy";

/// The wait after remediation was restricted.
const RESTRICTED_WAIT: Duration = Duration::from_millis(1);

/// Why nothing is done, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `maxUnhealthy` is no number and no percentage.
    #[error("failed to get value for maxUnhealthy: {0}")]
    MaxUnhealthy(#[from] IntOrStringError),
    /// The selector is invalid.
    #[error("error getting machines from MHC: failed to build selector")]
    Selector,
}

/// The plan of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan<'a> {
    /// The number of machines that the check looks at.
    pub expected: usize,
    /// The number of them that are healthy.
    pub healthy: usize,
    /// The number that may still be remediated.
    pub remediations_allowed: i32,
    /// True if unhealthy machines are remediated.
    pub allowed: bool,
    /// The check's conditions, with RemediationAllowed.
    pub conditions: Vec<Condition>,
    /// The step for each unhealthy machine.
    pub remediations: Vec<(Target<'a>, Remediation)>,
    /// Healthy machines: requests about them are deleted.
    pub recovered: Vec<Target<'a>>,
    /// When to look again; `None` if a change will tell.
    pub requeue: Option<Duration>,
}

/// Returns the number of machines that may be unhealthy: all by default, shares rounded down, a number in quotes taken as one.
///
/// # Errors
/// The limit is no number and no percentage.
pub fn max_unhealthy(limit: Option<&IntOrString>, expected: usize) -> Result<i64, IntOrStringError> {
    let limit = limit.map_or(Ok(expected as i64), |limit| limit.scaled(expected, Rounding::Down, PlainText::Number))?;
    Ok(limit.max(0))
}

/// Chooses the machines that a check looks at.
///
/// # Errors
/// The selector is invalid.
pub fn select<'a>(check: &HealthCheck, targets: Vec<Target<'a>>) -> Result<Vec<Target<'a>>, Refusal> {
    check.selector.validate().map_err(|_| Refusal::Selector)?;
    let is_chosen = |target: &Target<'_>| target.machine.namespace == check.namespace && check.selector.matches(&target.machine.labels);
    Ok(targets.into_iter().filter(is_chosen).collect())
}

/// Plans a reconcile over the machines that the check looks at. Events are told even if nothing is done afterwards.
///
/// # Errors
/// `maxUnhealthy` cannot be read: nothing is remediated, and the status stays.
pub fn plan<'a>(check: &HealthCheck, targets: Vec<Target<'a>>, now: Timestamp) -> (Vec<HealthEvent>, Result<Plan<'a>, Refusal>) {
    let expected = targets.len();
    let (mut events, mut waits) = (Vec::new(), Vec::new());
    let (mut unhealthy, mut healthy) = (Vec::new(), Vec::new());
    for target in targets {
        match target.health(check, now) {
            Health::Unhealthy(_) => unhealthy.push(target),
            Health::AtRisk(wait) => {
                events.push(HealthEvent::DetectedUnhealthy(target.named(check)));
                waits.push(wait);
            }
            Health::Sound if target.counts_as_healthy() => healthy.push(target),
            Health::Sound => {}
        }
    }
    let limit = match max_unhealthy(check.max_unhealthy.as_ref(), expected) {
        Ok(limit) => limit,
        Err(error) => return (events, Err(error.into())),
    };
    let count = Count { expected, unhealthy: expected - healthy.len(), limit: check.max_unhealthy.clone() };
    let spare = limit - count.unhealthy as i64;
    let mut plan = Plan {
        expected,
        healthy: healthy.len(),
        // The status has 32 bits, of which upstream takes the lower ones.
        remediations_allowed: (spare as i32).max(0),
        allowed: spare >= 0,
        conditions: check.conditions.clone(),
        remediations: Vec::new(),
        recovered: Vec::new(),
        requeue: next(waits),
    };
    if plan.allowed {
        condition::set(&mut plan.conditions, Condition::is_true(REMEDIATION_ALLOWED, ""), now);
        plan.remediations = unhealthy
            .into_iter()
            .map(|target| {
                let remediation = remediation(&target, check);
                events.extend(HealthEvent::about(&target, check, remediation));
                (target, remediation)
            })
            .collect();
        plan.recovered = healthy;
    } else {
        let message = format!("Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy ({count})");
        let restricted = Condition::is_false(REMEDIATION_ALLOWED, TOO_MANY_UNHEALTHY, Severity::Warning, message);
        condition::set(&mut plan.conditions, restricted, now);
        events.push(HealthEvent::RemediationRestricted(count));
        plan.requeue = Some(RESTRICTED_WAIT);
    }
    (events, Ok(plan))
}

/// The numbers of a short circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The number of machines that the check looks at.
    pub expected: usize,
    /// The number of them that are unhealthy or not started.
    pub unhealthy: usize,
    /// The limit, as it is written.
    pub limit: Option<IntOrString>,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit.as_ref().map_or_else(|| "<nil>".to_owned(), IntOrString::to_string);
        write!(f, "total: {}, unhealthy: {}, maxUnhealthy: {limit}", self.expected, self.unhealthy)
    }
}

/// An event of a check; its message is the `Display`. All but [`HealthEvent::RemediationRestricted`] are about a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthEvent {
    /// A machine will need remediation if nothing changes.
    DetectedUnhealthy(TargetName),
    /// Too many machines are unhealthy.
    RemediationRestricted(Count),
    /// A machine is not deleted: nothing would replace it.
    SkippedNoController(TargetName),
    /// A machine was deleted.
    MachineDeleted(TargetName),
    /// A machine could not be deleted.
    MachineDeletionFailed(TargetName, String),
    /// The controller of bare-metal hosts was asked.
    ExternalAnnotationAdded(TargetName),
    /// The controller of bare-metal hosts could not be asked.
    ExternalAnnotationFailed(TargetName, String),
}

impl HealthEvent {
    /// Returns what is told once a remediation was carried out.
    fn about(target: &Target<'_>, check: &HealthCheck, remediation: Remediation) -> Option<Self> {
        match remediation {
            Remediation::Delete => Some(Self::MachineDeleted(target.named(check))),
            Remediation::Annotate => Some(Self::ExternalAnnotationAdded(target.named(check))),
            Remediation::NoController => Some(Self::SkippedNoController(target.named(check))),
            Remediation::Request | Remediation::AnnotatedBefore | Remediation::DeletedBefore => None,
        }
    }

    /// Returns the sort.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::RemediationRestricted(_) | Self::MachineDeletionFailed(..) | Self::ExternalAnnotationFailed(..) => EventKind::Warning,
            _ => EventKind::Normal,
        }
    }

    /// Returns the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::DetectedUnhealthy(_) => "DetectedUnhealthy",
            Self::RemediationRestricted(_) => "RemediationRestricted",
            Self::SkippedNoController(_) => "SkippedNoController",
            Self::MachineDeleted(_) => "MachineDeleted",
            Self::MachineDeletionFailed(..) => "MachineDeletionFailed",
            Self::ExternalAnnotationAdded(_) => "ExternalAnnotationAdded",
            Self::ExternalAnnotationFailed(..) => "ExternalAnnotationFailed",
        }
    }
}

impl fmt::Display for HealthEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = "Requesting external remediation of node associated with machine";
        match self {
            Self::DetectedUnhealthy(target) => write!(f, "Machine {target} has unhealthy node {}", target.node),
            Self::RemediationRestricted(count) => {
                write!(f, "Remediation restricted due to exceeded number of unhealthy machines ({count})")
            }
            Self::SkippedNoController(target) => write!(f, "Machine {target} has no controller owner, skipping remediation"),
            Self::MachineDeleted(target) => write!(f, "Machine {target} has been remediated by requesting to delete Machine object"),
            Self::MachineDeletionFailed(target, cause) => {
                write!(f, "Machine {target} remediation failed: unable to delete Machine object: {cause}")
            }
            Self::ExternalAnnotationAdded(target) => write!(f, "{asked} {target}"),
            Self::ExternalAnnotationFailed(target, cause) => write!(f, "{asked} {target} failed: {cause}"),
        }
    }
}
