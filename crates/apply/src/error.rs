//! Errors of writes: the object, the verb, and the server's reason.

use std::fmt;

use mainstay_objects::{NotOurs, ObjectError, ObjectRef};
use mainstay_runtime::{KindError, NotLeading};
use serde_json::Value;

/// The operation that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by what they are")]
pub enum Verb {
    Get,
    List,
    Create,
    Apply,
    Patch,
    Replace,
    Delete,
    UpdateStatus,
    Watch,
}

impl fmt::Display for Verb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Apply => "apply",
            Self::Patch => "patch",
            Self::Replace => "replace",
            Self::Delete => "delete",
            Self::UpdateStatus => "update the status of",
            Self::Watch => "watch",
        })
    }
}

/// The server's reason, with the distinctions that callers need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The object does not exist.
    NotFound,
    /// The object exists already.
    AlreadyExists,
    /// The object is not in the state that the write expected (uid, resourceVersion).
    Conflict,
    /// Other managers own fields that the apply would change: message and field of each.
    FieldConflict(Vec<(String, String)>),
    /// The identity may not do it.
    Forbidden,
    /// The server does not know the identity.
    Unauthorized,
    /// The object is invalid: message and field of each cause.
    Invalid(Vec<(String, String)>),
    /// The request is refused.
    BadRequest,
    /// The server asks to come back later.
    TooManyRequests,
    /// The server cannot answer now.
    Unavailable,
    /// Any other reason, by its HTTP status.
    Other(u16),
}

/// The reason why a step was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The server refused.
    #[error("cannot {verb} {object}: {message}")]
    Refused {
        /// The operation.
        verb: Verb,
        /// The object.
        object: Box<ObjectRef>,
        /// The reason, for programs.
        reason: Reason,
        /// The reason, in the server's words.
        message: String,
    },
    /// The server could not be asked.
    #[error("cannot {verb} {object}: the API server did not answer")]
    Unreachable {
        /// The operation.
        verb: Verb,
        /// The object.
        object: Box<ObjectRef>,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The request was not sent, because another process may be leading by now.
    #[error("cannot {verb} {object}")]
    NotLeading {
        /// The operation.
        verb: Verb,
        /// The object.
        object: Box<ObjectRef>,
        /// The cause.
        #[source]
        source: NotLeading,
    },
    /// The server's answer is not understood.
    #[error("cannot {verb} {object}: unexpected answer ({problem})")]
    Answer {
        /// The operation.
        verb: Verb,
        /// The object.
        object: Box<ObjectRef>,
        /// The problem with the answer.
        problem: String,
    },
    /// The server does not serve the kind.
    #[error("the kind of {object} is unavailable")]
    Kind {
        /// The object.
        object: Box<ObjectRef>,
        /// The cause.
        #[source]
        source: KindError,
    },
    /// The object lacks a part of its identity.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The object has another owner (OLM1-OWN-01).
    #[error(transparent)]
    NotOurs(#[from] NotOurs),
    /// The object did not reach the awaited state in time.
    #[error("{object} is not ready after {seconds} s: {state}")]
    TimedOut {
        /// The object.
        object: Box<ObjectRef>,
        /// Time waited, in seconds.
        seconds: u64,
        /// Its present state.
        state: String,
    },
    /// The object was checked, and is not as it should be.
    #[error("{object} is not healthy yet: {state}")]
    NotHealthy {
        /// The object.
        object: Box<ObjectRef>,
        /// Its present state.
        state: String,
    },
    /// The object will not reach the awaited state.
    #[error("{object} failed: {state}")]
    Unhealthy {
        /// The object.
        object: Box<ObjectRef>,
        /// Its present state.
        state: String,
    },
}

impl WriteError {
    pub(crate) fn refused(verb: Verb, object: &ObjectRef, code: u16, status: &Value) -> Self {
        let text = |key: &str| status.get(key).and_then(Value::as_str).unwrap_or_default();
        let causes = || {
            let causes = status.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
            let part = |cause: &Value, key: &str| cause.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            causes.map(|cause| (part(cause, "message"), part(cause, "field"))).collect::<Vec<_>>()
        };
        let field_conflict = status
            .pointer("/details/causes")
            .and_then(Value::as_array)
            .is_some_and(|causes| causes.iter().any(|cause| cause.get("reason").is_some_and(|reason| reason == "FieldManagerConflict")));
        let reason = match (code, text("reason")) {
            (_, "AlreadyExists") => Reason::AlreadyExists,
            (409, _) if field_conflict => Reason::FieldConflict(causes()),
            (404, _) => Reason::NotFound,
            (409, _) => Reason::Conflict,
            (403, _) => Reason::Forbidden,
            (401, _) => Reason::Unauthorized,
            (422, _) => Reason::Invalid(causes()),
            (400, _) => Reason::BadRequest,
            (429, _) => Reason::TooManyRequests,
            (502..=504, _) => Reason::Unavailable,
            (other, _) => Reason::Other(other),
        };
        let message = match text("message") {
            "" => format!("HTTP status {code}"),
            message => message.to_owned(),
        };
        Self::Refused { verb, object: Box::new(object.clone()), reason, message }
    }

    /// Returns the server's reason, if the server refused.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Refused { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// Returns whether the object changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some(&Reason::Conflict)
    }

    /// Returns whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.reason() == Some(&Reason::NotFound)
    }

    /// Returns whether the identity lacks the permission.
    pub fn is_forbidden(&self) -> bool {
        self.reason() == Some(&Reason::Forbidden)
    }
}
