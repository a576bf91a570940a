//! `mainstay machine`: machines, what blocks them, and what their deletion does (MACH-DEL-09, MS-READY-02).

use clap::{Args, Subcommand};
use jiff::Timestamp;
use mainstay_lifecycle::explanation::ago;
use mainstay_machine_core::machine::Machine;
use mainstay_operations::machines::{self, Blocker, DeletionPlan};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::runtime;
use serde_json::Value;

use crate::named;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// List machines with their nodes and what holds up their deletion
    List(List),
    /// Show a machine, what it waits for, and what blocks it
    Describe(Describe),
    /// Delete a machine, or show what that would do
    Delete(Delete),
}

/// Arguments of `machine list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine list
  mainstay machine list -o wide
  mainstay machine list -o json | jq -r '.[] | select(.status.phase != \"Running\").metadata.name'

Exit codes: 0 done, 1 failed, 3 the cluster has no Machine API.")]
pub struct List {
    /// The namespace of the machines
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace, default_value = machines::NAMESPACE)]
    namespace: String,
    /// table, wide, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, wide, json or yaml"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Arguments of `machine describe`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine describe demo-worker-a
  mainstay machine describe demo-worker-a -o json | jq '.blockers[] | {name, owner, since}'

Exit codes: 0 done, 1 failed, 3 there is no such machine.")]
pub struct Describe {
    /// The machine
    #[arg(value_name = "MACHINE")]
    name: String,
    /// The namespace of the machine
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace, default_value = machines::NAMESPACE)]
    namespace: String,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Arguments of `machine delete`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine delete demo-worker-a --plan   the steps in order: hooks, pods and their budgets, the instance, the node
  mainstay machine delete demo-worker-a
  mainstay machine delete demo-worker-a --plan -o json | jq '.steps[] | select(.step == \"drain\").pods'

The plan comes from the decisions that the controllers act upon; for each pod the server is asked whether it may be evicted, and nothing is
changed. A deletion cannot be taken back.

Exit codes: 0 done, 1 failed, 3 there is no such machine, 4 refused.")]
pub struct Delete {
    /// The machine
    #[arg(value_name = "MACHINE")]
    name: String,
    /// The namespace of the machine
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace, default_value = machines::NAMESPACE)]
    namespace: String,
    /// Show what would happen, and change nothing
    #[arg(long)]
    plan: bool,
    /// With --plan: table, json or yaml
    #[arg(short, long, value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Option<Format>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::List(arguments) => list(&arguments),
        Commands::Describe(arguments) => describe(&arguments),
        Commands::Delete(arguments) => delete(&arguments),
    }
}

fn list(arguments: &List) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let all = machines::read_all(&session, &arguments.namespace).await?;
        match arguments.output {
            Format::Table | Format::Wide => table(&all, arguments.output == Format::Wide, Timestamp::now()).print(),
            _ => output::value(&arguments.output, &Value::Array(all)),
        }
    })
}

fn table(all: &[Value], is_wide: bool, now: Timestamp) -> Table {
    let mut titles = vec!["NAME", "PHASE", "TYPE", "ZONE", "NODE", "HOOKS", "AGE"];
    if is_wide {
        titles.extend(["PROVIDERID", "STATE"]);
    }
    let mut table = Table::new(&titles);
    for object in all {
        let machine = Machine::of(object);
        let label = |key: &str| machine.labels.get(key).cloned().unwrap_or_default();
        let hooks = machine.hooks.pre_drain.iter().chain(&machine.hooks.pre_terminate).map(|hook| hook.name.clone());
        let mut row = vec![
            machine.name.clone(),
            machine.phase.clone().unwrap_or_default(),
            label("machine.openshift.io/instance-type"),
            label("machine.openshift.io/zone"),
            machine.node.clone().unwrap_or_default(),
            hooks.collect::<Vec<_>>().join(","),
            machine.created.map(|created| ago(now, created)).unwrap_or_default(),
        ];
        if is_wide {
            row.push(machine.provider_id.clone().unwrap_or_default());
            row.push(machine.annotations.get("machine.openshift.io/instance-state").cloned().unwrap_or_default());
        }
        table.row(row);
    }
    table
}

