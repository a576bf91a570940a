//! Conditions that must hold before a release is taken (CVO-PRE-01 to CVO-PRE-07).

use std::fmt;

use mainstay_api::condition::Status;
use mainstay_api::config_v1::{ClusterVersion, StatusCondition, UpdateHistory};
use mainstay_golang::quote;
use mainstay_versions::Version;

use crate::conditions::{self, text};
use crate::history;
use crate::upgradeable::{OVERRIDES_MESSAGE, OVERRIDES_REASON, has_overrides};

/// A precondition, in the order in which they are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The release is not older than the current one.
    Rollback,
    /// The release is not far ahead of the current one.
    GiantHop,
    /// The cluster says that it can be updated.
    Upgradeable,
    /// The update is recommended.
    RecommendedUpdate,
}

impl Precondition {
    const ALL: [Self; 4] = [Self::Rollback, Self::GiantHop, Self::Upgradeable, Self::RecommendedUpdate];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollback => "ClusterVersionRollback",
            Self::GiantHop => "ClusterVersionGiantHop",
            Self::Upgradeable => "ClusterVersionUpgradeable",
            Self::RecommendedUpdate => "ClusterVersionRecommendedUpdate",
        }
    }
}

/// A precondition that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Unmet {
    /// Which.
    pub precondition: Precondition,
    /// Why.
    pub problem: Problem,
}

/// Why a precondition does not hold.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The ClusterVersion cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The current version is no version.
    #[error("{0}")]
    InvalidCurrentVersion(mainstay_versions::Error),
    /// The release's version is no version.
    #[error("{0}")]
    InvalidDesiredVersion(mainstay_versions::Error),
    /// The release is older than the current one, and not the one before it.
    #[error(
        "{target} is less than the current target {current}, and the only supported rollback is to the cluster's previous version {previous} ({image})"
    )]
    NotPrevious {
        /// The release.
        target: Version,
        /// The current one.
        current: Version,
        /// The one before it.
        previous: Version,
        /// The image of that.
        image: String,
    },
    /// The release is the one before the current one, of another minor version.
    #[error(
        "{target} is less than the current target {current} and matches the cluster's previous version, but rollbacks that change major or minor versions are not recommended"
    )]
    PreviousOfOtherMinor {
        /// The release.
        target: Version,
        /// The current one.
        current: Version,
    },
    /// The release is older than the current one, which is the first.
    #[error("{target} is less than the current target {current}, and the cluster has no previous Semantic Version")]
    NoPrevious {
        /// The release.
        target: Version,
        /// The current one.
        current: Version,
    },
    /// The release is of a later major version.
    #[error(
        "{target} has a larger major version than the current target {current} ({} > {}), and only updates within the current major version are supported.",
        .target.major(), .current.major()
    )]
    MajorVersion {
        /// The release.
        target: Version,
        /// The current one.
        current: Version,
    },
    /// The release is more than one minor version ahead.
    #[error(
        "{target} is more than one minor version beyond the current target {current} ({}.{} > {}.({}+1)), and only updates within the current minor version or to the next minor version are supported.",
        .target.major(), .target.minor(), .current.major(), .current.minor()
    )]
    SeveralMinorVersions {
        /// The release.
        target: Version,
        /// The current one.
        current: Version,
    },
    /// Objects are overridden.
    #[error("{OVERRIDES_MESSAGE}")]
    Overrides,
    /// The cluster says that it cannot be updated.
    #[error("{message}")]
    NotUpgradeable {
        /// Why, for programs.
        reason: String,
        /// Why, for people.
        message: String,
    },
    /// The cluster is on its way to this minor version.
    #[error("Retarget to {target} while a minor level update from {completed} to {current} is in progress")]
    MinorUpdateInProgress {
        /// The release.
        target: Version,
        /// The version that the cluster comes from.
        completed: String,
        /// The current one.
        current: Version,
    },
    /// The update is not recommended.
    #[error("Update from {from} to {to} is not recommended:\n\n{message}")]
    NotRecommended {
        /// The current version.
        from: String,
        /// The release's version.
        to: String,
        /// Why, for programs.
        reason: String,
        /// Why, for people.
        message: String,
    },
    /// It is not known whether the update is recommended.
    #[error("Update from {from} to {to} is Recommended={status}: {reason}: {message}")]
    RecommendedUnknown {
        /// The current version.
        from: String,
        /// The release's version.
        to: String,
        /// The condition's status.
        status: &'static str,
        /// Why, for programs.
        reason: String,
        /// Why, for people.
        message: String,
    },
    /// The update is known, and nothing is said of whether it is recommended.
    #[error("Update from {from} to {to} has a status.conditionalUpdates entry, but no Recommended condition.")]
    NoRecommendedCondition {
        /// The current version.
        from: String,
        /// The release's version.
        to: String,
    },
    /// No updates are asked for.
    #[error("Configured channel is unset, so the recommended status of updating from {from} to {to} is unknown.")]
    NoChannel {
        /// The current version.
        from: String,
        /// The release's version.
        to: String,
    },
    /// The update is not known.
    #[error("{}", unknown_update(.from, .to, .retrieved.as_ref()))]
    UnknownUpdate {
        /// The current version.
        from: String,
        /// The release's version.
        to: String,
        /// Condition RetrievedUpdates.
        retrieved: Option<StatusCondition>,
    },
}

