//! The items of the work queue.

use std::fmt;
use std::time::Duration;

use mainstay_runtime::{Key, Queue};

/// An item of work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// A CSV that is no copy.
    Csv(Key),
    /// All copies of a CSV, and its lifted roles.
    Copies(Key),
    /// The copy of a CSV in one namespace.
    Copy {
        /// The original.
        original: Key,
        /// The namespace of the copy.
        namespace: String,
    },
    /// An OperatorGroup.
    Group(Key),
    /// The labels of a namespace.
    Namespace(String),
    /// An OperatorCondition, and that of a CSV.
    Condition(Key),
    /// OLMConfig.
    Config,
    /// An `Operator` object.
    Operator(String),
    /// The component labels that follow from a Subscription.
    Adopt(Key),
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Csv(key) => write!(out, "ClusterServiceVersion {key}"),
            Self::Copies(key) => write!(out, "copies of ClusterServiceVersion {key}"),
            Self::Copy { original, namespace } => write!(out, "copy of ClusterServiceVersion {original} in {namespace}"),
            Self::Group(key) => write!(out, "OperatorGroup {key}"),
            Self::Namespace(name) => write!(out, "Namespace {name}"),
            Self::Condition(key) => write!(out, "OperatorCondition {key}"),
            Self::Config => out.write_str("OLMConfig cluster"),
            Self::Operator(name) => write!(out, "Operator {name}"),
            Self::Adopt(key) => write!(out, "Subscription {key}"),
        }
    }
}

/// The queues; clones share them. Copies are many, and wait in a queue of their own, so that nothing else waits for them.
#[derive(Clone, Default)]
pub(super) struct Queues {
    /// Everything but copies.
    pub main: Queue<Work>,
    /// Single copies.
    pub copies: Queue<Work>,
}

impl Queues {
    /// Adds an item.
    pub fn add(&self, work: Work) {
        self.of(&work).add(work);
    }

    /// Adds an item after a delay.
    pub fn add_after(&self, work: Work, wait: Duration) {
        self.of(&work).add_after(work, wait);
    }

    fn of(&self, work: &Work) -> &Queue<Work> {
        if matches!(work, Work::Copy { .. }) { &self.copies } else { &self.main }
    }
}
