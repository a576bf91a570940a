//! `mainstay versions match`: checks if a version lies in a range (MS-CLI-09).

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format, Table};
use mainstay_versions::{CatalogRange, ExtensionRange, Version};
use serde_json::{Value, json};

use crate::cases;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Does each version lie in the range?
    Match(Match),
}

/// Arguments of `versions match`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay versions match '>=1.2.0 <2.0.0' 1.3.0                 the dialect of catalogs: skipRange, dependencies
  mainstay versions match --dialect extension '^1.2' 1.3.0       the dialect of a ClusterExtension's version

With --cases every line is {\"dialect\", \"range\", \"versions\"}; the answer is what -o json gives.

-o json gives {\"matches\", \"versions\": [{\"version\", \"matches\"}]}.

Exit codes: 0 all versions lie in the range, 4 at least one does not, 1 bad input.")]
pub struct Match {
    /// Whose way of writing ranges
    #[arg(long, value_enum, default_value_t = Dialect::Catalog)]
    dialect: Dialect,
    /// The range
    #[arg(required_unless_present = "cases", allow_hyphen_values = true)]
    range: Option<String>,
    /// Versions
    #[arg(required_unless_present = "cases")]
    versions: Vec<String>,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "range")]
    cases: Option<PathBuf>,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dialect {
    Catalog,
    Extension,
}

enum Range {
    Catalog(CatalogRange),
    Extension(ExtensionRange),
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    let Commands::Match(arguments) = command;
    if let Some(path) = &arguments.cases {
        cases::check_format(&arguments.output, &Format::Table)?;
        return cases::answer(path, |case| {
            let dialect = match cases::text(case, "dialect")?.as_deref() {
                None => arguments.dialect,
                Some(name) => Dialect::from_str(name, false).map_err(|_| {
                    Failure::new(
                        mainstay_terminal::errors::Exit::Failed,
                        "case",
                        format!("field dialect: expected catalog or extension, found {name:?}"),
                    )
                })?,
            };
            let results = matches(dialect, &cases::required(case, "range")?, &cases::list(case, "versions")?.unwrap_or_default())?;
            Ok(answer(&results))
        });
    }
    let results = matches(arguments.dialect, arguments.range.as_deref().unwrap_or_default(), &arguments.versions)?;
    if arguments.output.is_table() {
        let mut table = Table::new(&["VERSION", "MATCHES"]);
        for (version, fits) in &results {
            table.row([version.as_str(), if *fits { "yes" } else { "no" }]);
        }
        table.print()?;
    } else {
        output::value(&arguments.output, &answer(&results))?;
    }
    if results.iter().all(|(_, fits)| *fits) { Ok(()) } else { Err(Failure::no()) }
}

fn matches(dialect: Dialect, range: &str, versions: &[String]) -> Result<Vec<(String, bool)>, Failure> {
    let subject = || format!("range {range:?}");
    let parsed = match dialect {
        Dialect::Catalog => Range::Catalog(CatalogRange::parse(range).map_err(|error| Failure::failed(subject(), &error))?),
        Dialect::Extension => Range::Extension(ExtensionRange::parse(range).map_err(|error| Failure::failed(subject(), &error))?),
    };
    let check = |text: &String| {
        let version = Version::parse(text).map_err(|error| Failure::failed(format!("version {text:?}"), &error))?;
        let fits = match &parsed {
            Range::Catalog(range) => range.matches(&version),
            Range::Extension(range) => range.matches(&version),
        };
        Ok((text.clone(), fits))
    };
    versions.iter().map(check).collect()
}

fn answer(results: &[(String, bool)]) -> Value {
    let listed: Vec<Value> = results.iter().map(|(version, fits)| json!({"version": version, "matches": fits})).collect();
    json!({"matches": results.iter().all(|(_, fits)| *fits), "versions": listed})
}
