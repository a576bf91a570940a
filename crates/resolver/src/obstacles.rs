//! Why not upgraded (MS-EXPL-04): what holds back the newest bundles of a package whose extension is healthy.

use crate::hints::Change;
use crate::resolve::Choice;

/// A newer bundle, and the one thing that keeps the extension from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The newer bundle.
    pub newer: Choice,
    /// What holds it back.
    pub kind: ObstacleKind,
    /// In words: object first, without a hint.
    pub text: String,
    /// Changes that lead to the newer bundle, all of them together; they were tried. Empty where no change to the request does.
    pub changes: Vec<Change>,
    /// Bundles in between that would lead there, in the order of the steps, the newer one last; empty where there is no such path.
    pub path: Vec<String>,
}

/// What holds a bundle back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObstacleKind {
    /// The version range of the request.
    Range,
    /// The channels of the request.
    Channels,
    /// No update edge from the installed bundle.
    Edge,
    /// It is deprecated, and another one is not.
    Deprecated,
    /// Its catalog has a lower priority.
    Priority,
    /// Its catalog is not selected.
    NotSelected,
    /// Its catalog does not serve.
    NotServing,
    /// Catalogs of one priority have it.
    Tied,
    /// It declares a dependency.
    Dependency,
    /// Its version can not be read.
    Version,
    /// Several of these together.
    Several,
}
