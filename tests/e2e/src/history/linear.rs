//! Linearizability of one object's operations: each must seem to happen at one instant between its begin and its end.
//!
//! The search is Wing and Gong's, with Lowe's memory of where it has been: take any operation that no other must come before, see
//! whether the object can have answered so, go on with the rest; never look twice at the same rest in the same state.

use std::collections::{HashMap, HashSet};

use super::Revision;

/// What a client asked. Values are unique, so that each tells which write it is from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Create with this value.
    Create(u64),
    /// Replace by this value; where a revision is given, only of that.
    Update(u64, Option<Revision>),
    /// Delete; where a revision is given, only that.
    Delete(Option<Revision>),
    /// Read.
    Get,
}

/// What it was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// Written at this revision (a deletion tells none).
    Done(Option<Revision>),
    /// Its value and revision.
    Found(u64, Revision),
    /// There is none.
    Absent,
    /// There is one already.
    Exists,
    /// It has another revision.
    Conflict,
    /// Nothing: a write may have happened, or may yet.
    Nothing,
}

/// An operation, with instants of one clock.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Before it was sent.
    pub begin: u64,
    /// After the answer came; without an answer, never.
    pub end: u64,
    /// What was asked.
    pub ask: Ask,
    /// What was told.
    pub told: Told,
}

/// The object: its value and its revision, which is not known where nobody was told.
type State = Option<(u64, Option<Revision>)>;

/// The operations that are done.
type Done = Vec<u64>;

/// An explanation of all operations, or the most of them that can be explained, by their places in `operations`.
pub fn check(operations: &[Operation]) -> Result<(), Vec<usize>> {
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_by_key(|at| operations[*at].begin);
    let (mut seen, mut best) = (HashMap::<Done, HashSet<State>>::new(), Vec::new());
    let mut stack = vec![(vec![0_u64; operations.len().div_ceil(64)], None::<(u64, Option<Revision>)>, Vec::<usize>::new())];
    while let Some((done, state, path)) = stack.pop() {
        let is_done = |at: usize| done[at / 64] & (1 << (at % 64)) != 0;
        let mut open = order.iter().copied().filter(|at| !is_done(*at)).peekable();
        if open.peek().is_none() {
            return Ok(());
        }
        if path.len() > best.len() {
            best.clone_from(&path);
        }
        // Whatever ends first must come before everything that begins later.
        let first_end = order.iter().filter(|at| !is_done(**at)).map(|at| operations[*at].end).min().unwrap_or(u64::MAX);
        for at in open {
            if operations[at].begin > first_end {
                break;
            }
            let mut done = done.clone();
            done[at / 64] |= 1 << (at % 64);
            for next in step(state, &operations[at]) {
                if seen.entry(done.clone()).or_default().insert(next) {
                    let mut path = path.clone();
                    path.push(at);
                    stack.push((done.clone(), next, path));
                }
            }
        }
    }
    Err(best)
}

