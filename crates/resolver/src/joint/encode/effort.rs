//! The work that the solver may do.
//!
//! Requirements can be written such that nothing but trying shows that they cannot be met, and that there is more to try than anyone has time
//! for. So each question has a limit, and all questions about one universe have one together. Limits count conflicts, not time: equal input
//! gives the equal answer on every machine. Those of real catalogs are a few, those of a net of
//! fifty packages that contradict each other a hundred and fifty.

use batsat::{Callbacks, ClauseKind, Lit, lbool};

/// Conflicts that the solver may go through for one question.
const MOST_OF_ONE: u64 = 2_000;
/// Conflicts for all questions about one universe. Beyond them a question has [`LEAST_OF_ONE`].
const MOST_OF_ALL: u64 = 20_000;
/// Conflicts that every question has.
const LEAST_OF_ONE: u64 = 500;

/// A question that the solver gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Undecided;

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Asked {
    /// It can be.
    Possible,
    /// It cannot.
    Impossible,
    /// It was given up.
    Undecided,
}

impl From<lbool> for Asked {
    fn from(found: lbool) -> Self {
        match found {
            found if found == lbool::TRUE => Self::Possible,
            found if found == lbool::FALSE => Self::Impossible,
            _ => Self::Undecided,
        }
    }
}

/// Conflicts so far.
#[derive(Debug, Default)]
pub(super) struct Effort {
    of_one: u64,
    of_all: u64,
}

impl Callbacks for Effort {
    fn on_start(&mut self) {
        self.of_one = 0;
    }

    /// Each conflict teaches the solver a clause.
    fn on_new_clause(&mut self, _: &[Lit], _: ClauseKind) {
        self.of_one += 1;
        self.of_all += 1;
    }

    fn stop(&self) -> bool {
        self.of_one >= if self.of_all < MOST_OF_ALL { MOST_OF_ONE } else { LEAST_OF_ONE }
    }
}
