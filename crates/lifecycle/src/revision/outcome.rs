//! The states of revisions when an attempt begins and when it ends. They are decided here and written by the installer.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{History, Notes, Record, Revision, RolledBack, State, brief};
use crate::change::GATED;

/// The revision of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Attempted {
    /// The newest revision, which has the same content and was left half-way: its number and its new notes.
    Again(u32, Box<Notes>),
    /// A new revision, to be kept before the first step.
    New(Box<Revision>),
}

/// The result of an attempt's steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All steps succeeded.
    Applied,
    /// The steps before the gate succeeded; the next phase waits for their objects.
    AtGate,
    /// A step failed, for this reason.
    Failed(String),
}

/// The clock, and the time in which applied content has to become healthy.
#[derive(Clone, Copy, Debug)]
pub struct HealthClock {
    /// The current time.
    pub now: Timestamp,
    /// The time limit; none if no limit is set.
    pub within: Option<SignedDuration>,
}

/// A revision's new state and notes.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionChange {
    /// The revision's number.
    pub number: u32,
    /// Its new state.
    pub state: State,
    /// Its new notes.
    pub notes: Notes,
}

impl History {
    /// Returns the revision of an attempt to apply a record.
    pub fn begin(&self, record: &Arc<Record>, rolled_back: Option<RolledBack>) -> Attempted {
        match self.latest() {
            Some(latest) if matches!(latest.state, State::Pending | State::Failed) && latest.record == *record => {
                Attempted::Again(latest.number, Box::new(Notes { why: None, rolled_back, ..latest.notes.clone() }))
            }
            latest => {
                let number = latest.map_or(1, |latest| latest.number.saturating_add(1));
                let notes = Notes { rolled_back, ..Notes::default() };
                Attempted::New(Box::new(Revision { number, state: State::Pending, record: record.clone(), notes }))
            }
        }
    }

    /// Returns the changes of revisions after an attempt, in the order in which they are to be written: the new revision becomes deployed before
    /// an older one is superseded, so that there is always an installed one.
    pub fn end(&self, number: u32, mut notes: Notes, ended: Ended, clock: HealthClock) -> Vec<RevisionChange> {
        let state = match ended {
            Ended::Applied => {
                notes.waits_before = None;
                State::Deployed
            }
            Ended::AtGate => {
                notes.waits_before = Some(GATED.to_owned());
                State::Pending
            }
            Ended::Failed(why) => {
                notes.why = Some(brief(&why));
                State::Failed
            }
        };
        if state != State::Failed && (notes.applied.is_none() || clock.was_set_back(&notes)) {
            clock.begin(&mut notes);
        }
        self.settle(RevisionChange { number, state, notes })
    }

    /// Returns the changes of revisions after a repair of the installed content: the time to become healthy is over if it is `healthy`, and an
    /// older revision that a crash left marked as deployed is superseded.
    pub fn reassert(&self, healthy: bool, clock: HealthClock) -> Vec<RevisionChange> {
        let Some(latest) = self.latest().filter(|_| self.is_whole()) else { return Vec::new() };
        let mut notes = latest.notes.clone();
        if healthy {
            notes.healthy_by = None;
        } else if clock.within.is_some() && clock.was_set_back(&notes) {
            clock.begin(&mut notes);
        }
        self.settle(RevisionChange { number: latest.number, state: State::Deployed, notes })
    }

    fn settle(&self, newest: RevisionChange) -> Vec<RevisionChange> {
        let earlier = self.revisions.iter().filter(|revision| newest.state == State::Deployed && revision.number < newest.number);
        let changes: Vec<RevisionChange> = earlier.filter_map(|revision| replaced(revision, &newest)).collect();
        let differs = |change: &RevisionChange| {
            self.revisions.iter().any(|one| one.number == change.number && (one.state != change.state || one.notes != change.notes))
        };
        std::iter::once(newest).chain(changes).filter(differs).collect()
    }

    /// Applies a change to the revision in the history.
    pub fn set(&mut self, change: &RevisionChange) {
        for revision in self.revisions.iter_mut().filter(|revision| revision.number == change.number) {
            revision.state = change.state;
            revision.notes = change.notes.clone();
        }
    }
}

