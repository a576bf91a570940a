//! Severity of findings.

use serde::Serialize;

/// Severity of a finding, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It will harm users of the catalog.
    Error,
    /// It is probably a mistake.
    Warning,
    /// It is worth knowing.
    Info,
}

impl Level {
    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}
