//! The status of a ClusterVersion (CVO-COND-01 to CVO-COND-08).

use jiff::Timestamp;
use mainstay_api::condition::Status;
use mainstay_api::config_v1::{CapabilitiesStatus, Capability, ClusterVersionStatus, Release, StatusCondition};
use mainstay_schema::field;

use crate::conditions::{self, Said};
use crate::error::{UpdateError, Waiting, WaitingSince, waiting, without_waiting};
use crate::history::{self, Reached};
use crate::load::Load;
use crate::release::{self, Known};

const AVAILABLE: &str = "Available";
const FAILING: &str = "Failing";
const PROGRESSING: &str = "Progressing";
const RETRIEVED_UPDATES: &str = "RetrievedUpdates";
const INVALID: &str = "Invalid";
const IMPLICITLY_ENABLED: &str = "ImplicitlyEnabledCapabilities";
const INVALID_REASON: &str = "InvalidClusterVersion";
/// The name of a condition of an earlier release.
const IMPLICITLY_ENABLED_BEFORE: &str = "ImplicitlyEnabled";

/// The progress of the applying of a release.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// The generation of the spec that is worked on.
    pub generation: i64,
    /// The failure at the end of the last pass.
    pub failure: Option<UpdateError>,
    /// The manifests that were applied in this pass.
    pub done: usize,
    /// All manifests.
    pub total: usize,
    /// The passes in a row that applied every manifest.
    pub completed: usize,
    /// True if the release was reached and is kept.
    pub reconciling: bool,
    /// A fingerprint of the manifests; empty if it is not known.
    pub version_hash: String,
    /// The release that is applied.
    pub actual: Release,
    /// True if its signature was verified.
    pub verified: bool,
    /// The loading of the wanted release.
    pub load: Load,
    /// The optional parts of the release.
    pub capabilities: CapabilitiesStatus,
    /// Capabilities that are enabled although they are not wanted.
    pub implicitly_enabled: Vec<Capability>,
}

/// The other facts that the status depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The operator's own release.
    pub own: &'a Release,
    /// Releases as the update service knows them.
    pub known: Known<'a>,
    /// The faults of the spec.
    pub invalid: &'a [field::Error],
    /// Since when operators have been waited for.
    pub since: &'a WaitingSince,
    /// True if the architecture of releases is shown (feature gate `ImageStreamImportMode`).
    pub shows_architecture: bool,
}

/// Brings a status up to date.
pub fn update(status: &mut ClusterVersionStatus, work: &Work, facts: &Facts<'_>, now: Timestamp) {
    status.observed_generation = work.generation;
    if !work.version_hash.is_empty() {
        status.version_hash.clone_from(&work.version_hash);
    }
    // Messages name the release as the payload does.
    let name = release::name(&work.actual.version, &work.actual.image).to_owned();
    let mut desired = release::completed(work.actual.clone(), facts.own, facts.known);
    if !facts.shows_architecture {
        desired.architecture = None;
    }
    let reached = Reached {
        completed: work.completed > 0,
        verified: work.verified,
        accepted_risks: if desired.image == work.load.wanted.image { &work.load.accepted_risks } else { "" },
        local: work.load.local,
    };
    history::record(status, &desired, &reached, now);
    status.capabilities = work.capabilities.clone();

    let has_history = !status.history.is_empty();
    let conditions = &mut status.conditions;
    invalid(conditions, facts.invalid, now);
    conditions::remove(conditions, IMPLICITLY_ENABLED_BEFORE);
    conditions::set(conditions, implicitly_enabled(&work.implicitly_enabled), now);
    if let Some(accepted) = work.load.condition() {
        conditions::set(conditions, accepted, now);
    }
    if work.completed > 0 {
        conditions::set(conditions, Said::new(AVAILABLE, Status::True).saying(format!("Done applying {name}")), now);
    }
    set_first(conditions, AVAILABLE, now);
    let (failing, progressing) = progress(work, &name, has_history, facts, now);
    conditions::set(conditions, failing, now);
    conditions::set(conditions, progressing, now);
    set_first(conditions, RETRIEVED_UPDATES, now);
}

/// A condition is False before anything is known of it.
fn set_first(conditions: &mut Vec<StatusCondition>, kind: &'static str, now: Timestamp) {
    if conditions::find(conditions, kind).is_none() {
        conditions::set(conditions, Said::new(kind, Status::False), now);
    }
}

fn invalid(conditions: &mut Vec<StatusCondition>, errors: &[field::Error], now: Timestamp) {
    const PREFIX: &str = "The cluster version is invalid:";
    let message = match errors {
        [] => return conditions::remove(conditions, INVALID),
        [error] => format!("{PREFIX} {error}"),
        errors => errors.iter().fold(format!("{PREFIX}\n"), |text, error| format!("{text}* {error}\n")),
    };
    conditions::set(conditions, Said::new(INVALID, Status::True).because(INVALID_REASON).saying(message), now);
}

