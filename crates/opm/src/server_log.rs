//! Logs of opm's servers: one line per event on stderr, `time="..." level=info msg="..." key=value`, fields by name.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use jiff::Timestamp;
use mainstay_terminal::screen::{self, Kind};

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A problem that needs attention.
    Warning,
    /// An action of the server.
    Info,
    /// Details for debugging.
    Debug,
}

/// The destination of the lines, and the fields that each of them has.
#[derive(Debug, Clone)]
pub struct ServerLog {
    most: Level,
    fields: Vec<(String, String)>,
}

impl ServerLog {
    /// A log of everything up to a level.
    pub fn new(most: Level) -> Self {
        Self { most, fields: Vec::new() }
    }

    /// The same log with more fields in each line; a field that is there already gets its new value.
    #[must_use]
    pub fn with(&self, fields: &[(&str, &str)]) -> Self {
        let mut all = self.clone();
        for (name, value) in fields {
            all.fields.retain(|(other, _)| other != name);
            all.fields.push(((*name).to_owned(), (*value).to_owned()));
        }
        all
    }

    /// Writes a line.
    pub fn write(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        if level > self.most {
            return;
        }
        screen::err(&self.with(fields).line(Timestamp::now(), level, message), Kind::Text);
    }

    fn line(mut self, now: Timestamp, level: Level, message: &str) -> String {
        let level = match level {
            Level::Warning => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        };
        self.fields.sort();
        let mut line = format!("time=\"{}\" level={level} msg={}", now.strftime("%Y-%m-%dT%H:%M:%SZ"), value(message));
        for (name, text) in &self.fields {
            // Writing to a string does not fail.
            let _written = write!(line, " {name}={}", value(text));
        }
        line.push('\n');
        line
    }
}

/// The value, plain if it has only plain characters, else quoted.
fn value(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/' | '@' | '^' | '+');
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("{text:?}") }
}

/// The file from which a kubelet reads the reason for a container's termination.
#[derive(Debug)]
pub struct TerminationLog(Option<File>);

impl TerminationLog {
    /// Opens the file, or logs why it cannot be opened.
    pub fn open(path: &Path, log: &ServerLog) -> Self {
        match OpenOptions::new().write(true).create(true).truncate(false).open(path) {
            Ok(file) => Self(Some(file)),
            Err(error) => {
                let error = format!("open {}: {error}", path.display());
                log.write(Level::Warning, "unable to set termination log path", &[("error", &error)]);
                Self(None)
            }
        }
    }

    /// Writes the reason.
    pub fn write(&self, reason: &str, log: &ServerLog) {
        let Some(mut file) = self.0.as_ref() else { return };
        if let Err(error) = file.write_all(format!("{reason}\n").as_bytes()) {
            log.write(Level::Warning, "termination log cannot be written", &[("error", &error.to_string())]);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// CATLG-45, CATLG-56: the line that scripts wait for, with its fields by name.
    #[test]
    fn lines_are_those_of_opm() {
        let log = ServerLog::new(Level::Info).with(&[("port", "50051"), ("database", "/database/index.db")]);
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let line = log.clone().line(now, Level::Info, "serving registry");
        assert_eq!(line, "time=\"2026-01-02T03:04:05Z\" level=info msg=\"serving registry\" database=/database/index.db port=50051\n");
        let line = log.with(&[("port", ""), ("error", "a \"b\"")]).line(now, Level::Warning, "plain");
        assert_eq!(
            line,
            "time=\"2026-01-02T03:04:05Z\" level=warning msg=plain database=/database/index.db error=\"a \\\"b\\\"\" port=\"\"\n"
        );
    }
}
