//! Failures of a command: the object, the event, its cause, a hint, and the exit code (MS-CLI-06).

use std::error::Error;

use mainstay_diagnostics::{Cause, FailureKind, Finding, Hint, Severity};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use crate::printable::{self, printable};
use crate::screen::{self, Kind};

/// Exit codes (MS-CLI-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command failed, or its input is bad.
    Failed = 1,
    /// The command line is invalid or incomplete.
    Usage = 2,
    /// A named object does not exist.
    NotFound = 3,
    /// The request cannot be met as it is: unsatisfiable, unsafe or forbidden.
    Impossible = 4,
    /// The command took too long.
    TimedOut = 5,
    /// The node reboots, and the command is to be started again with it.
    Reboot = 6,
}

impl From<FailureKind> for Exit {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Failed => Self::Failed,
            FailureKind::Usage => Self::Usage,
            FailureKind::NotFound => Self::NotFound,
            FailureKind::Impossible => Self::Impossible,
            FailureKind::TimedOut => Self::TimedOut,
        }
    }
}

impl From<Exit> for FailureKind {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Failed | Exit::Reboot => Self::Failed,
            Exit::Usage => Self::Usage,
            Exit::NotFound => Self::NotFound,
            Exit::Impossible => Self::Impossible,
            Exit::TimedOut => Self::TimedOut,
        }
    }
}

/// Why a word of the command line is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidArgument(pub String);

/// The reason why a command ends without its result: a failure of an operation, with its presentation on this command line.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    told: mainstay_diagnostics::Failure,
    /// True if the answer on stdout has said everything already.
    silent: bool,
}

impl From<mainstay_diagnostics::Failure> for Failure {
    fn from(told: mainstay_diagnostics::Failure) -> Self {
        Self { exit: told.kind().into(), told, silent: false }
    }
}

impl Failure {
    /// Creates a failure of `subject`, the object first: `catalog ./x`, `package foo`.
    pub fn new(exit: Exit, subject: impl Into<String>, message: impl Into<String>) -> Self {
        mainstay_diagnostics::Failure::new(exit.into(), subject, message).into()
    }

