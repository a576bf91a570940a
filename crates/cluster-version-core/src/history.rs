//! The history of releases (CVO-HIST-01 to CVO-HIST-06).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::config_v1::{ClusterVersionStatus, Release, UpdateHistory, UpdateState};

/// The most entries that are kept.
pub const MAX_ENTRIES: usize = 100;
/// The last of the newest entries that are always kept.
const LAST_OF_NEWEST: usize = 4;
/// The rank of entries that are always kept.
const ALWAYS: f64 = 1000.0;
/// The rank of the first and the last completed update of a minor version.
const EDGE_OF_MINOR: f64 = 30.0;
/// The rank of partial updates on the way from one minor version to another.
const PARTIAL_OF_MINOR: f64 = 20.0;
/// The rank of partial updates inside of a minor version.
const PARTIAL_OF_PATCH: f64 = -20.0;
/// The cost of each place further back.
const BY_PLACE: f64 = -1.01;

/// The release that is being reconciled, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Reached<'a> {
    /// True if every manifest was applied.
    pub completed: bool,
    /// True if the image's signature was verified.
    pub verified: bool,
    /// The risks that were accepted with it.
    pub accepted_risks: &'a str,
    /// True if it is the operator's own payload, for which nothing is verified or checked.
    pub local: bool,
}

/// Notes the release that is being reconciled, and makes it the desired one. A release without an image cannot be reproduced and is not noted.
pub fn record(status: &mut ClusterVersionStatus, desired: &Release, reached: &Reached<'_>, now: Timestamp) {
    if desired.image.is_empty() {
        return;
    }
    let now = Time(now);
    if status.history.is_empty() {
        status.history.push(begun(desired, reached, &now));
    }
    let Some(last) = status.history.first_mut() else { return };
    if last.state == UpdateState::Unset {
        last.state = UpdateState::Partial;
    }
    if joins(last, desired) {
        if reached.completed {
            last.state = UpdateState::Completed;
            last.completion_time.get_or_insert(now);
        }
        if !reached.local {
            reached.accepted_risks.clone_into(&mut last.accepted_risks);
        }
    } else {
        last.completion_time.get_or_insert_with(|| now.clone());
        let mut entry = begun(desired, reached, &now);
        if reached.completed {
            entry.state = UpdateState::Completed;
            entry.completion_time = Some(now);
        }
        status.history.insert(0, entry);
    }
    if reached.verified
        && let Some(first) = status.history.first_mut()
    {
        first.verified = true;
    }
    prune(&mut status.history, MAX_ENTRIES);
    status.desired = desired.clone();
}

fn begun(desired: &Release, reached: &Reached<'_>, now: &Time) -> UpdateHistory {
    UpdateHistory {
        state: UpdateState::Partial,
        started_time: Some(now.clone()),
        version: desired.version.clone(),
        image: desired.image.clone(),
        accepted_risks: reached.accepted_risks.to_owned(),
        ..UpdateHistory::default()
    }
}

/// Returns whether an entry is of this release; what the entry lacks is filled in (CVO-HIST-02).
fn joins(entry: &mut UpdateHistory, desired: &Release) -> bool {
    if !desired.image.is_empty() && desired.image == entry.image {
        if desired.version.is_empty() {
            return true;
        }
        if entry.version.is_empty() || entry.version == desired.version {
            entry.version.clone_from(&desired.version);
            return true;
        }
    }
    if !desired.version.is_empty() && desired.version == entry.version && (entry.image.is_empty() || entry.image == desired.image) {
        entry.image.clone_from(&desired.image);
        return true;
    }
    false
}

/// The version that the cluster has: that of the newest completed entry, or of the oldest one while none is completed.
pub fn current_version(history: &[UpdateHistory]) -> Option<&str> {
    let completed = history.iter().find(|entry| entry.state == UpdateState::Completed);
    completed.or(history.last()).map(|entry| entry.version.as_str()).filter(|version| !version.is_empty())
}

/// Removes the least telling entry when there are more than `most` (CVO-HIST-06).
fn prune(history: &mut Vec<UpdateHistory>, most: usize) {
    if history.len() <= most {
        return;
    }
    let newest_completed = history.iter().position(|entry| entry.state == UpdateState::Completed);
    let rank = |index: usize| {
        let rank = if index == most || index <= LAST_OF_NEWEST || Some(index) == newest_completed {
            ALWAYS
        } else {
            interest(history, index, most)
        };
        rank + BY_PLACE * index as f64
    };
    let lowest = (0..history.len()).min_by(|one, other| rank(*one).total_cmp(&rank(*other)));
    if let Some(lowest) = lowest {
        history.remove(lowest);
    }
}

fn interest(history: &[UpdateHistory], index: usize, most: usize) -> f64 {
    let is_completed = |index: &usize| history[*index].state == UpdateState::Completed;
    let older = (index + 1..history.len()).find(is_completed);
    let newer = (0..index).rev().find(is_completed);
    let minor = |index: usize| number(&history[index].version, 1);
    let is_edge = |neighbour: Option<usize>| neighbour.is_none_or(|neighbour| minor(neighbour) != minor(index));
    if history[index].state != UpdateState::Partial && (index == 0 || index == most || is_edge(older) || is_edge(newer)) {
        return EDGE_OF_MINOR;
    }
    let between = (history[index].state != UpdateState::Completed && index != 0 && index != most).then_some(()).and(older.zip(newer));
    let Some((older, newer)) = between else { return 0.0 };
    let patch = |index: usize| number(&history[index].version, 2);
    if minor(older) != minor(newer) {
        PARTIAL_OF_MINOR
    } else if patch(older) != patch(newer) {
        PARTIAL_OF_PATCH
    } else {
        0.0
    }
}

/// A number of a version by its place, as text; empty if there is none.
pub(crate) fn number(version: &str, place: usize) -> &str {
    version.split('.').nth(place).unwrap_or_default()
}
