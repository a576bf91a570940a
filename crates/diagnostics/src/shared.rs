//! Errors as facts: kept with their sources, cloned with the plans that contain them, compared by their text.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::{Failure, chain};

/// An error that can be cloned and compared. Its text is the whole chain, and two are equal if their texts are.
#[derive(Clone, Debug)]
pub struct SharedError(Arc<dyn Error + Send + Sync>);

impl SharedError {
    /// An error with its sources.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The error itself, for a closer look at its type.
    pub fn get(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

/// An error that is known only by its text, such as that of another controller's condition.
impl From<String> for SharedError {
    fn from(words: String) -> Self {
        Self(Arc::from(Box::<dyn Error + Send + Sync>::from(words)))
    }
}

impl From<&str> for SharedError {
    fn from(words: &str) -> Self {
        Self::from(words.to_owned())
    }
}

/// A failure of an operation, as one line.
impl From<Failure> for SharedError {
    fn from(failure: Failure) -> Self {
        Self::from(failure.to_line())
    }
}

impl PartialEq for SharedError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for SharedError {}

impl fmt::Display for SharedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&chain(&*self.0))
    }
}

/// The text already contains the chain, so there is no source that would repeat it.
impl Error for SharedError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("records cannot be read")]
    struct Outer(#[source] std::io::Error);

    /// MS-EXPL-01: the sources stay, and are told once.
    #[test]
    fn an_error_is_told_with_its_sources() {
        let error = SharedError::new(Outer(std::io::Error::other("disk")));
        assert_eq!(error.to_string(), "records cannot be read: disk");
        assert!(error.get().is::<Outer>());
        assert_eq!(error.clone(), SharedError::from("records cannot be read: disk"));
    }
}