    /// Creates a failure from an error; the chain of errors below it becomes its causes.
    pub fn of(exit: Exit, subject: impl Into<String>, error: &(dyn Error + 'static)) -> Self {
        mainstay_diagnostics::Failure::of(exit.into(), subject, error).into()
    }

    /// Creates a failure for bad input or for an operation that failed.
    pub fn failed(subject: impl Into<String>, error: &(dyn Error + 'static)) -> Self {
        Self::of(Exit::Failed, subject, error)
    }

    /// Creates the answer "no": stdout has said it, and only the exit code is left.
    pub fn no() -> Self {
        Self::silent(Exit::Impossible)
    }

    /// Creates a failure that is only an exit code: stdout has said everything.
    pub fn silent(exit: Exit) -> Self {
        Self { silent: true, exit, ..Self::new(exit, "", "") }
    }

    /// Returns the failure without its presentation on this command line.
    pub fn into_told(self) -> mainstay_diagnostics::Failure {
        self.told
    }

    /// Sets another exit code.
    #[must_use]
    pub fn exits(self, exit: Exit) -> Self {
        Self { exit, told: self.told.with_kind(exit.into()), ..self }
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(self, cause: impl Into<Cause>) -> Self {
        Self { told: self.told.because(cause), ..self }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<Hint>) -> Self {
        Self { told: self.told.hint(hint), ..self }
    }

    /// Returns the message alone.
    pub fn message(&self) -> &str {
        self.told.message()
    }

    /// Returns the hints.
    pub fn hints(&self) -> &[Hint] {
        self.told.hints()
    }

    /// Returns the message and its causes on one line.
    pub fn to_line(&self) -> String {
        self.told.to_line()
    }

    fn finding(&self) -> &Finding {
        self.told.finding()
    }

    /// Returns `{"error": {"message", "causes", "hints"}}`, as machine output has it (MS-CLI-09).
    pub fn to_json(&self) -> Value {
        let mut error = json!({"message": self.finding().message});
        if !self.finding().causes.is_empty() {
            error["causes"] = self.finding().causes.iter().map(|cause| Value::from(cause.to_line())).collect();
        }
        if !self.finding().hints.is_empty() {
            error["hints"] = self.finding().hints.iter().map(|hint| Value::from(hint.as_str())).collect();
        }
        json!({"error": error})
    }

    /// Writes the failure to stderr as upstream's tools begin their errors, without its subject: their texts name it themselves.
    pub fn report_as_upstream(&self) {
        if self.silent {
            return;
        }
        let told = match self.finding().causes.as_slice() {
            [] | [_] => self.to_line(),
            many => {
                let lines = std::iter::once(self.finding().message.clone()).chain(many.iter().map(Cause::to_line));
                lines.collect::<Vec<_>>().join("\n  ")
            }
        };
        screen::err(&format!("Error: {told}\n"), Kind::Text);
        for hint in &self.finding().hints {
            screen::err(&format!("{} {}\n", "hint:".cyan(), printable(hint.as_str())), Kind::Drawn);
        }
    }

    /// Writes the failure to stderr, unless stdout has said everything.
    pub fn report(&self) {
        if self.silent {
            return;
        }
        // A finding's text is escaped already, and only the program's own text begins a line.
        for line in printable::finding(&said_once(self.finding())).to_text().lines() {
            let line = if let Some(rest) = line.strip_prefix("error:") {
                format!("{}{rest}\n", "error:".red().bold())
            } else if let Some(rest) = line.strip_prefix("hint:") {
                format!("{}{rest}\n", "hint:".cyan())
            } else {
                format!("{line}\n")
            };
            screen::err(&line, Kind::Drawn);
        }
    }
}

/// Errors of the operating system in this program's words; Rust's begin with a capital letter and end with a number.
const SYSTEM: [&str; 6] =
    ["No such file or directory", "Permission denied", "Is a directory", "Not a directory", "Connection refused", "File exists"];

/// Returns the finding without repetition and in one wording: its message does not repeat the object that the subject names, and no cause
/// repeats the message.
fn said_once(finding: &Finding) -> Finding {
    let mut once = finding.clone();
    once.message = in_one_wording(&finding.message);
    let object = finding.subject.split_once(' ').map_or(finding.subject.as_str(), |(_, object)| object);
    for name in [finding.subject.as_str(), object] {
        let rest = once.message.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).filter(|_| !name.is_empty());
        if let Some(rest) = rest.map(str::to_owned) {
            once.message = rest;
        }
    }
    once.causes.iter_mut().for_each(reworded);
    let message = once.message.clone();
    once.causes.retain(|cause| !cause.causes.is_empty() || !message.contains(&cause.message));
    once
}

fn reworded(cause: &mut Cause) {
    cause.message = in_one_wording(&cause.message);
    cause.causes.iter_mut().for_each(reworded);
}

fn in_one_wording(text: &str) -> String {
    let mut text = text.to_owned();
    for words in SYSTEM {
        let (first, rest) = words.split_at(1);
        text = text.replace(words, &format!("{}{rest}", first.to_lowercase()));
    }
    while let Some(at) = text.find(" (os error ") {
        let Some(end) = text[at..].find(')') else { break };
        text.replace_range(at..=at + end, "");
    }
    text
}

/// Writes a warning to stderr.
pub fn warn(subject: &str, message: &str) {
    let text = printable::finding(&Finding::new(Severity::Warning, "warning", subject, message)).to_text();
    let rest = text.strip_prefix("warning:").unwrap_or(&text);
    screen::err(&format!("{}{rest}", "warning:".yellow()), Kind::Drawn);
}

/// Writes a line for people to stderr.
pub fn note(text: impl AsRef<str>) {
    screen::err(&format!("{}\n", text.as_ref()), Kind::Text);
}

/// Writes a line that this program painted to stderr; text of others in it was escaped before.
pub fn note_drawn(text: impl AsRef<str>) {
    screen::err(&format!("{}\n", text.as_ref()), Kind::Drawn);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-06: the object once, the system's words in one form, no cause that repeats the message.
    #[test]
    fn everything_is_said_once() {
        let told = |subject: &str, message: &str, causes: &[&str]| {
            let failure = causes.iter().fold(Failure::new(Exit::Failed, subject, message), |failure, cause| failure.because(*cause));
            said_once(failure.finding()).to_text()
        };
        for (subject, message, causes, wanted) in [
            ("/x", "/x: no such file or directory", &[][..], "error: /x: no such file or directory"),
            ("bundle /x", "/x: No such file or directory (os error 2)", &[], "error: bundle /x: no such file or directory"),
            (
                "file /x",
                "cannot be read",
                &["Permission denied (os error 13)"],
                "error: file /x: cannot be read\n  because permission denied",
            ),
            ("image a", "registry answered 404: gone", &["registry answered 404"], "error: image a: registry answered 404: gone"),
            ("cluster", "not found", &[], "error: cluster: not found"),
        ] {
            assert_eq!(told(subject, message, causes).trim_end(), wanted);
        }
    }
}
