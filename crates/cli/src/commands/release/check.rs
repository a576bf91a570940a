//! `mainstay release check`: validation of a ClusterVersion, and preconditions of an update (CVO-API-09, CVO-PRE-01).

use std::path::PathBuf;

use clap::Args;
use mainstay_api::config_v1::ClusterVersion;
use mainstay_cluster_version_core::cases as recorded;
use mainstay_cluster_version_core::precondition::{Found, unmet, verdict};
use mainstay_cluster_version_core::validation::validate;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

use super::merge::object;
use crate::cases;

/// Arguments of `release check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay release check clusterversion.yaml
  mainstay release check clusterversion.yaml --to 4.19.3
  mainstay release check --cases questions.jsonl

With --cases every line is {\"type\": \"validate\", \"input\"}, {\"type\": \"precondition\", \"clusterVersion\", \"desiredVersion\", \"force\"} or
{\"type\": \"delete\", \"object\", \"annotation\", \"steps\"}; the answers have \"errors\" and \"specAfterClearing\", \"errors\", \"block\" and
\"summary\", or what each step does.

Exit codes: 0 nothing blocks, 1 bad input, or something blocks.")]
pub struct Check {
    /// A file with the ClusterVersion
    #[arg(required_unless_present = "cases", value_name = "FILE")]
    cluster_version: Option<PathBuf>,
    /// The version to update to
    #[arg(long, value_name = "VERSION", conflicts_with = "cases")]
    to: Option<String>,
    /// As with spec.desiredUpdate.force: nothing blocks the update
    #[arg(long, requires = "to")]
    force: bool,
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "cluster_version")]
    cases: Option<PathBuf>,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

pub(super) fn run(arguments: &Check) -> Result<(), Failure> {
    if let Some(path) = &arguments.cases {
        cases::check_format(&arguments.output, &Format::Table)?;
        return cases::answer(path, |case| recorded::other(case).map_err(|error| Failure::failed("case", &error)));
    }
    let Some(path) = &arguments.cluster_version else { return Err(Failure::new(Exit::Usage, "release check", "needs a ClusterVersion")) };
    let subject = format!("clusterversion {}", path.display());
    let object = object(path)?;
    if object["kind"] != "ClusterVersion" {
        return Err(Failure::new(Exit::Failed, subject, "expected an object of kind ClusterVersion"));
    }
    let cluster_version: ClusterVersion = serde_json::from_value(object).map_err(|error| Failure::failed(&subject, &error))?;
    let errors = validate(&cluster_version);
    let unmet = arguments.to.as_deref().map(|version| unmet(Found::ClusterVersion(&cluster_version), version)).unwrap_or_default();
    let verdict = verdict(&unmet, arguments.force);
    let blocks = !errors.is_empty() || verdict.as_ref().is_some_and(|verdict| verdict.blocks);
    if arguments.output.is_table() {
        let mut table = Table::new(&["CHECK", "BLOCKS", "REASON", "MESSAGE"]);
        let answer = |blocks: bool| if blocks { "yes" } else { "no" }.to_owned();
        for error in &errors {
            table.row(["ClusterVersion".to_owned(), answer(true), error.reason().to_owned(), error.to_string()]);
        }
        for one in &unmet {
            let blocks = one.is_blocking() && !arguments.force;
            table.row([one.precondition.name().to_owned(), answer(blocks), one.reason().to_owned(), one.problem.to_string()]);
        }
        table.print()?;
    } else {
        let errors: Vec<Value> = errors.iter().map(|error| json!({"field": error.field.as_str(), "message": error.to_string()})).collect();
        let told = unmet.iter().map(|one| {
            json!({"precondition": one.precondition.name(), "reason": one.reason(), "message": one.problem.to_string(), "blocking": one.is_blocking()})
        });
        let answer = json!({
            "errors": errors, "preconditions": told.collect::<Vec<_>>(), "blocks": blocks, "summary": verdict.map(|verdict| verdict.summary),
        });
        output::value(&arguments.output, &answer)?;
    }
    if blocks { Err(Failure::new(Exit::Failed, subject, "does not pass")) } else { Ok(()) }
}
