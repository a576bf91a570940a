//! `mainstay graph-data lint`: findings about the update service's graph-data before it is served (CVO-GD-06).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_diagnostics::{Finding, Severity, counted};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_update_graph::Release;
use mainstay_update_graph::graph_data::Files;
use mainstay_update_graph::lint::{Rule, lint};
use serde_json::json;

use super::update_graph::architecture_or_default;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Find faults in graph-data, with file, line and what to do
    Lint(Lint),
}

/// Arguments of `graph-data lint`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay graph-data lint ./graph-data
  mainstay graph-data lint ./graph-data --releases releases.json     versions that no release has are found, too
  mainstay graph-data lint ./graph-data -o json
  mainstay graph-data lint --list-rules

Findings are errors, warnings and infos; infos are shown with --show info. An error means that the graph cannot be built, or that clusters drop
an update.
Exit codes: 0 no error, 1 the directory cannot be read, 4 there are errors (with --level warning: or warnings).")]
pub struct Lint {
    /// The directory, or a tar archive
    #[arg(required_unless_present = "list_rules", value_name = "DIR|ARCHIVE")]
    place: Option<PathBuf>,
    /// Releases to compare with: a list, or a directory of release-metadata documents
    #[arg(long, value_name = "FILE|DIR")]
    releases: Option<PathBuf>,
    /// The least severity that makes the exit code 4: error, warning or info
    #[arg(long, default_value = "error", value_name = "LEVEL", value_parser = severity)]
    level: Severity,
    /// The least severity that is shown; machine output shows all
    #[arg(long, default_value = "warning", value_name = "LEVEL", value_parser = severity)]
    show: Severity,
    /// List the rules
    #[arg(long, exclusive = true)]
    list_rules: bool,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

fn severity(text: &str) -> Result<Severity, mainstay_terminal::errors::InvalidArgument> {
    match text {
        "error" => Ok(Severity::Error),
        "warning" => Ok(Severity::Warning),
        "info" => Ok(Severity::Info),
        other => Err(mainstay_terminal::errors::InvalidArgument(format!("expected error, warning or info, found {other:?}"))),
    }
}

/// Runs the command.
pub fn run(command: Commands) -> Result<(), Failure> {
    let Commands::Lint(arguments) = command;
    if arguments.list_rules {
        let mut table = Table::new(&["RULE", "LEVEL", "FINDS"]);
        for rule in Rule::ALL {
            table.row([rule.id(), &rule.severity().to_string(), rule.title()]);
        }
        return table.print();
    }
    let Some(place) = &arguments.place else { return Err(Failure::new(Exit::Usage, "graph-data lint", "names no directory")) };
    let files = read(place)?;
    let releases = arguments.releases.as_deref().map(|path| releases(path, &architecture_or_default(None))).transpose()?;
    let findings = lint(&files, releases.as_deref());
    let number = |severity: Severity| findings.iter().filter(|finding| finding.severity == severity).count();
    if arguments.output.is_table() {
        for finding in findings.iter().filter(|finding| finding.severity >= arguments.show) {
            output::line(shown(place, finding))?;
        }
        note(format!(
            "{}, {}, {}",
            counted(number(Severity::Error), "error"),
            counted(number(Severity::Warning), "warning"),
            counted(number(Severity::Info), "info")
        ));
    } else {
        let value = json!({
            "findings": findings, "errors": number(Severity::Error), "warnings": number(Severity::Warning), "infos": number(Severity::Info),
        });
        output::value(&arguments.output, &value)?;
    }
    if findings.iter().any(|finding| finding.severity >= arguments.level) { Err(Failure::no()) } else { Ok(()) }
}

/// `FILE:LINE: severity: rule: message`, and what to do below.
fn shown(place: &Path, finding: &Finding) -> String {
    let location = finding.location.as_ref();
    let file = location.and_then(|location| location.file.as_deref()).unwrap_or_default();
    let line = location.and_then(|location| location.line).map(|line| format!(":{line}")).unwrap_or_default();
    let file = place.join(file);
    let mut text = format!("{}{line}: {}: {}: {}", file.display(), finding.severity, finding.code, finding.message);
    for hint in &finding.hints {
        text.push_str("\n  hint: ");
        text.push_str(hint.as_str());
    }
    text
}

/// Reads the files of a directory or of an archive.
pub fn read(place: &Path) -> Result<Files, Failure> {
    let subject = format!("graph-data {}", place.display());
    let read = if place.is_dir() {
        mainstay_update_service::graph_data_from_directory(place)
    } else {
        mainstay_update_service::graph_data_from_archive(place)
    };
    read.map_err(|error| Failure::failed(subject, &error))
}

/// Reads releases; those without an architecture get the one given.
pub fn releases(path: &Path, architecture: &str) -> Result<Vec<Release>, Failure> {
    let listed =
        mainstay_update_service::read_place(path).map_err(|error| Failure::failed(format!("releases {}", path.display()), &error))?;
    Ok(listed.into_iter().filter_map(|listed| listed.into_release(architecture)).collect())
}
