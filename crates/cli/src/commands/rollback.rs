//! `mainstay rollback`: returns to an earlier revision, with a verdict first (MS-RB-01).

use clap::Args;
use mainstay_lifecycle::rollback::Class;
use mainstay_operations::apply::carry_out;
use mainstay_operations::rollback::{RollbackVerdict, follow_command, restore_command};
use mainstay_operations::{Change, Destination, Session, extensions};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note, note_drawn};
use mainstay_terminal::output;
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;

use super::flags::{Consent, Patience, Shown, goes_on};
use super::install::finish;
use crate::plan_text;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay rollback beacon --dry-run           only the verdict: safe, unsafe or impossible
  mainstay rollback beacon                     to the bundle that was installed before
  mainstay rollback beacon --to-version 1.0.0
  mainstay rollback beacon --to-revision 3 --yes

The version is pinned and update edges are set aside (SelfCertified), so that the cluster goes back and stays there. What is unsafe is
done with --force alone (exit code 4 otherwise).")]
pub struct Arguments {
    /// The extension
    pub name: String,
    /// The revision of mainstay history to go back to
    #[arg(long, value_name = "N", conflicts_with = "to_version")]
    pub to_revision: Option<u32>,
    /// The version to go back to
    #[arg(long, value_name = "VERSION")]
    pub to_version: Option<String>,
    /// Only say whether it is safe (exit code 4 where it is not)
    #[arg(long)]
    pub dry_run: bool,
    /// Do what is unsafe
    #[arg(long)]
    pub force: bool,
    /// Whether to ask.
    #[command(flatten)]
    pub consent: Consent,
    /// How long to wait.
    #[command(flatten)]
    pub patience: Patience,
    /// How the verdict of a dry run, or the extension at the end, is shown.
    #[command(flatten)]
    pub shown: Shown,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Rolls the extension back.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = if arguments.dry_run { arguments.cluster.open().await? } else { arguments.cluster.open_to_change().await? };
        let extension = extensions::get(&session, &arguments.name).await?;
        let hints = || vec![goes_on(&arguments.name), format!("{} undoes it", restore_command(&extension))];
        runtime::until_interrupt(Box::pin(rollback(&session, arguments)), hints).await
    })
}

async fn rollback(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    let name = &arguments.name;
    let to = Destination { to_revision: arguments.to_revision, to_version: arguments.to_version.clone() };
    let change = Change::Rollback { name: name.clone(), to, force: arguments.force };
    let planned = Box::pin(mainstay_operations::plan(session, &change, false, &mut Progress::start())).await?;
    let Some(verdict) = &planned.rollback else {
        return Err(Failure::new(Exit::Failed, format!("clusterextension {name}"), "the plan has no verdict"));
    };
    if arguments.dry_run {
        show(arguments, verdict)?;
        return if verdict.verdict.verdict == Class::Safe { Ok(()) } else { Err(Failure::no()) };
    }
    note_drawn(plan_text::painted_lines(verdict.lines()));
    if let Some(refusal) = planned.refusal() {
        return Err(refusal.into());
    }
    for grant in &planned.preview.installer_permissions {
        note(format!("the installer gets in addition: {grant}"));
    }
    for choice in &planned.choices {
        note(choice);
    }
    arguments.consent.ask(&format!("roll {name} back to {}?", verdict.to))?;
    let outcome = carry_out(session, &planned, Some(arguments.patience.limit()), &mut Progress::start()).await?;
    match outcome.extension {
        Some(extension) => finish(&arguments.shown.format, &extension, || outcome.line)?,
        None => output::line(outcome.line)?,
    }
    note(format!("it stays at {}; to follow the catalog again: {}", verdict.version, follow_command(name)));
    Ok(())
}

fn show(arguments: &Arguments, verdict: &RollbackVerdict) -> Result<(), Failure> {
    if arguments.shown.format.is_table() {
        return output::drawn(&format!("{}\n", plan_text::painted_lines(verdict.lines())));
    }
    let mut document = verdict.document()?;
    document["kind"] = "RollbackVerdict".into();
    document["name"] = arguments.name.clone().into();
    output::value(&arguments.shown.format, &document)
}
