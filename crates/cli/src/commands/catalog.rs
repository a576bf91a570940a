//! `mainstay catalog`: catalogs on the cluster, and catalogs as files (MS-CLI-05).

mod build;
pub mod from_bundles;

use clap::Subcommand;

use crate::errors::Failure;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Make a catalog image of a file-based catalog, without a container engine
    Build(build::Arguments),
    /// Push bundle directories as images and write the catalog that refers to them
    FromBundles(from_bundles::Arguments),
}

/// Runs one of them.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Build(arguments) => build::run(&arguments),
        Commands::FromBundles(arguments) => from_bundles::run(&arguments),
    }
}
