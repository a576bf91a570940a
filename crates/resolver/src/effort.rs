//! The limits of the solver's work.
//!
//! Some requirements cannot be decided without trying combinations, and there can be more of these than time allows. So each question has a
//! limit, and all questions about one universe share one. Limits count conflicts, not time: equal input gives the equal answer on every
//! machine. Real catalogs need a few conflicts, a net of fifty packages that contradict each other a hundred and fifty.

use batsat::{Callbacks, ClauseKind, Lit, lbool};

/// The most conflicts that the solver may go through for one question.
const MOST_OF_ONE: u64 = 2_000;
/// The most conflicts for all questions about one universe. Beyond them a question has [`LEAST_OF_ONE`].
const MOST_OF_ALL: u64 = 20_000;
/// The conflicts that every question may use.
const LEAST_OF_ONE: u64 = 500;

/// A question that the solver gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undecided;

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// There is an answer.
    Possible,
    /// There is no answer.
    Impossible,
    /// The question was given up.
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
pub(crate) struct Effort {
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
