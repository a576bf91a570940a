//! Errors in bytes or values.

/// The reason why something could not be decoded or encoded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The bytes do not begin with `k8s\0`.
    #[error("the bytes are no Kubernetes object in protobuf: they do not begin with \"k8s\\0\"")]
    NoEnvelope,
    /// The envelope does not say what it holds.
    #[error("the object does not state its {0}")]
    NoType(&'static str),
    /// The kind has no protobuf form (custom resources, tables).
    #[error("the kind {kind:?} of {api_version:?} has no protobuf form: send and ask for application/json")]
    Unsupported {
        /// The apiVersion.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// The envelope holds something that is not plain protobuf or JSON.
    #[error("the object has the {what} {value:?}, which is not supported")]
    Content {
        /// The field of the envelope.
        what: &'static str,
        /// Its value.
        value: String,
    },
    /// More than the limits allow.
    #[error("the object has more than {limit} {what}")]
    Limit {
        /// The thing that there is too much of.
        what: &'static str,
        /// The amount that is allowed.
        limit: usize,
    },
    /// A field does not hold what its type says.
    #[error("{path}: {why}")]
    Field {
        /// Kind and path of the field.
        path: String,
        /// The problem there.
        why: String,
    },
}

impl Error {
    /// An error at a place whose path the callers know.
    pub(crate) fn here(why: impl Into<String>) -> Self {
        Self::Field { path: String::new(), why: why.into() }
    }

    /// The same one level up.
    pub(crate) fn under(self, name: &str) -> Self {
        match self {
            Self::Field { path, why } if path.is_empty() => Self::Field { path: name.to_owned(), why },
            Self::Field { path, why } if path.starts_with('[') => Self::Field { path: format!("{name}{path}"), why },
            Self::Field { path, why } => Self::Field { path: format!("{name}.{path}"), why },
            other => other,
        }
    }
}

/// The result of this crate's functions.
pub(crate) type Result<T> = std::result::Result<T, Error>;
