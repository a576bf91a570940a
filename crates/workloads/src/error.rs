//! The errors of controllers.

use mainstay_runtime::{ConnectError, Key};

/// An error of a controller's work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The API refused a request or could not be reached.
    #[error("{verb} {kind} {key} failed")]
    Call {
        /// The verb of the request.
        verb: &'static str,
        /// The kind of the object.
        kind: String,
        /// The namespace and name of the object.
        key: Key,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// Discovery failed, so the served kinds are unknown.
    #[error("discovery failed")]
    Discovery(#[source] Box<kube::Error>),
    /// An object does not have the form that the API promises.
    #[error("{kind} {key} cannot be read: {problem}")]
    Object {
        /// The kind of the object.
        kind: String,
        /// The namespace and name of the object.
        key: Key,
        /// The problem.
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

    /// Returns true if the object, or its namespace or owner, is not found.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// Returns true if the object changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409 && status.reason != "AlreadyExists")
    }

    /// Returns true if the object already exists.
    pub fn is_already_there(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Returns true if the server does not allow the verb for this kind.
    pub fn is_not_allowed(&self) -> bool {
        self.status().is_some_and(|status| status.code == 405)
    }

    /// Returns true if the namespace is being deleted, so that nothing can be created in it.
    pub fn is_terminating(&self) -> bool {
        self.status().is_some_and(|status| {
            let causes = status.details.as_ref().map(|details| &details.causes);
            status.code == 403 && causes.is_some_and(|causes| causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
        })
    }

    /// Returns true if the cluster changed since it was read: the object is reconciled again, and nothing is logged.
    pub fn is_stale(&self) -> bool {
        self.is_conflict() || self.is_not_found() || self.is_terminating()
    }

    /// Returns the server's own message if there is one, as it stands in conditions and events.
    pub fn message(&self) -> String {
        self.status().map_or_else(|| self.to_string(), |status| status.message.clone())
    }
}
