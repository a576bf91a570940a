//! `mainstay release`: what becomes of a release's manifests on a cluster.

mod check;
mod merge;

use clap::Subcommand;
use mainstay_terminal::errors::Failure;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// What applying a manifest would make of the object in the cluster
    Merge(merge::Merge),
    /// What is wrong with a ClusterVersion, and what keeps it from an update
    Check(check::Check),
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Merge(arguments) => merge::run(&arguments),
        Commands::Check(arguments) => check::run(&arguments),
    }
}
