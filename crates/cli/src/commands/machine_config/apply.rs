//! `mainstay machine-config apply`: a MachineConfig on a directory tree, without a cluster (MACH-NODE-14).

use std::path::PathBuf;

use clap::Args;
use mainstay_diagnostics::counted;
use mainstay_machine_config_core::disruption::{RegistryDrain, disruption};
use mainstay_machine_config_core::layout::{Edit, Target};
use mainstay_machine_config_core::machine_config::{MachineConfig, MachineConfigSpec};
use mainstay_machine_config_core::policy::{Action, defaults};
use mainstay_machine_config_core::reconcilable;
use mainstay_node_agent::{Change, Error, Root, Tree};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output;

use super::files::one_machine_config;

/// An Ignition config that says nothing.
const NO_FILES: &str = r#"{"ignition":{"version":"3.4.0"}}"#;

/// Arguments of `machine-config apply`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay machine-config apply --root /srv/tree --config rendered-worker.yaml --dry-run
  mainstay machine-config apply --root /srv/tree --config rendered-worker.yaml

Everything is written, or nothing: what a killed run began is taken back by the next one. Files that were there before are kept below
/etc/machine-config-daemon/orig of the tree, and come back when a later config no longer has them. Units are enabled by links; no service is reloaded
and nothing reboots: the output names what the change needs. Changes of the operating system are recorded in
/etc/machine-config-daemon/recorded.json, and refused for --root /.

Exit codes: 0 applied, or nothing to do, 1 bad input, 4 the tree cannot take the change in place.")]
pub struct Apply {
    /// The directory tree; / is this host, and needs its administrator
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// A file with one MachineConfig
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &Apply) -> Result<(), Failure> {
    let mut new = one_machine_config(&arguments.config)?;
    // One that only concerns the operating system has no files.
    new.spec.ignition.get_or_insert_with(|| NO_FILES.to_owned());
    let subject = format!("root {}", arguments.root.display());
    let failed = |error: Error| match error {
        // What cannot be on any disk is bad input.
        Error::Layout { .. } => Failure::failed(format!("file {}", arguments.config.display()), &error),
        error => Failure::failed(&subject, &error),
    };
    let root = Root::open(&arguments.root).map_err(|error| failed(error.into()))?;
    if arguments.dry_run {
        let change = Change::plan(&root, &new).map_err(failed)?;
        let actions = needed(&root, &change, &new, &subject)?;
        return tell(&subject, "would be changed to", &change, &new, &actions);
    }
    let (tree, recovered) = Tree::take(root).map_err(failed)?;
    if recovered {
        note("an earlier run was cut off; what it had begun is taken back");
    }
    let change = tree.plan(&new).map_err(failed)?;
    let actions = needed(tree.root(), &change, &new, &subject)?;
    let written = tree.write(&change, None).map_err(failed)?;
    for path in written.unowned {
        note(format!("{path}: no permission to give it its owner"));
    }
    tell(&subject, "has", &change, &new, &actions)
}

/// The actions that a change needs on a running node. What cannot be taken in place is refused.
fn needed(root: &Root, change: &Change, new: &MachineConfig, subject: &str) -> Result<Vec<String>, Failure> {
    let spec = MachineConfigSpec { fips: new.spec.fips, ignition: Some(NO_FILES.to_owned()), ..MachineConfigSpec::default() };
    let empty = MachineConfig { spec, ..MachineConfig::default() };
    let old = change.old.as_ref().unwrap_or(&empty);
    reconcilable::check(old, new).map_err(|error| Failure::of(Exit::Impossible, subject, &error))?;
    let needed = disruption(old, new, &defaults(), RegistryDrain::AsNeeded).map_err(|error| Failure::failed(subject, &error))?;
    let of_system = needed.difference.os_changes();
    if root.is_host() && !of_system.is_empty() {
        return Err(
            Failure::new(Exit::Impossible, subject, "changes of the operating system are not applied by this program").because(of_system)
        );
    }
    // A tree that gets its first configuration runs nothing yet.
    let is_first = change.old.is_none();
    Ok(needed.actions.iter().filter(|action| !is_first && **action != Action::None).map(Action::to_string).collect())
}

fn tell(subject: &str, done: &str, change: &Change, new: &MachineConfig, actions: &[String]) -> Result<(), Failure> {
    if change.edits.is_empty() {
        return output::line(format!("{subject}: has {} already", new.name));
    }
    for edit in &change.edits {
        output::line(shown(edit))?;
    }
    let changes = counted(change.edits.len(), "change");
    let actions = if actions.is_empty() { "none".to_owned() } else { actions.join(", ") };
    output::line(format!("{subject}: {done} {} ({changes}); actions that it needs: {actions}", new.name))
}

fn shown(edit: &Edit) -> String {
    let path = &edit.path;
    match &edit.to {
        Target::Absent => format!("remove {path}"),
        Target::File(file) => format!("write  {path} (mode {:04o}, {} bytes)", file.mode, file.content.len()),
        Target::Content(content, mode) => format!("change {path} (mode {mode:04o}, {} bytes)", content.len()),
        Target::Link(target) => format!("link   {path} -> {target}"),
        Target::CopyOf(from) => format!("copy   {from} to {path}"),
    }
}
