//! Many extensions at once: bundles that need each other are chosen together.

mod conflict;
mod encode;
mod explain;
mod hints;
#[cfg(test)]
mod least;
mod needs;
mod pool;
mod search;
mod universe;

use std::collections::BTreeMap;

use crate::request::{CandidateCatalog, Request};
use crate::resolve::{Choice, Resolution};

pub use conflict::{Conflict, Fact, FactKind, JointHint};

/// One extension that wants a bundle.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Who wants it, in the words of explanations: `clusterextension a`.
    pub subject: String,
    /// What is wanted, and what is installed.
    pub request: Request,
}

/// An API that is there and belongs to no wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provided {
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// What provides it, in the words of explanations: `customresourcedefinition foos.example.com`.
    pub by: String,
}

/// What is asked.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// The wishes, the most important one first.
    pub wishes: &'a [Wish],
    /// The catalogs.
    pub catalogs: &'a [CandidateCatalog<'a>],
    /// APIs that are there besides.
    pub provided: &'a [Provided],
    /// Whether bundles of packages that nobody asked for may be added.
    pub add_missing: bool,
    /// The subject of the only wish of which it is told why it can not be met or gets less than its best; every wish where it is nothing.
    /// What is chosen does not depend on it. Explanations and hints cost much more than the choice, so whoever wants one asks for one.
    pub about: Option<&'a str>,
}

/// Wishes whose answers depend on each other, and the answer.
#[derive(Debug)]
pub struct Component {
    /// The wishes, in their order.
    pub subjects: Vec<String>,
    /// What was found.
    pub outcome: Result<Solution, Box<Conflict>>,
}

/// A bundle for each wish, and what they need besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// By subject.
    pub chosen: BTreeMap<String, Resolution>,
    /// What must be added; dependencies first.
    pub added: Vec<Added>,
}

/// A bundle that nobody asked for but that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The bundle.
    pub choice: Choice,
    /// What needs it: `a.v1.2.0 requires package b >=2.0.0`.
    pub because: Vec<String>,
}

/// Chooses a bundle for each wish.
///
/// What is chosen is the best in a strict order: the wishes in their order, each its own best first (not deprecated, priority of the
/// catalog, newest; as [`resolve`](crate::resolve) chooses); then as few additions as possible; then, package by package, the best
/// addition (not deprecated, priority of the catalog, head of the default channel, default channel, newest). Equal input gives the equal
/// answer.
///
/// What is installed never goes back to an older version for the sake of another wish, not even without update edges (OLM1-UPG-11): only
/// where its own wish by itself leads to an older one, as a rollback does.
///
/// A wish that can not be met never stops the others (MS-EXPL-05): it is a component of its own, and what it has installed stays and
/// counts. Where wishes contradict each other, those with something installed go before those without, then the earlier goes first.
pub fn solve(problem: &Problem<'_>) -> Vec<Component> {
    search::solve(problem)
}