fn unknown_update(from: &str, to: &str, retrieved: Option<&StatusCondition>) -> String {
    let Some(StatusCondition { status, reason, .. }) = retrieved else {
        return format!("No RetrievedUpdates, so the recommended status of updating from {from} to {to} is unknown.");
    };
    let condition = format!("RetrievedUpdates={} ({reason})", text(*status));
    if *status == Status::True {
        format!("{condition}, so the update from {from} to {to} is probably neither recommended nor supported.")
    } else {
        format!("{condition}, so the recommended status of updating from {from} to {to} is unknown.")
    }
}

impl Unmet {
    /// Why, for programs.
    pub fn reason(&self) -> &str {
        match &self.problem {
            Problem::Unreadable(_) => "UnknownError",
            Problem::InvalidCurrentVersion(_) => "InvalidCurrentVersion",
            Problem::InvalidDesiredVersion(_) => "InvalidDesiredVersion",
            Problem::NotPrevious { .. } | Problem::PreviousOfOtherMinor { .. } | Problem::NoPrevious { .. } => "LowDesiredVersion",
            Problem::MajorVersion { .. } => "MajorVersionUpdate",
            Problem::SeveralMinorVersions { .. } => "MultipleMinorVersionsUpdate",
            Problem::Overrides => OVERRIDES_REASON,
            Problem::NotUpgradeable { reason, .. }
            | Problem::NotRecommended { reason, .. }
            | Problem::RecommendedUnknown { reason, .. } => reason,
            Problem::MinorUpdateInProgress { .. } => "MinorVersionClusterUpdateInProgress",
            Problem::NoRecommendedCondition { .. } => "UnknownConditionType",
            Problem::NoChannel { .. } => "NoChannel",
            Problem::UnknownUpdate { .. } => "UnknownUpdate",
        }
    }

    /// Returns whether it keeps the release from being taken. What only an update can mend does not.
    pub fn is_blocking(&self) -> bool {
        self.precondition != Precondition::RecommendedUpdate
            && !matches!(self.problem, Problem::InvalidCurrentVersion(_) | Problem::MinorUpdateInProgress { .. })
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Precondition {} failed because of {}: {}", quote(self.precondition.name()), quote(self.reason()), self.problem)
    }
}