/// Returns the change of an earlier revision once a newer one is deployed; none if it stays as it is.
fn replaced(revision: &Revision, newest: &RevisionChange) -> Option<RevisionChange> {
    let changed = |state, notes| Some(RevisionChange { number: revision.number, state, notes });
    let notes = || Notes { healthy_by: None, ..revision.notes.clone() };
    match (&newest.notes.rolled_back, revision.state) {
        (Some(back), _) if back.from == revision.number => changed(State::Failed, Notes { why: Some(brief(&back.message)), ..notes() }),
        (_, State::Deployed) => changed(State::Superseded, notes()),
        // The attempt is not continued any more. A failed one keeps its state and reason.
        (_, State::Pending) => changed(State::Superseded, Notes { waits_before: None, overtaken_by: Some(newest.number), ..notes() }),
        (_, State::Failed | State::Superseded) => None,
    }
}

impl HealthClock {
    fn begin(self, notes: &mut Notes) {
        notes.applied = Some(self.now);
        notes.healthy_by = self.within.and_then(|within| self.now.checked_add(within).ok());
    }

    /// Returns true if the running time was begun by a clock that was set back since, or by one that is ahead of this one: it would end too late.
    fn was_set_back(self, notes: &Notes) -> bool {
        notes.healthy_by.is_some() && notes.applied.is_some_and(|applied| applied > self.now)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::example;
    use super::*;

    fn clock(seconds: i64) -> HealthClock {
        HealthClock { now: Timestamp::from_second(seconds).unwrap(), within: Some(SignedDuration::from_secs(60)) }
    }

    fn told(changes: &[RevisionChange]) -> Vec<(u32, State)> {
        changes.iter().map(|change| (change.number, change.state)).collect()
    }

    /// OLM1-CTRL-11, MS-RB-01: the newest revision counts first, then the older ones stop to; an attempt that was overtaken names the other.
    #[test]
    fn a_revision_counts_before_the_one_before_stops_to() {
        let mut history = History {
            revisions: vec![example(1, State::Superseded, "a"), example(2, State::Deployed, "b"), example(3, State::Pending, "c")],
        };
        let record = example(0, State::Pending, "d").record;
        let Attempted::New(revision) = history.begin(&record, None) else { panic!("the content is new") };
        let (number, notes) = (revision.number, revision.notes.clone());
        history.revisions.push(*revision);
        assert!(matches!(history.begin(&record, None), Attempted::Again(4, _)));
        let failed = history.end(number, notes.clone(), Ended::Failed("no".to_owned()), clock(0));
        assert_eq!((told(&failed), failed[0].notes.why.as_deref()), (vec![(4, State::Failed)], Some("no")));
        let gate = history.end(number, notes.clone(), Ended::AtGate, clock(0));
        assert_eq!(told(&gate), [(4, State::Pending)]);
        assert_eq!(gate[0].notes.healthy_by, Timestamp::from_second(60).ok());
        let done = history.end(number, notes, Ended::Applied, clock(0));
        assert_eq!(told(&done), [(4, State::Deployed), (2, State::Superseded), (3, State::Superseded)]);
        assert_eq!(done[2].notes.overtaken_by, Some(4));
        for change in &done {
            history.set(change);
        }
        assert_eq!(history.installed().map(|revision| revision.number), Some(4));
        assert_eq!(history.reassert(false, clock(30)), []);
        assert_eq!(told(&history.reassert(true, clock(30))), [(4, State::Deployed)]);
        // A clock that was set back begins the time anew.
        assert_eq!(history.reassert(false, clock(-30))[0].notes.applied, Timestamp::from_second(-30).ok());
    }

    /// MS-RB-01: the revision that is led away from failed, and says why.
    #[test]
    fn a_rollback_marks_what_it_leads_away_from() {
        let back = RolledBack {
            from: 2,
            bundle: "p.v2".to_owned(),
            digest: "d".to_owned(),
            generation: 1,
            within: "1m".to_owned(),
            message: "did not become healthy".to_owned(),
        };
        let mut history = History { revisions: vec![example(1, State::Superseded, "a"), example(2, State::Deployed, "b")] };
        let record = example(0, State::Pending, "a").record;
        let Attempted::New(revision) = history.begin(&record, Some(back)) else { panic!("the newest revision has other content") };
        let (number, notes) = (revision.number, revision.notes.clone());
        history.revisions.push(*revision);
        let done = history.end(number, notes, Ended::Applied, clock(0));
        assert_eq!(told(&done), [(3, State::Deployed), (2, State::Failed)]);
        assert_eq!(done[1].notes.why.as_deref(), Some("did not become healthy"));
    }
}
