//! `mainstay pin`: an extension stays at the version that is installed (MS-RB-05).

use clap::Args;
use mainstay_operations::{Change, Planned};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::runtime;

use super::flags::{Carrying, goes_on};
use super::install::{dry_run, perform};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay pin beacon             stays at the version that is installed, whatever its catalogs offer later
  mainstay pin beacon --dry-run   only the plan
  mainstay upgrade beacon         follows its channels again

The version is written into the extension, so that everybody sees it there, and mainstay explain names it where it holds back an update.
While another version is being installed nothing is pinned (exit code 4): mainstay wait or mainstay rollback comes first.")]
pub struct Arguments {
    /// The extension
    pub name: String,
    /// Only show the plan (exit code 4 if it cannot be applied)
    #[arg(long)]
    pub dry_run: bool,
    /// How it is done.
    #[command(flatten)]
    pub carrying: Carrying,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Pins the extension.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = if arguments.dry_run { arguments.cluster.open().await? } else { arguments.cluster.open_to_change().await? };
        let name = &arguments.name;
        let change = Change::Pin { name: name.clone() };
        if arguments.dry_run {
            return dry_run(&session, &change, &arguments.carrying.shown.format).await;
        }
        let question = |planned: &Planned| format!("keep {name} at {}?", planned.bundle().unwrap_or_default());
        let hints = || vec![goes_on(name), format!("mainstay upgrade {name} follows its channels again")];
        runtime::until_interrupt(Box::pin(perform(&session, &change, question, &arguments.carrying)), hints).await
    })
}