/// The ClusterVersion as the preconditions find it.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// There is none, or its kind is not served.
    Nothing,
    /// It cannot be read.
    Unreadable(&'a str),
    /// It is there.
    ClusterVersion(&'a ClusterVersion),
}

/// Every precondition that does not hold for a release of this version.
pub fn unmet(found: Found<'_>, version: &str) -> Vec<Unmet> {
    let problem = |precondition: &Precondition| {
        let problem = match found {
            Found::Nothing => None,
            Found::Unreadable(error) => Some(Problem::Unreadable(error.to_owned())),
            Found::ClusterVersion(cluster_version) => match precondition {
                Precondition::Rollback => {
                    versions(cluster_version, version).map_or_else(|problem| Some(*problem), |versions| rollback(cluster_version, versions))
                }
                Precondition::GiantHop => versions(cluster_version, version).map_or_else(|problem| Some(*problem), giant_hop),
                Precondition::Upgradeable => upgradeable(cluster_version, version),
                Precondition::RecommendedUpdate => recommended(cluster_version, version),
            },
        };
        problem.map(|problem| Unmet { precondition: *precondition, problem })
    };
    Precondition::ALL.iter().filter_map(problem).collect()
}

/// The current version and that of the release.
type Versions = (Version, Version);

fn versions(cluster_version: &ClusterVersion, target: &str) -> Result<Versions, Box<Problem>> {
    let current =
        Version::parse(&cluster_version.status.desired.version).map_err(|error| Box::new(Problem::InvalidCurrentVersion(error)))?;
    let target = Version::parse(target).map_err(|error| Box::new(Problem::InvalidDesiredVersion(error)))?;
    Ok((current, target))
}

fn same_minor(one: &Version, other: &Version) -> bool {
    (one.major(), one.minor()) == (other.major(), other.minor())
}

fn rollback(cluster_version: &ClusterVersion, (current, target): Versions) -> Option<Problem> {
    if target.cmp_precedence(&current).is_ge() {
        return None;
    }
    let image = &cluster_version.status.desired.image;
    let is_current = |entry: &&UpdateHistory| entry.version == current.to_string() && entry.image == *image;
    let previous = cluster_version.status.history.iter().find(|entry| !is_current(entry));
    let previous = previous.and_then(|entry| Version::parse(&entry.version).ok().map(|version| (version, &entry.image)));
    match previous {
        None => Some(Problem::NoPrevious { target, current }),
        Some((previous, image)) if target.cmp_precedence(&previous).is_ne() => {
            Some(Problem::NotPrevious { target, current, previous, image: image.clone() })
        }
        Some((previous, _)) if same_minor(&previous, &current) => None,
        Some(_) => Some(Problem::PreviousOfOtherMinor { target, current }),
    }
}

fn giant_hop((current, target): Versions) -> Option<Problem> {
    if target.major() > current.major() {
        return Some(Problem::MajorVersion { target, current });
    }
    (target.minor() > current.minor().saturating_add(1)).then_some(Problem::SeveralMinorVersions { target, current })
}

fn upgradeable(cluster_version: &ClusterVersion, target: &str) -> Option<Problem> {
    let status = &cluster_version.status;
    let condition = conditions::find(&status.conditions, "Upgradeable").filter(|condition| condition.status == Status::False)?;
    let (current, target) = match versions(cluster_version, target) {
        Ok(versions) => versions,
        Err(problem) => return Some(*problem),
    };
    let is_patch = same_minor(&target, &current);
    if target.cmp_precedence(&current).is_gt() && !is_patch {
        return Some(Problem::NotUpgradeable { reason: condition.reason.clone(), message: condition.message.clone() });
    }
    if has_overrides(&cluster_version.spec) {
        return Some(Problem::Overrides);
    }
    let completed = history::current_version(&status.history)?;
    let from = Version::parse(completed).ok()?;
    let is_minor_update = conditions::is(&status.conditions, "Progressing", Status::True)
        && from.major() == current.major()
        && from.minor() < current.minor();
    (is_minor_update && is_patch).then(|| Problem::MinorUpdateInProgress { target, completed: completed.to_owned(), current })
}

fn recommended(cluster_version: &ClusterVersion, target: &str) -> Option<Problem> {
    let status = &cluster_version.status;
    let (from, to) = (status.desired.version.clone(), target.to_owned());
    if status.available_updates.iter().flatten().any(|release| release.version == target) {
        return None;
    }
    if let Some(update) = status.conditional_updates.iter().find(|update| update.release.version == target) {
        let Some(condition) = update.conditions.iter().find(|condition| condition.kind == "Recommended") else {
            return Some(Problem::NoRecommendedCondition { from, to });
        };
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        return match condition.status {
            Status::True => None,
            Status::False => Some(Problem::NotRecommended { from, to, reason, message }),
            status @ Status::Unknown => Some(Problem::RecommendedUnknown { from, to, status: text(status), reason, message }),
        };
    }
    if cluster_version.spec.channel.is_empty() {
        return Some(Problem::NoChannel { from, to });
    }
    Some(Problem::UnknownUpdate { from, to, retrieved: conditions::find(&status.conditions, "RetrievedUpdates").cloned() })
}

/// The verdict about unmet preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// True if the release is not taken.
    pub blocks: bool,
    /// The message about it.
    pub summary: String,
}

/// The verdict about unmet preconditions; `None` if there are none (CVO-PRE-02).
pub fn verdict(unmet: &[Unmet], force: bool) -> Option<Verdict> {
    let blocks = unmet.iter().any(Unmet::is_blocking);
    let summary = match unmet {
        [] => return None,
        [unmet] => unmet.to_string(),
        several => several.iter().fold("Multiple precondition checks failed:".to_owned(), |text, unmet| format!("{text}\n* {unmet}")),
    };
    if force && blocks {
        return Some(Verdict { blocks: false, summary: format!("Forced through blocking failures: {summary}") });
    }
    Some(Verdict { blocks, summary })
}
