//! What can go wrong when a controller works.

use mainstay_runtime::{ConnectError, Key};

/// Why a controller's work failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The API refused a request, or could not be reached.
    #[error("{verb} {kind} {key} failed")]
    Call {
        /// What was asked.
        verb: &'static str,
        /// Of which kind.
        kind: String,
        /// Of which object.
        key: Key,
        /// Why it failed.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server did not say what it serves.
    #[error("discovery failed")]
    Discovery(#[source] Box<kube::Error>),
    /// An object is not as the API promises.
    #[error("{kind} {key} cannot be read: {problem}")]
    Object {
        /// Of which kind.
        kind: String,
        /// Which object.
        key: Key,
        /// What is wrong with it.
        problem: String,
    },
}

/// The result of a controller's work.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Call { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }

    /// The object, or what it belongs to, is gone.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// The object changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409 && status.reason != "AlreadyExists")
    }

    /// The object is there already.
    pub fn is_already_there(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// The server refuses the verb for this kind.
    pub fn is_not_allowed(&self) -> bool {
        self.status().is_some_and(|status| status.code == 405)
    }

    /// The namespace is being deleted, so that nothing new can be made in it.
    pub fn is_terminating(&self) -> bool {
        self.status().is_some_and(|status| {
            let causes = status.details.as_ref().map(|details| &details.causes);
            status.code == 403 && causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
        })
    }

    /// The world moved while it was worked on: to be looked at again, without a word.
    pub fn is_stale(&self) -> bool {
        self.is_conflict() || self.is_not_found() || self.is_terminating()
    }

    /// The server's own words where there are some, as they stand in conditions and events.
    pub fn message(&self) -> String {
        self.status().map_or_else(|| self.to_string(), |status| status.message.clone())
    }
}
