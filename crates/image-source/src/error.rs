//! Failures of an image source, by the step that failed.

use mainstay_oci::{Error, ErrorKind};

/// Image that cannot be pulled, admitted or unpacked. The text is that of the cause.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The settings of registries cannot be read, or no client can be made from them.
    #[error(transparent)]
    Settings(Box<Error>),
    /// The registry does not give the image, or the signature policy does not admit it.
    #[error(transparent)]
    Pull(Box<Error>),
    /// The image's layers cannot be unpacked.
    #[error(transparent)]
    Unpack(Box<Error>),
    /// The cache on the local disk cannot be read or written.
    #[error(transparent)]
    Cache(Box<Error>),
}

impl ImageError {
    /// Returns the failure of the registry, the policy, the content or the disk.
    pub fn cause(&self) -> &Error {
        match self {
            Self::Settings(cause) | Self::Pull(cause) | Self::Unpack(cause) | Self::Cache(cause) => cause,
        }
    }

    /// Returns the sort of failure.
    pub fn kind(&self) -> ErrorKind {
        self.cause().kind()
    }

    /// Returns what the user can do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        self.cause().hint()
    }

    pub(crate) fn settings(cause: Error) -> Self {
        Self::Settings(Box::new(cause))
    }

    pub(crate) fn pull(cause: Error) -> Self {
        Self::Pull(Box::new(cause))
    }

    pub(crate) fn unpack(cause: Error) -> Self {
        Self::Unpack(Box::new(cause))
    }

    pub(crate) fn cache(cause: Error) -> Self {
        Self::Cache(Box::new(cause))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use mainstay_diagnostics::chain;

    use super::*;

    /// The step that failed adds nothing to the text, and hides neither cause nor kind.
    #[test]
    fn the_text_is_that_of_the_cause() {
        let cause = || Error::Io { path: "/cache".into(), source: std::io::Error::other("disk full") };
        for error in [ImageError::settings(cause()), ImageError::pull(cause()), ImageError::unpack(cause()), ImageError::cache(cause())] {
            assert_eq!((error.to_string(), chain(&error)), (cause().to_string(), chain(&cause())));
            assert_eq!((error.kind(), error.hint()), (ErrorKind::Io, cause().hint()));
            assert_eq!(error.source().map(ToString::to_string), cause().source().map(ToString::to_string));
        }
    }
}