/// The states that an operation can lead to; none where the answer cannot have been given.
fn step(state: State, operation: &Operation) -> Vec<State> {
    let fits = |wanted: Option<Revision>| match (wanted, state) {
        (None, Some(_)) => true,
        (Some(wanted), Some((_, known))) => known.is_none_or(|known| known == wanted),
        (_, None) => false,
    };
    let later = |revision: Option<Revision>| match (state, revision) {
        (Some((_, Some(old))), Some(new)) => new > old,
        _ => true,
    };
    match (&operation.ask, &operation.told) {
        (Ask::Create(value), Told::Done(revision)) if state.is_none() => vec![Some((*value, *revision))],
        (Ask::Update(value, wanted), Told::Done(revision)) if fits(*wanted) && later(*revision) => vec![Some((*value, *revision))],
        (Ask::Delete(wanted), Told::Done(_)) if fits(*wanted) => vec![None],
        (Ask::Get, Told::Found(value, revision)) => match state {
            Some((now, known)) if now == *value && known.is_none_or(|known| known == *revision) => vec![Some((now, Some(*revision)))],
            _ => Vec::new(),
        },
        (Ask::Get | Ask::Update(..) | Ask::Delete(_), Told::Absent) if state.is_none() => vec![None],
        (Ask::Create(_), Told::Exists) if state.is_some() => vec![state],
        (Ask::Update(_, Some(wanted)) | Ask::Delete(Some(wanted)), Told::Conflict) => match state {
            Some((_, known)) if known != Some(*wanted) => vec![state],
            _ => Vec::new(),
        },
        // It happened, or it did not.
        (Ask::Create(value), Told::Nothing) if state.is_none() => vec![None, Some((*value, None))],
        (Ask::Update(value, wanted), Told::Nothing) if fits(*wanted) => vec![state, Some((*value, None))],
        (Ask::Delete(wanted), Told::Nothing) if fits(*wanted) => vec![state, None],
        (_, Told::Nothing) => vec![state],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(begin: u64, end: u64, ask: Ask, told: Told) -> Operation {
        Operation { begin, end, ask, told }
    }

    /// The checker itself: histories that a correct server can produce, and ones that it cannot.
    #[test]
    fn good_histories_pass_and_bad_ones_do_not() {
        use Ask::{Create, Delete, Get, Update};
        use Told::{Absent, Conflict, Done, Exists, Found, Nothing};
        const NEVER: u64 = u64::MAX;
        let cases: &[(&str, bool, Vec<Operation>)] = &[
            (
                "one after the other",
                true,
                vec![
                    op(0, 1, Create(1), Done(Some(5))),
                    op(2, 3, Get, Found(1, 5)),
                    op(4, 5, Delete(Some(5)), Done(None)),
                    op(6, 7, Get, Absent),
                ],
            ),
            (
                "a read of what is being written",
                true,
                vec![op(0, 9, Create(1), Done(Some(5))), op(1, 2, Get, Absent), op(3, 4, Get, Found(1, 5))],
            ),
            ("back to before", false, vec![op(0, 9, Create(1), Done(Some(5))), op(1, 2, Get, Found(1, 5)), op(3, 4, Get, Absent)]),
            (
                "a stale read",
                false,
                vec![op(0, 1, Create(1), Done(Some(5))), op(2, 3, Update(2, Some(5)), Done(Some(6))), op(4, 5, Get, Found(1, 5))],
            ),
            ("a lost write", false, vec![op(0, 1, Create(1), Done(Some(5))), op(2, 3, Get, Absent)]),
            (
                "two win the same revision",
                false,
                vec![
                    op(0, 1, Create(1), Done(Some(5))),
                    op(2, 9, Update(2, Some(5)), Done(Some(6))),
                    op(2, 9, Update(3, Some(5)), Done(Some(7))),
                ],
            ),
            (
                "one of two wins",
                true,
                vec![
                    op(0, 1, Create(1), Done(Some(5))),
                    op(2, 9, Update(2, Some(5)), Done(Some(6))),
                    op(2, 9, Update(3, Some(5)), Conflict),
                ],
            ),
            ("a conflict with nobody", false, vec![op(0, 1, Create(1), Done(Some(5))), op(2, 3, Update(2, Some(5)), Conflict)]),
            ("two create", false, vec![op(0, 9, Create(1), Done(Some(5))), op(0, 9, Create(2), Done(Some(6)))]),
            ("two create, one is told", true, vec![op(0, 9, Create(1), Done(Some(5))), op(0, 9, Create(2), Exists)]),
            ("unanswered and done", true, vec![op(0, NEVER, Create(1), Nothing), op(5, 6, Get, Found(1, 7))]),
            (
                "unanswered and not done",
                true,
                vec![op(0, NEVER, Create(1), Nothing), op(5, 6, Get, Absent), op(7, 8, Create(2), Done(Some(8)))],
            ),
            ("unanswered, done late", true, vec![op(0, NEVER, Create(1), Nothing), op(5, 6, Get, Absent), op(7, 8, Get, Found(1, 9))]),
            (
                "unanswered, done and undone",
                false,
                vec![op(0, NEVER, Create(1), Nothing), op(5, 6, Get, Found(1, 7)), op(7, 8, Get, Absent)],
            ),
            ("a revision that goes back", false, vec![op(0, 1, Create(1), Done(Some(5))), op(2, 3, Update(2, None), Done(Some(4)))]),
            ("two revisions of one write", false, vec![op(0, 1, Create(1), Done(Some(5))), op(2, 3, Get, Found(1, 6))]),
            ("a value from nowhere", false, vec![op(0, 1, Create(1), Done(Some(5))), op(2, 3, Get, Found(9, 5))]),
        ];
        for (name, good, operations) in cases {
            assert_eq!(check(operations).is_ok(), *good, "{name}: {:?}", check(operations));
        }
    }
}
