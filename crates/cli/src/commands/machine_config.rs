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
    /// Answer recorded questions about which nodes of a pool are next
    Candidates(Candidates),
    /// Answer recorded questions about the status of a pool
    PoolStatus(PoolStatus),
    /// Answer recorded questions about which pools nodes belong to
    PoolMembership(PoolMembership),
    /// Answer recorded questions about the files about registries
    RegistriesConf(RegistriesConf),
    /// Answer recorded questions about the kubelet's files
    KubeletConf(KubeletConf),
    /// Answer recorded questions about the files of the container runtime
    ContainerRuntime(ContainerRuntime),
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

/// Arguments of `machine-config candidates`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config candidates --cases questions.jsonl

Every line is a question about which nodes of a pool are next, in the form in which upstream's answers were recorded; the answer stands under \"out\".

Exit codes: 0 done, 1 bad input.")]
pub struct Candidates {
    #[command(flatten)]
    questions: Questions,
}

/// Arguments of `machine-config pool-status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config pool-status --cases questions.jsonl

Every line is a question about the status of a pool, in the form in which upstream's answers were recorded; the answer stands under \"out\".

Exit codes: 0 done, 1 bad input.")]
pub struct PoolStatus {
    #[command(flatten)]
    questions: Questions,
}

/// Arguments of `machine-config pool-membership`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config pool-membership --cases questions.jsonl

Every line is a question about which pools nodes belong to, in the form in which upstream's answers were recorded; the answer stands under \"out\".

Exit codes: 0 done, 1 bad input.")]
pub struct PoolMembership {
    #[command(flatten)]
    questions: Questions,
}

/// Arguments of `machine-config registries-conf`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config registries-conf --cases questions.jsonl

Every line is a question about the files about registries, in the form in which upstream's answers were recorded; the answer stands under \"out\".

Exit codes: 0 done, 1 bad input.")]
pub struct RegistriesConf {
    #[command(flatten)]
    questions: Questions,
}

/// Arguments of `machine-config kubelet-conf`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config kubelet-conf --cases questions.jsonl

Every line is a question about the kubelet's files, in the form in which upstream's answers were recorded; the answer stands under \"out\".

Exit codes: 0 done, 1 bad input.")]
pub struct KubeletConf {
    #[command(flatten)]
    questions: Questions,
}

/// Arguments of `machine-config container-runtime`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config container-runtime --cases questions.jsonl

Every line is a question about the files of the container runtime, in the form in which upstream's answers were recorded; the answer stands under \"out\".

Exit codes: 0 done, 1 bad input.")]
pub struct ContainerRuntime {
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
        Commands::Candidates(Candidates { questions }) => answer(&questions.cases, recorded::candidates),
        Commands::PoolStatus(PoolStatus { questions }) => answer(&questions.cases, recorded::pool_status),
        Commands::PoolMembership(PoolMembership { questions }) => answer(&questions.cases, recorded::pool_membership),
        Commands::RegistriesConf(RegistriesConf { questions }) => answer(&questions.cases, recorded::registries_conf),
        Commands::KubeletConf(KubeletConf { questions }) => answer(&questions.cases, recorded::kubelet_conf),
        Commands::ContainerRuntime(ContainerRuntime { questions }) => answer(&questions.cases, recorded::container_runtime),
    }
}

/// Answers each line in the recorded form.
fn answer(path: &Path, question: fn(&Value) -> Result<Value, CaseError>) -> Result<(), Failure> {
    cases::answer(path, |case| question(case).map_err(|error| Failure::failed("case", &error)))
}
