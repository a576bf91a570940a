//! `mainstay rollback`: returns to an earlier revision, with a verdict first (MS-RB-01).

use std::time::Instant;

use clap::Args;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_lifecycle::rollback::Class;
use mainstay_operations::rollback::{Destination, RollbackPlan, carry_out, follow_command, plan, restore_command};
use mainstay_operations::{Session, extensions};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Failure, note, note_drawn};
use mainstay_terminal::output::{self, Format};
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
        runtime::until_interrupt(Box::pin(rollback(&session, arguments, &extension)), hints).await
    })
}

impl Arguments {
    /// The arguments of a rollback that a plan describes.
    fn planned(name: &str, to_revision: Option<u32>, force: bool, patience: Patience) -> Self {
        let (name, cluster, shown) = (name.to_owned(), ClusterArgs::default(), Shown { format: Format::Table });
        Self { name, to_revision, to_version: None, dry_run: false, force, consent: Consent::GIVEN, patience, shown, cluster }
    }

    fn destination(&self) -> Destination {
        match (self.to_revision, &self.to_version) {
            (Some(revision), _) => Destination::Revision(revision),
            (None, Some(version)) => Destination::Version(version.clone()),
            (None, None) => Destination::Previous,
        }
    }
}

/// Performs the rollback that a plan describes.
pub async fn perform(session: &Session, name: &str, to: Option<u32>, force: bool, patience: Patience) -> Result<(), Failure> {
    let extension = extensions::get(session, name).await?;
    rollback(session, &Arguments::planned(name, to, force, patience), &extension).await
}

async fn rollback(session: &Session, arguments: &Arguments, extension: &ClusterExtension) -> Result<(), Failure> {
    let begun = Instant::now();
    let name = &arguments.name;
    let planned = plan(session, extension, &arguments.destination(), &mut Progress::start()).await?;
    let verdict = &planned.verdict;
    if arguments.dry_run {
        show(arguments, &planned)?;
        return if verdict.verdict.verdict == Class::Safe { Ok(()) } else { Err(Failure::no()) };
    }
    note_drawn(plan_text::painted_lines(verdict.lines()));
    if let Some(refusal) = planned.refusal(arguments.force) {
        return Err(refusal.into());
    }
    for grant in &planned.gained {
        note(format!("the installer gets in addition: {grant}"));
    }
    arguments.consent.ask(&format!("roll {name} back to {}?", verdict.to))?;
    if planned.sets_preflight_aside() {
        note("the preflight of CRDs is off for this change");
    }
    let after = carry_out(session, &planned, arguments.patience.limit(), &mut Progress::start()).await?;
    finish(&arguments.shown.format, &after, || {
        format!("clusterextension {name}: {} rolled back to {} in {:.1} s", verdict.from, verdict.to, begun.elapsed().as_secs_f64())
    })?;
    note(format!("it stays at {}; to follow the catalog again: {}", verdict.version, follow_command(name)));
    Ok(())
}

fn show(arguments: &Arguments, planned: &RollbackPlan) -> Result<(), Failure> {
    if arguments.shown.format.is_table() {
        return output::drawn(&format!("{}\n", plan_text::painted_lines(planned.verdict.lines())));
    }
    let mut document = planned.verdict.document()?;
    document["kind"] = "RollbackVerdict".into();
    document["name"] = arguments.name.clone().into();
    output::value(&arguments.shown.format, &document)
}
