//! The output of a command, and the patch that it sends.

use std::fmt::Write as _;

use serde_json::Value;

/// The outcome of a command that did not refuse.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Screen {
    /// The text for the standard output; it is true after the patch, if there is one.
    pub text: String,
    /// Warnings, each with its line end.
    pub warnings: String,
    /// The merge patch of the ClusterVersion that must succeed before `text` is true.
    pub patch: Option<Value>,
}

impl Screen {
    /// Returns a screen with one line.
    pub(crate) fn line(text: impl Into<String>) -> Self {
        let mut screen = Self::default();
        screen.say(text.into());
        screen
    }

    /// Adds a line.
    pub(crate) fn say(&mut self, line: impl std::fmt::Display) {
        // Writing to a text cannot fail.
        let _written = writeln!(self.text, "{line}");
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, warning: impl std::fmt::Display) {
        let _written = writeln!(self.warnings, "warning: {warning}");
    }
}

/// A text whose further lines stand below its first one.
pub(crate) fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
}
