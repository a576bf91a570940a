//! The combined revisions of an extension: the installed one, those that may be live, those that are kept.

use super::{KEPT, Revision, State};
use crate::object;

/// All revisions of an extension, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The revisions.
    pub revisions: Vec<Revision>,
}

impl Revision {
    /// Returns true if the revision was installed once, so that a rollback may lead back to it. An attempt that was overtaken never was.
    pub fn was_deployed(&self) -> bool {
        match self.state {
            State::Deployed => true,
            State::Superseded => self.notes.overtaken_by.is_none(),
            State::Pending | State::Failed => false,
        }
    }

    /// Returns true if the revision's objects may be live although a newer revision is deployed. A revision that was replaced regularly was
    /// cleared then; an attempt that was overtaken half-way may even have been continued late, by a process that had been replaced.
    pub fn is_uncleared(&self) -> bool {
        self.state == State::Deployed || !self.was_deployed()
    }
}

impl History {
    /// Returns the installed revision: the newest deployed one, not the newest attempt.
    pub fn installed(&self) -> Option<&Revision> {
        self.revisions.iter().rev().find(|revision| revision.state == State::Deployed)
    }

    /// Returns the newest revision, regardless of its state.
    pub fn latest(&self) -> Option<&Revision> {
        self.revisions.last()
    }

    /// Returns the attempt after the installed revision that has not been completed.
    pub fn attempt(&self) -> Option<&Revision> {
        let installed = self.installed()?.number;
        self.latest().filter(|latest| latest.number > installed && matches!(latest.state, State::Pending | State::Failed))
    }

    /// Returns true if a revision is installed and no later one was tried.
    pub fn is_whole(&self) -> bool {
        self.latest().is_some_and(|latest| latest.state == State::Deployed)
    }

    /// Returns the installed revision and the attempts after it: all revisions whose objects may be live. An older revision that is still marked
    /// as deployed was left so by a crash, or by a replaced process whose writes came late: its objects may be live, too.
    pub fn may_be_live(&self) -> impl Iterator<Item = &Revision> {
        let from = self.revisions.iter().find(|revision| revision.state == State::Deployed).map_or(0, |revision| revision.number);
        self.revisions.iter().filter(move |revision| revision.number >= from)
    }

    /// Returns the newest revision before this one that was deployed once: the target of a rollback.
    pub fn before(&self, number: u32) -> Option<&Revision> {
        self.revisions.iter().rev().filter(|revision| revision.number < number).find(|revision| revision.was_deployed())
    }

    /// Returns the position of the oldest revision that can be dropped, if more than [`KEPT`] exist. However many attempts failed since, the
    /// installed revision, the target of a rollback and every object that may be live stay known: the last revision that knows such an object is
    /// kept until another revision is completed, which clears the object.
    pub fn surplus(&self) -> Option<usize> {
        if self.revisions.len() <= KEPT {
            return None;
        }
        let installed = self.installed().map(|revision| revision.number);
        let earlier = installed.and_then(|number| self.before(number)).map(|revision| revision.number);
        let latest = self.latest().map(|revision| revision.number);
        self.revisions.iter().position(|revision| {
            ![installed, earlier, latest].contains(&Some(revision.number))
                && (Some(revision.number) < installed || !self.alone_knows(revision))
        })
    }

