//! Why a write failed: which object, which verb, and the server's reason.

use std::fmt;

use mainstay_objects::{NotOurs, ObjectError, ObjectRef};
use mainstay_runtime::{KindError, NotLeading};
use serde_json::Value;

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by what they are")]
pub enum Verb {
    Get,
    List,
    Create,
    Apply,
    Patch,
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
            Self::Delete => "delete",
            Self::UpdateStatus => "update the status of",
            Self::Watch => "watch",
        })
    }
}

/// The server's reason, as far as callers tell them apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no such object.
    NotFound,
    /// There is one already.
    AlreadyExists,
    /// The object is not in the state that the write expected (uid, resourceVersion).
    Conflict,
    /// Others own fields that the apply would change: message and field of each.
    FieldConflict(Vec<(String, String)>),
    /// The identity may not do it.
    Forbidden,
    /// The server does not know the identity.
    Unauthorized,
    /// The object is refused: message and field of each cause.
    Invalid(Vec<(String, String)>),
    /// The request is refused.
    BadRequest,
    /// The server asks to come back later.
    TooManyRequests,
    /// The server is not able to answer now.
    Unavailable,
    /// Anything else the server says, by its HTTP status.
    Other(u16),
}

/// Why a step was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The server refused.
    #[error("cannot {verb} {object}: {message}")]
    Refused {
        /// What was tried.
        verb: Verb,
        /// On what.
        object: Box<ObjectRef>,
        /// Why, for programs.
        reason: Reason,
        /// Why, in the server's words.
        message: String,
    },
    /// The server could not be asked.
    #[error("cannot {verb} {object}: the API server did not answer")]
    Unreachable {
        /// What was tried.
        verb: Verb,
        /// On what.
        object: Box<ObjectRef>,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing was sent: another process may be leading by now.
    #[error("cannot {verb} {object}")]
    NotLeading {
        /// What was tried.
        verb: Verb,
        /// On what.
        object: Box<ObjectRef>,
        /// Why.
        #[source]
        source: NotLeading,
    },
    /// The answer makes no sense.
    #[error("cannot {verb} {object}: unexpected answer ({problem})")]
    Answer {
        /// What was tried.
        verb: Verb,
        /// On what.
        object: Box<ObjectRef>,
        /// What is wrong with it.
        problem: String,
    },
    /// The server does not serve the kind.
    #[error("the kind of {object} is not to be had")]
    Kind {
        /// The object.
        object: Box<ObjectRef>,
        /// Why.
        #[source]
        source: KindError,
    },
    /// The object does not say what it is.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The object belongs to somebody else (OLM1-OWN-01).
    #[error(transparent)]
    NotOurs(#[from] NotOurs),
    /// The object did not become what was waited for.
    #[error("{object} is not ready after {seconds} s: {state}")]
    TimedOut {
        /// The object.
        object: Box<ObjectRef>,
        /// How long was waited.
        seconds: u64,
        /// What it is instead.
        state: String,
    },
    /// The object was looked at, and is not as it should be.
    #[error("{object} is not healthy yet: {state}")]
    NotHealthy {
        /// The object.
        object: Box<ObjectRef>,
        /// What it is instead.
        state: String,
    },
    /// The object will not become what was waited for.
    #[error("{object} failed: {state}")]
    Unhealthy {
        /// The object.
        object: Box<ObjectRef>,
        /// What it is instead.
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

    /// The server's reason, where it refused.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Refused { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.reason() == Some(&Reason::NotFound)
    }

    /// Whether the identity lacks the right.
    pub fn is_forbidden(&self) -> bool {
        self.reason() == Some(&Reason::Forbidden)
    }
}
