//! `mainstay machine-config plan`: what a MachineConfig would do to the pools and nodes of a cluster (MACH-DISR-09).

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use mainstay_machine_config_core::policy::Action;
use mainstay_machine_config_core::rollout::PoolRollout;
use mainstay_operations::pools::{self, Drained, Outcome, Plan};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::runtime;
use serde_json::{Value, json};

use super::files::one_machine_config;

/// Arguments of `machine-config plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config plan -f 50-motd.yaml
  mainstay machine-config plan -f 50-motd.yaml -o json | jq '.pools[] | select(.outcome == \"rolls-out\")'

For each pool: what changes on disk and the action that it needs, whether nodes are drained and why, and the rounds in which nodes would go, by
maxUnavailable. Of each node that would be drained: how many pods would leave, and which may not leave now and why. Nothing is changed; the
server is asked for evictions as dry runs.

As JSON: {\"machineConfig\", \"pools\": [{\"name\", \"outcome\": unchanged|refused|rolls-out, \"why\", \"paused\", \"from\", \"to\", \"changes\":
[{\"what\", \"actions\", \"reason\"}], \"actions\", \"drain\": {\"needed\", \"reason\"}, \"maxUnavailable\", \"rounds\": [[NODE]],
\"drains\": [{\"node\", \"leaving\", \"obstacles\": [{\"pod\", \"why\"}]}]}]}

Exit codes: 0 no pool refuses it, 1 bad input, 4 a pool would refuse it (RenderDegraded).")]
pub struct PlanArguments {
    /// A file with the MachineConfig
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(arguments: &PlanArguments) -> Result<(), Failure> {
    let new = one_machine_config(&arguments.filename)?;
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let plan = pools::plan(&session, &new, Timestamp::now()).await?;
        if arguments.output.is_table() {
            table(&plan)?;
        } else {
            output::value(&arguments.output, &document(&new.name, &plan))?;
        }
        let is_refused = plan.pools.iter().any(|(_, outcome)| matches!(outcome, Outcome::Refused(_)));
        if is_refused { Err(Failure::no()) } else { Ok(()) }
    })
}

fn listed(actions: &[Action]) -> String {
    actions.iter().map(Action::to_string).collect::<Vec<_>>().join(", ")
}

fn table(plan: &Plan) -> Result<(), Failure> {
    for (name, outcome) in &plan.pools {
        match outcome {
            Outcome::Unchanged => output::line(format!("pool {name}: nothing changes"))?,
            Outcome::Refused(error) => output::line(format!("pool {name}: would be RenderDegraded, and keep its configuration: {error}"))?,
            Outcome::RollsOut { rollout, drains } => rolls_out(rollout, drains)?,
        }
    }
    Ok(())
}

fn rolls_out(rollout: &PoolRollout, drains: &[Drained]) -> Result<(), Failure> {
    let paused = if rollout.paused { "; it is paused: nothing happens before it is resumed" } else { "" };
    output::line(format!("pool {}: {} becomes {}{paused}", rollout.pool, rollout.configs.0, rollout.configs.1))?;
    let mut changes = Table::new(&["CHANGE", "ACTION", "REASON"]);
    for effect in &rollout.change.effects {
        changes.row([effect.subject.to_string(), listed(&effect.actions), effect.reason.to_string()]);
    }
    output::print(&changes.render(2))?;
    output::line(format!("  actions: {}", listed(&rollout.change.actions)))?;
    match &rollout.change.drain {
        Ok(drain) => output::line(format!("  drain: {} ({drain})", if drain.is_needed() { "yes" } else { "no" }))?,
        Err(error) => output::line(format!("  drain: cannot be decided, nodes would be degraded: {error}"))?,
    }
    if rollout.rounds.is_empty() {
        return output::line("  nodes: none");
    }
    let mut nodes = Table::new(&["ROUND", "NODE", "PODS THAT LEAVE", "MAY NOT LEAVE NOW"]);
    for (round, names) in rollout.rounds.iter().enumerate() {
        for name in names {
            let drained = drains.iter().find(|drained| drained.node == *name);
            let leaving = drained.map(|drained| drained.leaving.to_string()).unwrap_or_default();
            let obstacles = drained.map(|drained| {
                let each = drained.obstacles.iter().map(|obstacle| format!("{}: {}", obstacle.pod, obstacle.why));
                each.collect::<Vec<_>>().join("; ")
            });
            nodes.row([(round + 1).to_string(), name.clone(), leaving, obstacles.unwrap_or_default()]);
        }
    }
    output::print(&nodes.render(2))
}

fn document(config: &str, plan: &Plan) -> Value {
    let pool = |(name, outcome): &(String, Outcome)| match outcome {
        Outcome::Unchanged => json!({"name": name, "outcome": "unchanged"}),
        Outcome::Refused(error) => json!({"name": name, "outcome": "refused", "why": error.to_string()}),
        Outcome::RollsOut { rollout, drains } => {
            let change = &rollout.change;
            let changes: Vec<Value> = change
                .effects
                .iter()
                .map(|effect| json!({"what": effect.subject.to_string(), "actions": effect.actions, "reason": effect.reason.to_string()}))
                .collect();
            let drain = match &change.drain {
                Ok(drain) => json!({"needed": drain.is_needed(), "reason": drain.to_string()}),
                Err(error) => json!({"error": error.to_string()}),
            };
            let drains: Vec<Value> = drains
                .iter()
                .map(|drained| {
                    let obstacles: Vec<Value> =
                        drained.obstacles.iter().map(|obstacle| json!({"pod": obstacle.pod, "why": obstacle.why})).collect();
                    json!({"node": drained.node, "leaving": drained.leaving, "obstacles": obstacles})
                })
                .collect();
            json!({
                "name": name, "outcome": "rolls-out", "paused": rollout.paused, "from": rollout.configs.0, "to": rollout.configs.1,
                "changes": changes, "actions": change.actions, "drain": drain, "maxUnavailable": rollout.limit, "rounds": rollout.rounds,
                "drains": drains,
            })
        }
    };
    json!({"machineConfig": config, "pools": plan.pools.iter().map(pool).collect::<Vec<_>>()})
}