    /// Returns true if a revision that was not cleared holds an object that no other uncleared revision holds.
    fn alone_knows(&self, revision: &Revision) -> bool {
        let others = || self.revisions.iter().filter(|other| other.number != revision.number && other.is_uncleared());
        let is_known = |object| others().any(|other| other.record.holds(&object::place(object)));
        revision.is_uncleared() && !revision.record.objects.iter().all(is_known)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::tests::example;
    use super::*;

    /// MS-OPS-03: an older revision that counts again, since the last write of a replaced process came late, may have left something live.
    #[test]
    fn what_a_late_write_left_may_be_live() {
        let history = |first| History { revisions: vec![example(1, first, "old"), example(2, State::Deployed, "new")] };
        let live = |history: &History| history.may_be_live().map(|revision| revision.number).collect::<Vec<_>>();
        assert_eq!(live(&history(State::Superseded)), [2]);
        let overtaken = history(State::Deployed);
        assert_eq!((live(&overtaken), overtaken.installed().map(|revision| revision.number)), (vec![1, 2], Some(2)));
    }

    /// MS-OPS-03, MS-RB-01: what overtook an attempt is its end; it was never installed, so nothing leads back to it, and what it left is
    /// looked for.
    #[test]
    fn an_overtaken_attempt_was_never_installed() {
        let mut overtaken = example(2, State::Superseded, "half");
        overtaken.notes.overtaken_by = Some(3);
        let history = History { revisions: vec![example(1, State::Superseded, "old"), overtaken, example(3, State::Deployed, "new")] };
        assert_eq!(history.before(3).map(|revision| revision.number), Some(1));
        let uncleared: Vec<u32> = history.revisions.iter().filter(|revision| revision.is_uncleared()).map(|one| one.number).collect();
        assert_eq!(uncleared, [2, 3]);
    }

    /// OLM1-CTRL-11, MS-RB-01: ten revisions are kept; what is installed and what a rollback leads back to are among them, however many
    /// attempts failed between.
    #[test]
    fn the_way_back_is_kept() {
        let mut revisions = vec![example(1, State::Superseded, "old"), example(2, State::Superseded, "good")];
        revisions.extend((3..=11).map(|number| example(number, State::Failed, "bad")));
        revisions.push(example(12, State::Deployed, "new"));
        let mut history = History { revisions };
        while let Some(at) = history.surplus() {
            history.revisions.remove(at);
        }
        let numbers: Vec<u32> = history.revisions.iter().map(|revision| revision.number).collect();
        assert_eq!(numbers, [2, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(history.before(12).map(|revision| revision.number), Some(2));
    }

    /// OLM1-CTRL-11: what was tried and not cleared stays known however many attempts fail: only who knows nothing alone goes. The success that
    /// clears it all ends that.
    #[test]
    fn what_may_be_live_stays_known() {
        let attempt = |number: u32, state: State, objects: &[&str]| {
            let mut revision = example(number, state, "text");
            let object = |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            Arc::make_mut(&mut revision.record).objects = objects.iter().map(object).collect();
            revision
        };
        let kept = |revisions: &[Revision]| {
            let mut history = History { revisions: revisions.to_vec() };
            while let Some(at) = history.surplus() {
                history.revisions.remove(at);
            }
            history.revisions.iter().map(|revision| revision.number).collect::<Vec<u32>>()
        };
        // The first attempt alone made b; what the others made is all the same.
        let mut revisions = vec![attempt(1, State::Failed, &["a", "b"])];
        revisions.extend((2..=13).map(|number| attempt(number, State::Failed, &["a"])));
        assert_eq!(kept(&revisions), [1, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
        // Each made something else, and nothing was ever cleared.
        let names: Vec<String> = (1..=13).map(|number| format!("only-{number}")).collect();
        let alone: Vec<Revision> = (1..=13).map(|number| attempt(number, State::Pending, &[&names[number as usize - 1]])).collect();
        assert_eq!(kept(&alone), (1..=13).collect::<Vec<u32>>());
        // The newest is what is being done, whatever others know.
        let mut again = alone.clone();
        again.push(attempt(14, State::Pending, &["only-3"]));
        assert_eq!(kept(&again), [1, 2].into_iter().chain(4..=14).collect::<Vec<u32>>());
        // It came to its end, and cleared what the others had left.
        let mut done = alone;
        done.push(attempt(14, State::Deployed, &["a"]));
        assert_eq!(kept(&done), (5..=14).collect::<Vec<u32>>());
    }
}