fn describe(arguments: &Describe) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let now = Timestamp::now();
        let (answer, blockers) = machines::explain_machine(&session, &arguments.namespace, &arguments.name, now).await?;
        show(&arguments.output, &answer, &blockers, now)
    })
}

/// Prints an explanation with the table of what blocks its subject.
pub fn show(format: &Format, answer: &machines::Explanation, blockers: &[Blocker], now: Timestamp) -> Result<(), Failure> {
    if format.is_table() {
        output::print(&answer.text(now))?;
        if blockers.is_empty() {
            return Ok(());
        }
        output::line("\nWhat blocks it")?;
        return output::print(&blocked(blockers, now).render(2));
    }
    let failed = |error: serde_json::Error| Failure::failed(&answer.subject, &error);
    let mut value = serde_json::to_value(answer).map_err(failed)?;
    value["blockers"] = serde_json::to_value(blockers).map_err(failed)?;
    output::value(format, &value)
}

/// The table of blockers: one for machines and nodes (MS-READY-02).
fn blocked(blockers: &[Blocker], now: Timestamp) -> Table {
    let mut table = Table::new(&["BLOCKER", "NAME", "OWNER", "AGE", "NOW", "WHY"]);
    for blocker in blockers {
        table.row([
            blocker.kind.name().to_owned(),
            blocker.name.clone(),
            blocker.owner.clone().unwrap_or_default(),
            blocker.since.map(|since| ago(now, since)).unwrap_or_default(),
            if blocker.now { "yes" } else { "later" }.to_owned(),
            blocker.why.clone(),
        ]);
    }
    table
}

fn delete(arguments: &Delete) -> Result<(), Failure> {
    let (namespace, name) = (&arguments.namespace, &arguments.name);
    runtime::block_on(async {
        if arguments.plan {
            let session = arguments.cluster.open().await?;
            let now = Timestamp::now();
            let plan = machines::plan_deletion(&session, namespace, name, now).await?;
            return match &arguments.output {
                None | Some(Format::Table) => print_plan(&plan, now),
                Some(format) => {
                    let value = serde_json::to_value(&plan).map_err(|error| Failure::failed(format!("machine {name}"), &error))?;
                    output::value(format, &value)
                }
            };
        }
        if arguments.output.is_some() {
            return Err(Failure::new(Exit::Usage, "--output", "it is the format of --plan, which is not given"));
        }
        let session = arguments.cluster.open_to_change().await?;
        let is_new = machines::delete(&session, namespace, name).await?;
        output::line(format!("machine {name} {}", if is_new { "is being deleted" } else { "is being deleted already" }))?;
        output::line(format!("hint: mainstay machine describe {name} -n {namespace} shows what it waits for"))
    })
}

fn print_plan(plan: &DeletionPlan, now: Timestamp) -> Result<(), Failure> {
    let begun = if plan.deleting { "is being deleted" } else { "would be deleted" };
    output::line(format!("machine {} {begun}:", plan.machine))?;
    for (number, step) in plan.steps.iter().enumerate() {
        let state = match step.state {
            "later" => String::new(),
            state => format!(" [{state}]"),
        };
        output::line(format!("  {}. {}{state}", number + 1, step.text))?;
        for blocker in &step.blockers {
            let owner = blocker.owner.as_deref().map(|owner| format!(" of {owner}")).unwrap_or_default();
            let age = blocker.since.map(|since| format!(" ({})", ago(now, since))).unwrap_or_default();
            output::line(format!("       hook {}{owner}{age}: {}", blocker.name, blocker.why))?;
        }
        for pod in &step.pods {
            let owner = pod.owner.as_deref().map(|owner| format!(" of {owner}")).unwrap_or_default();
            let state = match (&pod.blocked, pod.since) {
                (Some(why), _) => format!("cannot be evicted now: {why}"),
                (None, Some(since)) => format!("has been ending for {}", ago(now, since)),
                (None, None) => "is evicted".to_owned(),
            };
            output::line(format!("       pod {}{owner} {state}", pod.pod))?;
        }
        for note in &step.notes {
            output::line(format!("       note: {note}"))?;
        }
    }
    match &plan.afterwards {
        Some(text) => output::line(format!("\n{text}")),
        None => Ok(()),
    }
}
