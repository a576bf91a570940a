//! `mainstay machine-config`: what MachineConfigs become together, and what a change of them does to a node, without a cluster (MACH-NODE-14).

mod butane;
mod diff;
mod files;
mod render;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_machine_config_core::cases::{self as recorded, CaseError};
use mainstay_terminal::errors::Failure;
use serde_json::Value;

use crate::cases;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// The MachineConfigs of a pool as one
    Render(render::Render),
    /// What differs between two MachineConfigs, what each change needs, and whether a node can take it in place
    Diff(diff::Diff),
    /// A Butane config as the Ignition config or MachineConfig that it stands for
    Butane(butane::Butane),
    /// Answer recorded questions about renders
    Merge(Merge),
    /// Answer recorded questions about changes that are done in place
    Reconcilable(Reconcilable),
    /// Answer recorded questions about what a change disturbs
    Disruption(Disruption),
}

/// A file of questions.
#[derive(Debug, Args)]
struct Questions {
    /// Answer many questions: a file of JSON lines, - for standard input
    #[arg(long, value_name = "FILE")]
    cases: PathBuf,
}

/// Arguments of `machine-config merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config merge --cases questions.jsonl

Every line is {\"id\", \"pool\", \"controllerConfig\", \"configs\": [{\"name\", \"role\", \"spec\"}]}, where \"spec\" has the text of an Ignition config as
\"ignition\". The answer has \"validate\" (an error or null for each), \"mergeError\", \"merged\", \"name\", \"renderError\" and
\"osImageURLOverridden\". For files of MachineConfigs see: mainstay machine-config render --help.

Exit codes: 0 done, 1 bad input.")]
pub struct Merge {
    #[command(flatten)]
    questions: Questions,
}

/// Arguments of `machine-config reconcilable`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config reconcilable --cases questions.jsonl

Every line is {\"id\", \"old\": {\"name\", \"spec\"}, \"new\": {\"name\", \"spec\"}}. The answer has \"error\" (null if a node can take the change in
place), \"diff\", \"osChanges\" and \"kargs\", or \"diffError\". For files of MachineConfigs see: mainstay machine-config diff --help.

Exit codes: 0 done, 1 bad input.")]
pub struct Reconcilable {
    #[command(flatten)]
    questions: Questions,
}

/// Arguments of `machine-config disruption`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config disruption --cases questions.jsonl

Every line is {\"id\", \"old\", \"new\", \"policy\"}, where \"policy\" is a node disruption policy {\"files\", \"units\", \"sshkey\"}. The answer has
\"files\" and \"units\" that differ, \"registriesSafe\", and under \"legacy\" and \"policy\" the actions and whether the node is drained, with and
without ConfigMap image-registry-override-drain. For files of MachineConfigs see: mainstay machine-config diff --help.

Exit codes: 0 done, 1 bad input.")]
pub struct Disruption {
    #[command(flatten)]
    questions: Questions,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Render(arguments) => render::run(&arguments),
        Commands::Diff(arguments) => diff::run(&arguments),
        Commands::Butane(arguments) => butane::run(&arguments),
        Commands::Merge(Merge { questions }) => answer(&questions.cases, recorded::merge),
        Commands::Reconcilable(Reconcilable { questions }) => answer(&questions.cases, recorded::reconcilable),
        Commands::Disruption(Disruption { questions }) => answer(&questions.cases, recorded::disruption),
    }
}

/// Answers each line with the recorded form of its answer, and its identifier.
fn answer(path: &Path, question: fn(&Value) -> Result<Value, CaseError>) -> Result<(), Failure> {
    cases::answer(path, |case| {
        let mut out = question(case).map_err(|error| Failure::failed("case", &error))?;
        if let (Value::Object(out), Some(id)) = (&mut out, case.get("id")) {
            out.insert("id".to_owned(), id.clone());
        }
        Ok(out)
    })
}
