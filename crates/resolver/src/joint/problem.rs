//! What is asked of the joint resolution, and its answer.

use std::collections::BTreeMap;

use super::conflict::Conflict;
use crate::request::{CandidateCatalog, Request};
use crate::resolve::{Choice, Resolution};

/// A root of the resolution: one subject's request for a bundle.
#[derive(Debug, Clone)]
pub struct Root {
    /// The subject in the words of explanations: `clusterextension a`.
    pub subject: String,
    /// The request, with the installed bundle.
    pub request: Request,
}

/// An API that exists without any bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provided {
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
    /// Its provider in the words of explanations: `customresourcedefinition foos.example.com`.
    pub by: String,
}

/// The problem to solve.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// The roots, the most important one first.
    pub roots: &'a [Root],
    /// The catalogs.
    pub catalogs: &'a [CandidateCatalog<'a>],
    /// APIs that exist besides.
    pub provided: &'a [Provided],
    /// True if bundles of packages that are not requested may be added.
    pub add_missing: bool,
    /// The subject of the only root for which it is explained why it cannot be met or gets less than its best; `None` for every root. The choice
    /// does not depend on it. Explanations and hints cost much more than the choice, so a caller who needs one asks for one.
    pub about: Option<&'a str>,
}

/// Roots whose answers depend on each other, and their answer.
#[derive(Debug)]
pub struct Component {
    /// The roots, in their order.
    pub subjects: Vec<String>,
    /// The answer, or the reason why there is none.
    pub outcome: Result<Solution, Box<Conflict>>,
}

/// A bundle for each root, and the bundles that they need besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// The resolutions by subject.
    pub chosen: BTreeMap<String, Resolution>,
    /// The bundles that must be added; dependencies first.
    pub added: Vec<Added>,
}

/// A bundle that is not requested but is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The bundle.
    pub choice: Choice,
    /// The bundles that need it: `a.v1.2.0 requires package b >=2.0.0`.
    pub because: Vec<String>,
}