fn implicitly_enabled(capabilities: &[Capability]) -> Said {
    let mut names: Vec<&str> = capabilities.iter().map(|capability| capability.0.as_str()).collect();
    names.sort_unstable();
    if names.is_empty() {
        return Said::new(IMPLICITLY_ENABLED, Status::False).because("AsExpected").saying("Capabilities match configured spec");
    }
    let message = format!("The following capabilities could not be disabled: {}", names.join(", "));
    Said::new(IMPLICITLY_ENABLED, Status::True).because("CapabilitiesImplicitlyEnabled").saying(message)
}

/// Conditions Failing (CVO-COND-04) and Progressing (CVO-COND-03).
fn progress(work: &Work, name: &str, has_history: bool, facts: &Facts<'_>, now: Timestamp) -> (Said, Said) {
    let failure = work.failure.as_ref();
    let under_way = !work.reconciling && has_history;
    let state = match failure {
        Some(failure) if under_way => waiting(failure, facts.since, now),
        _ => Waiting::Failure(None),
    };
    let counted = match failure {
        Some(failure) if under_way => without_waiting(failure),
        failure => failure.cloned(),
    };
    let quiet = Said::new(FAILING, Status::False);
    let failing = match (&counted, &state) {
        (Some(_), Waiting::Slow(text)) => Said::new(FAILING, Status::Unknown).because("SlowClusterOperator").saying(text.to_string()),
        (Some(error), Waiting::Failure(_)) => Said::new(FAILING, Status::True).because(error.reason()).saying(error.to_string()),
        (None, _) | (_, Waiting::Expected(_)) => quiet,
    };

    let reason = if facts.invalid.is_empty() { "" } else { INVALID_REASON };
    let said = |status: Status, reason: &str, message: String| Said::new(PROGRESSING, status).because(reason).saying(message);
    let progressing = match (failure, &state) {
        (Some(error), Waiting::Failure(text)) => {
            let text = text.as_ref().map_or_else(|| error.summary(), ToString::to_string);
            if work.reconciling {
                said(Status::False, error.reason(), format!("Error while reconciling {name}: {text}"))
            } else {
                said(Status::True, error.reason(), format!("Unable to apply {name}: {text}"))
            }
        }
        _ if work.reconciling && !facts.invalid.is_empty() => {
            said(Status::False, reason, format!("Stopped at {name}: the cluster version is invalid"))
        }
        _ if work.reconciling => said(Status::False, reason, format!("Cluster version is {name}")),
        _ if !facts.invalid.is_empty() => said(Status::True, reason, format!("Reconciling {name}: the cluster version is invalid")),
        (error, state) => {
            let text = match state {
                Waiting::Expected(text) | Waiting::Slow(text) => Some(text.to_string()),
                Waiting::Failure(_) => None,
            };
            let done = (work.done > 0).then(|| {
                // In the precision of upstream, whose result is truncated.
                let percent = (work.done as f32 / work.total as f32 * 100.0).trunc();
                format!("{} of {} done ({percent:.0}% complete)", work.done, work.total)
            });
            let reason = text.as_ref().and(error.map(UpdateError::reason)).unwrap_or(reason);
            let parts: Vec<String> = done.into_iter().chain(text).collect();
            let more = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
            said(Status::True, reason, format!("Working towards {name}{more}"))
        }
    };
    (failing, progressing)
}

/// The status of a ClusterVersion that could not be brought up to date many times in a row (CVO-COND-08).
pub fn update_failed(status: &mut ClusterVersionStatus, error: &dyn std::error::Error, own: &Release, known: Known<'_>, now: Timestamp) {
    let conditions = &mut status.conditions;
    conditions::set(conditions, Said::new(AVAILABLE, Status::False), now);
    conditions::set(conditions, Said::new(FAILING, Status::True).saying(error.to_string()), now);
    let progressing = if conditions::is(conditions, PROGRESSING, Status::True) { Status::True } else { Status::False };
    let message = format!("Error ensuring the cluster version is up to date: {error}");
    conditions::set(conditions, Said::new(PROGRESSING, progressing).saying(message), now);
    history::record(status, &release::merged(own.clone(), known), &Reached::default(), now);
}

/// The write that a computed status needs (CVO-COND-09).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Nothing; it is the same.
    Nothing,
    /// Write it.
    Status,
}

/// Returns whether a status has to be written.
pub fn write(before: &ClusterVersionStatus, after: &ClusterVersionStatus) -> Write {
    if before == after { Write::Nothing } else { Write::Status }
}

/// The object is another than the one that the status was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cluster version was deleted and recreated, cannot update status")]
pub struct Recreated;

/// The write after a conflict, on the object as it is now: the computed status counts, on the new object's metadata.
pub fn write_after_conflict(
    uid: &str,
    live_uid: &str,
    live: &ClusterVersionStatus,
    after: &ClusterVersionStatus,
) -> Result<Write, Recreated> {
    if uid == live_uid { Ok(write(live, after)) } else { Err(Recreated) }
}
