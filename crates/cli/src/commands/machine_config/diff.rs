//! `mainstay machine-config diff`: what differs between two MachineConfigs, and what each change needs (MACH-DISR-09).

use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_machine_config_core::disruption::{Disruption, RegistryDrain, Subject, disruption};
use mainstay_machine_config_core::kernel_arguments;
use mainstay_machine_config_core::machine_config::MachineConfig;
use mainstay_machine_config_core::policy::{Action, Policies, merged};
use mainstay_machine_config_core::reconcilable::{self, Unreconcilable};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format, Table};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::files::{objects, one_machine_config};

/// Arguments of `machine-config diff`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config diff rendered-worker-1.yaml rendered-worker-2.yaml
  mainstay machine-config diff old.yaml new.yaml --policy machineconfiguration.yaml -o json

A policy is an object MachineConfiguration of operator.openshift.io; the cluster's own policies apply in any case.

Exit codes: 0 a node can take the change in place, 1 bad input, 4 it cannot.")]
pub struct Diff {
    /// A file with the MachineConfig that nodes have
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// A file with the MachineConfig that nodes are to get
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// A file with the MachineConfiguration whose nodeDisruptionPolicy applies
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Decide as with ConfigMap image-registry-override-drain: registries never drain
    #[arg(long)]
    override_registry_drain: bool,
    /// table, json or yaml
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json or yaml"))]
    output: Format,
}

pub(super) fn run(arguments: &Diff) -> Result<(), Failure> {
    let (old, new) = (one_machine_config(&arguments.old)?, one_machine_config(&arguments.new)?);
    let user = arguments.policy.as_deref().map(policy).transpose()?.unwrap_or_default();
    let registries = if arguments.override_registry_drain { RegistryDrain::Overridden } else { RegistryDrain::AsNeeded };
    let verdict = reconcilable::check(&old, &new);
    if let Err(error @ (Unreconcilable::Old { .. } | Unreconcilable::New { .. } | Unreconcilable::Invalid { .. })) = &verdict {
        let path = if matches!(error, Unreconcilable::Old { .. }) { &arguments.old } else { &arguments.new };
        return Err(Failure::failed(format!("file {}", path.display()), error));
    }
    let subject = format!("machineconfig {}", new.name);
    let found = disruption(&old, &new, &merged(&user), registries).map_err(|error| Failure::failed(subject, &error))?;
    if arguments.output.is_table() {
        table(&old, &new, &found, &verdict)?;
    } else {
        output::value(&arguments.output, &document(&old, &new, &found, &verdict))?;
    }
    if verdict.is_err() { Err(Failure::no()) } else { Ok(()) }
}

fn policy(path: &Path) -> Result<Policies, Failure> {
    let found = objects(&[path.to_owned()])?;
    let Some(placed) = found.iter().find(|placed| placed.kind() == "MachineConfiguration") else {
        return Err(Failure::new(Exit::Failed, format!("file {}", path.display()), "holds no MachineConfiguration"));
    };
    match placed.object.pointer("/spec/nodeDisruptionPolicy").filter(|policy| !policy.is_null()) {
        None => Ok(Policies::default()),
        Some(policy) => {
            Policies::deserialize(policy).map_err(|error| Failure::failed(format!("{}: spec.nodeDisruptionPolicy", placed.place()), &error))
        }
    }
}

fn listed(actions: &[Action]) -> String {
    actions.iter().map(Action::to_string).collect::<Vec<_>>().join(", ")
}

fn table(old: &MachineConfig, new: &MachineConfig, found: &Disruption, verdict: &Result<(), Unreconcilable>) -> Result<(), Failure> {
    let mut table = Table::new(&["CHANGE", "ACTION", "REASON"]);
    for effect in &found.effects {
        table.row([effect.subject.to_string(), listed(&effect.actions), effect.reason.to_string()]);
    }
    if table.is_empty() {
        output::line(format!("{} and {} are the same for a node", old.name, new.name))?;
    } else {
        table.print()?;
    }
    output::line(format!("actions: {}", listed(&found.actions)))?;
    match &found.drain {
        Ok(drain) => output::line(format!("drain: {} ({drain})", if drain.is_needed() { "yes" } else { "no" }))?,
        Err(error) => output::line(format!("drain: cannot be decided: {error}"))?,
    }
    let options = kernel_arguments::options(&old.spec.kernel_arguments, &new.spec.kernel_arguments);
    if found.difference.kargs {
        output::line(format!("kernel arguments: {}", options.join(" ")))?;
    }
    match verdict {
        Ok(()) => output::line("in place: yes"),
        Err(Unreconcilable::Change { change, .. }) => output::line(format!("in place: no: {change}")),
        Err(error) => output::line(format!("in place: no: {error}")),
    }
}

fn document(old: &MachineConfig, new: &MachineConfig, found: &Disruption, verdict: &Result<(), Unreconcilable>) -> Value {
    let changes: Vec<Value> = found
        .effects
        .iter()
        .map(|effect| {
            let (kind, name) = match &effect.subject {
                Subject::OsImage => ("osImage", None),
                Subject::KernelArguments => ("kernelArguments", None),
                Subject::KernelType => ("kernelType", None),
                Subject::Extensions => ("extensions", None),
                Subject::Fips => ("fips", None),
                Subject::File(path) => ("file", Some(path)),
                Subject::Unit(name) => ("unit", Some(name)),
                Subject::SshKeys => ("sshKeys", None),
            };
            json!({"kind": kind, "name": name, "actions": effect.actions, "reason": effect.reason.to_string()})
        })
        .collect();
    let drain = match &found.drain {
        Ok(drain) => json!({"needed": drain.is_needed(), "reason": drain.to_string()}),
        Err(error) => json!({"error": error.to_string()}),
    };
    let arguments = kernel_arguments::options(&old.spec.kernel_arguments, &new.spec.kernel_arguments);
    json!({
        "old": old.name,
        "new": new.name,
        "inPlace": verdict.is_ok(),
        "reason": verdict.as_ref().err().map(ToString::to_string),
        "changes": changes,
        "actions": found.actions,
        "drain": drain,
        "kernelArguments": if found.difference.kargs { arguments } else { Vec::new() },
    })
}
