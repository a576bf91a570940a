//! Failures of processes.

/// The reason why a container is no process yet, or why a question to it has no answer, as a kubelet tells it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProcessError(String);

impl From<String> for ProcessError {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

impl From<&str> for ProcessError {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}
