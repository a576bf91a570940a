//! Selection of the channel entries that stay.
//!
//! The rest must still be a channel: one head, every entry on the chain below it or skipped (CATLG-26). So the head is chosen first: the
//! highest selected entry that can be reached from all selected ones. Then the entries on the paths to it stay.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::reach::{Edges, Updates};

/// The part of a channel that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// One flag for each entry, true if it stays.
    pub entries: Vec<bool>,
    /// The head.
    pub head: usize,
}

/// Keeps the wanted entries and as little else as possible; `None` if they have no common update.
pub(super) fn keep(updates: &Updates<'_>, wanted: &[bool]) -> Option<Kept> {
    heads(updates, wanted).into_iter().find_map(|head| below(updates, wanted, head))
}

/// Candidates for the head, in order: the channel's own head if it is wanted, the wanted entries from the highest down, the others from the
/// lowest up.
fn heads(updates: &Updates<'_>, wanted: &[bool]) -> Vec<usize> {
    let (mut inside, mut outside): (Vec<usize>, Vec<usize>) = (0..wanted.len()).partition(|at| wanted[*at]);
    let top = updates.head();
    inside.sort_by_key(|at| (Some(*at) != top, Reverse(updates.version(*at).cloned())));
    outside.sort_by_key(|at| updates.version(*at).cloned());
    inside.extend(outside);
    inside
}

/// The wanted entries and the entries on their paths to a head; `None` if not all of them have a path.
fn below(updates: &Updates<'_>, wanted: &[bool], head: usize) -> Option<Kept> {
    let reaching = updates.reaching(head, Edges::Named);
    if wanted.iter().zip(&reaching).any(|(wanted, reaching)| *wanted && !*reaching) {
        return None;
    }
    let mut entries = wanted.to_vec();
    entries[head] = true;
    let ways = ways(updates, wanted, head);
    for at in (0..wanted.len()).filter(|at| wanted[*at]) {
        follow(&mut entries, &ways, at);
    }
    // A path by names can differ from the chain that validation walks: a stranded entry stays together with the entry that skips it.
    while let Some(stranded) = updates.stranded(&entries, head).first().copied() {
        let skipper = (0..entries.len()).find(|at| reaching[*at] && updates.skips(*at, stranded));
        match skipper {
            Some(skipper) => follow(&mut entries, &ways, skipper),
            None => chain(updates, &mut entries, head, stranded)?,
        }
    }
    Some(Kept { entries, head })
}

/// The next entry of each entry, on the path to the head that adds the fewest entries.
fn ways(updates: &Updates<'_>, wanted: &[bool], head: usize) -> Vec<Option<usize>> {
    let mut next = vec![None; wanted.len()];
    let mut best = vec![(usize::MAX, usize::MAX); wanted.len()];
    best[head] = (0, 0);
    let mut todo = BinaryHeap::from([Reverse((best[head], head))]);
    while let Some(Reverse((cost, to))) = todo.pop() {
        if cost > best[to] {
            continue;
        }
        let through = (cost.0 + usize::from(!wanted[to]), cost.1 + 1);
        for from in updates.named(to).filter(|from| *from != to) {
            if through < best[from] {
                best[from] = through;
                next[from] = Some(to);
                todo.push(Reverse((through, from)));
            }
        }
    }
    next
}

fn follow(entries: &mut [bool], ways: &[Option<usize>], from: usize) {
    let mut at = Some(from);
    while let Some(here) = at {
        entries[here] = true;
        at = ways[here];
    }
}

/// Keeps the chain of `replaces` from the head down to an entry; `None` if there is none, or if it is kept already and does not help,
/// because validation stops it at an entry that is skipped.
fn chain(updates: &Updates<'_>, entries: &mut [bool], head: usize, down_to: usize) -> Option<()> {
    let mut chain = vec![head];
    while let Some(at) = chain.last().copied().filter(|at| *at != down_to) {
        let next = updates.entry(at).replaces.as_ref().and_then(|name| updates.position(name.as_str()))?;
        if chain.contains(&next) {
            return None;
        }
        chain.push(next);
    }
    let mut added = false;
    for at in chain {
        added |= !std::mem::replace(&mut entries[at], true);
    }
    added.then_some(())
}
