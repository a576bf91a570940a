//! Resolution of many extensions at once: bundles that need each other are chosen together.

mod conflict;
mod encode;
mod explain;
mod hints;
#[cfg(test)]
mod least;
mod needs;
mod pool;
mod problem;
mod search;
mod universe;

pub use conflict::{Conflict, Fact, FactKind, JointHint};
pub use problem::{Added, Component, Problem, Provided, Root, Solution};

/// Chooses a bundle for each root.
///
/// The choice is the best in a strict order: the roots in their order, each its own best first (not deprecated, priority of the
/// catalog, newest; as [`resolve`](crate::resolve) chooses); then as few additions as possible; then, package by package, the best
/// addition (not deprecated, priority of the catalog, head of the default channel, default channel, newest). Equal input gives the equal
/// answer.
///
/// An installed bundle never goes back to an older version for the sake of another root, not even without update edges (OLM1-UPG-11): only
/// if its own root by itself leads to an older one, as a rollback does.
///
/// A root that cannot be met never stops the others (MS-EXPL-05): it is a component of its own, and its installed bundle stays and
/// counts. If roots contradict each other, those with an installed bundle go before those without, then the earlier goes first.
pub fn solve(problem: &Problem<'_>) -> Vec<Component> {
    search::solve(problem)
}
