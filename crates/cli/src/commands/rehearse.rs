//! `mainstay rehearse`: an update looked at beforehand, with the objects of a live cluster (CVO-SIM-03).

use std::path::PathBuf;

use clap::Args;
use mainstay_operations::update_plan::Answers;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::runtime;
use serde_json::json;

use super::cluster_assessment::{Assessed, Releases};
use super::plan;
use crate::update_text;

const ASSUMPTIONS: [&str; 4] = [
    "what the operators of the release do themselves, beyond the objects of its payload, is not known",
    "drains are judged by budgets and pods as they are now",
    "selectors and tolerations of single pods are not looked at when free capacity is counted",
    "webhooks that are reached by URL are taken to answer",
];

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay rehearse --live --cluster-update 4.19.44
  mainstay rehearse --live --cluster-update 4.19.44 --metrics answers.jsonl
  mainstay rehearse --live --cluster-update 4.19.44 --metrics metrics.txt -o json

The objects of the cluster that the update depends on are read, and preconditions, risks, manifests, capabilities, deletions, definitions
with their objects, pools, budgets and capacity are judged for them. Nothing is written.

--metrics answers the queries of risks instead of the cluster's own evaluation: lines {\"query\": TEXT, \"matches\": true|false}, or a page in
Prometheus' text format, over which the queries are evaluated.

Exit codes: 0 nothing blocks, 1 bad input, or a check could not be made, 3 no such release, 4 something blocks.")]
pub struct Arguments {
    /// With the objects of the cluster as they are now
    #[arg(long, required = true)]
    live: bool,
    /// The update to this version
    #[arg(long, value_name = "VERSION")]
    cluster_update: String,
    /// Answers to the queries of risks
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    #[command(flatten)]
    releases: Releases,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let answers = match &arguments.metrics {
        Some(path) => {
            let text = plan::text(path)?;
            Some(Answers::parse(&text).map_err(|error| Failure::failed(path.display().to_string(), &error))?)
        }
        None => None,
    };
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let assessed = arguments.releases.assess(&session, Some(&arguments.cluster_update), answers.as_ref()).await?;
        if arguments.output.is_table() {
            print(&assessed)?;
        } else {
            let mut document = assessed.document("cluster-update")?;
            document["kind"] = "Rehearsal".into();
            document["assumptions"] = json!(ASSUMPTIONS);
            output::value(&arguments.output, &document)?;
        }
        assessed.verdict(arguments.output.is_table())
    })
}

fn print(assessed: &Assessed) -> Result<(), Failure> {
    output::line(format!("Rehearsal of the update from {} to {}", assessed.from, assessed.to))?;
    if let Some(plan) = &assessed.found.plan {
        let sum = plan.summary;
        output::line(format!(
            "{} objects created, {} changed, {} deleted, {} unchanged, in {} steps",
            sum.created,
            sum.updated,
            sum.deleted,
            sum.unchanged,
            plan.groups.iter().map(|group| group.step).max().unwrap_or_default()
        ))?;
        output::line(format!("mainstay plan cluster-update --to {} shows them", assessed.to))?;
    }
    update_text::report(&assessed.found.report)?;
    update_text::estimate(&assessed.found.estimate)?;
    update_text::section("Assumptions", ASSUMPTIONS.iter().map(|one| (*one).to_owned()))
}
