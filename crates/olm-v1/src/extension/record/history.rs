//! What the records of an extension say together: what is installed, what may be live, what is kept.

use super::{KEPT, Revision, State};

/// All revisions of an extension, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The revisions.
    pub revisions: Vec<Revision>,
}

impl Revision {
    /// Whether it was installed once, so that a rollback may lead back to it. An attempt that another one overtook never was.
    pub fn was_deployed(&self) -> bool {
        match self.state {
            State::Deployed => true,
            State::Superseded => self.notes.overtaken_by.is_none(),
            State::Pending | State::Failed => false,
        }
    }

    /// Whether what it holds may be live although a newer revision counts. What was replaced in good order was cleared then; an attempt
    /// that was overtaken half-way may even have been carried on late, by a process that had been replaced.
    pub fn is_uncleared(&self) -> bool {
        self.state == State::Deployed || !self.was_deployed()
    }
}

impl History {
    /// What is installed: the newest deployed revision, not the newest attempt.
    pub fn installed(&self) -> Option<&Revision> {
        self.revisions.iter().rev().find(|revision| revision.state == State::Deployed)
    }

    /// The newest revision, whatever came of it.
    pub fn latest(&self) -> Option<&Revision> {
        self.revisions.last()
    }

    /// The installed revision and the attempts after it: whatever may be live. An older revision that still counts was left so by a crash,
    /// or by a process that had been replaced and whose writes came late: what it holds may be live, too.
    pub fn may_be_live(&self) -> impl Iterator<Item = &Revision> {
        let from = self.revisions.iter().find(|revision| revision.state == State::Deployed).map_or(0, |revision| revision.number);
        self.revisions.iter().filter(move |revision| revision.number >= from)
    }

    /// The newest revision before this one that was deployed once: what a rollback leads back to.
    pub fn before(&self, number: u32) -> Option<&Revision> {
        self.revisions.iter().rev().filter(|revision| revision.number < number).find(|revision| revision.was_deployed())
    }

    /// The oldest revision beyond those that are kept. However many attempts failed since, what is installed stays known, and what a
    /// rollback leads back to.
    pub fn surplus(&self) -> Option<usize> {
        if self.revisions.len() <= KEPT {
            return None;
        }
        let installed = self.installed().map(|revision| revision.number);
        let earlier = installed.and_then(|number| self.before(number)).map(|revision| revision.number);
        self.revisions.iter().position(|revision| ![installed, earlier].contains(&Some(revision.number)))
    }
}

#[cfg(test)]
mod tests {
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
}
