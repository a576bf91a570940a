//! Errors of drains.

use std::time::Duration;

/// Why a drain cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// The server refused a request or did not answer.
    #[error("cannot {what}: {source}")]
    Request {
        /// The request.
        what: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// Pods forbid the drain; nothing was evicted. The texts are `kubectl drain`'s, one for each reason.
    #[error("{}", joined(.0))]
    Refused(Vec<String>),
    /// A node has more pods than a drain reads.
    #[error("node {node} has more than {most} pods")]
    TooManyPods {
        /// The node.
        node: String,
        /// The limit.
        most: usize,
    },
    /// The answer has not the form of a list.
    #[error("the list of pods on node {node} cannot be read: {source}")]
    Form {
        /// The node.
        node: String,
        /// The mistake.
        #[source]
        source: serde_json::Error,
    },
    /// A request cannot be formed: a name is no part of an address.
    #[error("cannot {what}: {source}")]
    Address {
        /// The request.
        what: String,
        /// The mistake.
        #[source]
        source: http::Error,
    },
    /// A drain did not end in its time.
    #[error("global timeout reached: {}", mainstay_golang::duration_text(*.0))]
    TimedOut(Duration),
}

impl DrainError {
    /// Returns whether the object of the request does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Request { source, .. } if matches!(&**source, kube::Error::Api(status) if status.code == 404))
    }
}

/// Several errors as Go's aggregate prints them.
pub(crate) fn joined(texts: &[String]) -> String {
    match texts {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
