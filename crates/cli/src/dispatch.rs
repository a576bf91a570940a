//! Which tool this program is called as (MS-CLI-01), and the way from arguments to an exit code.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::args::{Cli, ColorWhen, Command};
use crate::errors::{Exit, Failure};
use crate::{commands, logging};

/// Runs the command that the arguments name.
pub fn run(argv: Vec<OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(as_mainstay(argv)) {
        Ok(cli) => cli,
        Err(error) => {
            // There is no place left to complain when the terminal is closed.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(Exit::Usage as u8),
            };
        }
    };
    match cli.global.color {
        ColorWhen::Auto => {}
        ColorWhen::Always => anstream::ColorChoice::Always.write_global(),
        ColorWhen::Never => anstream::ColorChoice::Never.write_global(),
    }
    let default = if matches!(cli.command, Command::Up(_)) { "info" } else { "error" };
    let outcome = logging::start(cli.global.log_level.as_deref().unwrap_or(default)).and_then(|()| commands::run(cli.command));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// The arguments as if the program had been called `mainstay`: a link named after another tool stands for that tool's sub-command.
fn as_mainstay(mut argv: Vec<OsString>) -> Vec<OsString> {
    let called = argv.first().map(Path::new).and_then(Path::file_stem).and_then(OsStr::to_str).unwrap_or_default();
    let words: &[&str] = match called {
        "opm" => &["opm"],
        "operator-sdk" => &["operator-sdk"],
        "kubectl-operator" => &["operator"],
        "kubectl-adm" => &["adm"],
        // kubectl mainstay is mainstay.
        _ => &[],
    };
    let at = argv.len().min(1);
    argv.splice(at..at, words.iter().map(OsString::from));
    if let Some(name) = argv.first_mut() {
        *name = "mainstay".into();
    }
    argv
}

/// The answer of a tool, or a part of one, that this version does not have (MS-CLI-01).
pub fn not_there(tool: &str, words: &[String], available: &str) -> Failure {
    let asked = words.iter().take(1).take_while(|word| !word.starts_with('-')).cloned().collect::<Vec<_>>().join(" ");
    let subject = if asked.is_empty() { tool.to_owned() } else { format!("{tool} {asked}") };
    Failure::new(Exit::Usage, subject, "is not part of this version of mainstay").hint(available.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// MS-CLI-01: the name it is called by decides which tool it is.
    #[test]
    fn links_stand_for_tools() {
        for (argv, expected) in [
            (&["/usr/bin/opm", "validate", "x"][..], &["mainstay", "opm", "validate", "x"][..]),
            (&["operator-sdk", "init"], &["mainstay", "operator-sdk", "init"]),
            (&["kubectl-operator", "list"], &["mainstay", "operator", "list"]),
            (&["kubectl-adm", "upgrade"], &["mainstay", "adm", "upgrade"]),
            (&["kubectl-mainstay", "list"], &["mainstay", "list"]),
            (&["./mainstay", "list"], &["mainstay", "list"]),
            (&[], &[]),
        ] {
            let found = as_mainstay(argv.iter().map(OsString::from).collect());
            assert_eq!(found, expected.iter().map(OsString::from).collect::<Vec<_>>());
        }
    }
}
