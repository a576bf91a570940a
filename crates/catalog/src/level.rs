//! How much a finding weighs.

use serde::Serialize;

/// How much a finding weighs; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Somebody will be hurt by it.
    Error,
    /// It is probably not what was meant.
    Warning,
    /// Good to know.
    Info,
}

impl Level {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}
