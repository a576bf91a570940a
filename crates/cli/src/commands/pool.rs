//! `mainstay pool`: pools of nodes that share a configuration (MACH-MCP-02, MACH-PAUSE-02, MACH-PAUSE-03).

use clap::{Args, Subcommand};
use jiff::Timestamp;
use mainstay_machine_config_core::pool::node::annotation;
use mainstay_operations::pools::{self, Pools};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::runtime;
use serde_json::Value;

use super::classic;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// The pools, and how far their nodes are
    List(List),
    /// Stop a pool: no node gets a new configuration
    Pause(Named),
    /// Let a pool go on: all changes that waited are applied in one step
    Resume(Named),
    /// A pool with its nodes, what it waits for and why
    Describe(Describe),
}

/// Arguments of `pool list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay pool list
  mainstay pool list -o json | jq '.[] | select(.spec.paused)'

Exit codes: 0 done, 1 failed, 3 the cluster has no pools.")]
pub struct List {
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Arguments of `pool pause` and `pool resume`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay pool pause worker                     before a maintenance window that must not be disturbed
  mainstay pool resume worker

While a pool is paused, its changes wait, those of certificates in MachineConfigs among them. Nodes that were asked already finish.

Exit codes: 0 done, 1 failed, 3 there is no such pool, 4 refused.")]
pub struct Named {
    /// The pool
    #[arg(value_name = "POOL")]
    name: String,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Arguments of `pool describe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay pool describe worker

Exit codes: 0 done, 1 failed, 3 there is no such pool.")]
pub struct Describe {
    /// The pool
    #[arg(value_name = "POOL")]
    name: String,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::List(arguments) => list(&arguments),
        Commands::Pause(arguments) => pause(&arguments, true),
        Commands::Resume(arguments) => pause(&arguments, false),
        Commands::Describe(arguments) => describe(&arguments),
    }
}

fn list(arguments: &List) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let pools = pools::read(&session).await?;
        if !arguments.output.is_table() {
            return output::value(&arguments.output, &Value::Array(pools.objects));
        }
        table(&pools).print()
    })
}

fn table(pools: &Pools) -> Table {
    let titles =
        ["NAME", "CONFIG", "UPDATED", "UPDATING", "DEGRADED", "PAUSED", "MACHINES", "READY", "UPDATED MACHINES", "DEGRADED MACHINES"];
    let mut table = Table::new(&titles);
    for pool in &pools.objects {
        let text = |pointer: &str| pool.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let count = |field: &str| pool["status"][field].as_i64().unwrap_or_default().to_string();
        let state = |kind: &str| {
            let found = mainstay_objects::condition(pool, kind).and_then(|one| one["status"].as_str());
            found.unwrap_or("Unknown").to_owned()
        };
        let paused = if pool["spec"]["paused"] == true { "True" } else { "False" };
        table.row([
            text("/metadata/name"),
            text("/status/configuration/name"),
            state("Updated"),
            state("Updating"),
            state("Degraded"),
            paused.to_owned(),
            count("machineCount"),
            count("readyMachineCount"),
            count("updatedMachineCount"),
            count("degradedMachineCount"),
        ]);
    }
    table
}

fn pause(arguments: &Named, paused: bool) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let changed = pools::pause(&session, &arguments.name, paused).await?;
        let (state, already) = (if paused { "paused" } else { "resumed" }, if changed { "" } else { "already " });
        output::line(format!("machineconfigpool {} {already}{state}", arguments.name))
    })
}

fn describe(arguments: &Describe) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let answer = pools::explain_pool(&session, &arguments.name, Timestamp::now()).await?;
        classic::explain::show(&Format::Table, &answer)?;
        let pools = pools::read(&session).await?;
        let mut nodes = Table::new(&["NODE", "STATE", "CURRENT", "DESIRED", "REASON"]);
        for node in pools.nodes(&arguments.name) {
            let told = |key: &str| node.annotation(key).unwrap_or_default().to_owned();
            nodes.row([
                node.name.clone(),
                told(annotation::STATE),
                told(annotation::CURRENT_CONFIG),
                told(annotation::DESIRED_CONFIG),
                told(annotation::REASON),
            ]);
        }
        output::line("")?;
        nodes.print()
    })
}
