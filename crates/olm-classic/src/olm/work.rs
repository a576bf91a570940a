//! The items of the work queue.

use std::fmt;

use mainstay_runtime::Key;

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
