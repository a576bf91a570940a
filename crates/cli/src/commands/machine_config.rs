//! `mainstay machine-config`: what MachineConfigs become together, and what a change of them does to a node, without a cluster (MACH-NODE-14).

mod apply;
mod butane;
mod diff;
mod files;
mod plan;
mod render;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_machine_config_core::cases::{self as recorded, CaseError};
use mainstay_terminal::errors::Failure;
use serde_json::Value;

use crate::cases;

/// The end of the help of verbs that only answer recorded questions.
const RECORDED: &str = "\
Examples:
  mainstay machine-config candidates --cases questions.jsonl
  zcat kubelet-conf.jsonl.gz | mainstay machine-config kubelet-conf --cases -

Every line of the file is a question in the form in which upstream's answers were recorded; a line of the output has its \"id\", and the answer
under \"out\".

Exit codes: 0 done, 1 bad input.";

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// The MachineConfigs of a pool as one
    Render(render::Render),
    /// The differences of two MachineConfigs, the action that each needs, and whether a node can take them in place
    Diff(diff::Diff),
    /// The effect of a MachineConfig on the pools and nodes of a cluster, before it is applied
    Plan(plan::PlanArguments),
    /// A MachineConfig on a directory tree: everything is written, or nothing
    Apply(apply::Apply),
    /// A Butane config as the Ignition config or MachineConfig that it stands for
    Butane(butane::Butane),
    /// Answer recorded questions about renders
    Merge(Merge),
    /// Answer recorded questions about changes that are done in place
    Reconcilable(Reconcilable),
    /// Answer recorded questions about what a change disturbs
    Disruption(Disruption),
    /// Answer recorded questions about which nodes of a pool are next
    #[command(after_help = RECORDED)]
    Candidates(Questions),
    /// Answer recorded questions about the status of a pool
    #[command(after_help = RECORDED)]
    PoolStatus(Questions),
    /// Answer recorded questions about which pools nodes belong to
    #[command(after_help = RECORDED)]
    PoolMembership(Questions),
    /// Answer recorded questions about the files about registries
    #[command(after_help = RECORDED)]
    RegistriesConf(Questions),
    /// Answer recorded questions about the kubelet's files
    #[command(after_help = RECORDED)]
    KubeletConf(Questions),
    /// Answer recorded questions about the files of the container runtime
    #[command(after_help = RECORDED)]
    ContainerRuntime(Questions),
}

/// A file of questions.
#[derive(Debug, Args)]
pub struct Questions {
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
\"ignition\". The answer has, under \"out\", \"validate\" (an error or null for each), \"mergeError\", \"merged\", \"name\", \"renderError\" and
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

Every line is {\"id\", \"old\": {\"name\", \"spec\"}, \"new\": {\"name\", \"spec\"}}. The answer has, under \"out\", \"error\" (null if a node can take the change in
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

Every line is {\"id\", \"old\", \"new\", \"policy\"}, where \"policy\" is a node disruption policy {\"files\", \"units\", \"sshkey\"}. The answer has, under \"out\",
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
        Commands::Plan(arguments) => plan::run(&arguments),
        Commands::Apply(arguments) => apply::run(&arguments),
        Commands::Butane(arguments) => butane::run(&arguments),
        Commands::Merge(Merge { questions }) => answer(&questions.cases, recorded::merge),
        Commands::Reconcilable(Reconcilable { questions }) => answer(&questions.cases, recorded::reconcilable),
        Commands::Disruption(Disruption { questions }) => answer(&questions.cases, recorded::disruption),
        Commands::Candidates(questions) => answer(&questions.cases, recorded::candidates),
        Commands::PoolStatus(questions) => answer(&questions.cases, recorded::pool_status),
        Commands::PoolMembership(questions) => answer(&questions.cases, recorded::pool_membership),
        Commands::RegistriesConf(questions) => answer(&questions.cases, recorded::registries_conf),
        Commands::KubeletConf(questions) => answer(&questions.cases, recorded::kubelet_conf),
        Commands::ContainerRuntime(questions) => answer(&questions.cases, recorded::container_runtime),
    }
}

/// Answers each line in the recorded form.
fn answer(path: &Path, question: fn(&Value) -> Result<Value, CaseError>) -> Result<(), Failure> {
    cases::answer(path, |case| question(case).map_err(|error| Failure::failed("case", &error)))
}
