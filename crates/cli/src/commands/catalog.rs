//! `mainstay catalog`: catalogs on the cluster, and catalogs as files (MS-CLI-05).

pub mod build;
pub mod cluster;
pub mod from_bundles;

use clap::Subcommand;

use crate::errors::Failure;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Add a catalog image to the cluster, and wait until it serves
    Add(cluster::Add),
    /// The catalogs of the cluster
    List(cluster::List),
    /// One catalog of the cluster and its packages
    Show(cluster::Show),
    /// Packages in the catalogs of the cluster
    Search(cluster::Search),
    /// Remove a catalog from the cluster
    Remove(cluster::Remove),
    /// Make a catalog image of a file-based catalog, without a container engine
    Build(build::Arguments),
    /// Push bundle directories as images and write the catalog that refers to them
    FromBundles(from_bundles::Arguments),
}

/// Runs one of them.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Add(arguments) => cluster::add(&arguments),
        Commands::List(arguments) => cluster::list(&arguments),
        Commands::Show(arguments) => cluster::show(&arguments),
        Commands::Search(arguments) => cluster::search(&arguments),
        Commands::Remove(arguments) => cluster::remove(&arguments),
        Commands::Build(arguments) => build::run(&arguments),
        Commands::FromBundles(arguments) => from_bundles::run(&arguments),
    }
}
