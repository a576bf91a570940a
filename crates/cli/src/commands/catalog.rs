//! `mainstay catalog`: catalogs on the cluster, and catalogs as files (MS-CLI-05).

pub mod build;
pub mod ci;
pub mod cluster;
pub mod compose;
pub mod content;
pub mod diff;
pub mod filter;
pub mod from_bundles;
pub mod lint;
pub mod mirror;
pub mod query;
pub mod search;
mod serve_address;
pub mod why;

use clap::Subcommand;
use mainstay_terminal::errors::Failure;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Add a catalog image to the cluster, and wait until it serves
    Add(cluster::Add),
    /// The catalogs of the cluster
    List(cluster::List),
    /// One catalog of the cluster and its packages
    Show(cluster::Show),
    /// Where the registry server of a CatalogSource of OLM classic answers: host and port, for grpcurl
    ServeAddress(serve_address::Arguments),
    /// Packages in the catalogs of the cluster, or in files and images
    Search(search::Arguments),
    /// Remove a catalog from the cluster
    Remove(cluster::Remove),
    /// Make a catalog image of a file-based catalog, without a container engine
    Build(build::Arguments),
    /// Push bundle directories as images and write the catalog that refers to them
    FromBundles(from_bundles::Arguments),
    /// What is in a catalog: blobs, fields of them, install modes
    Query(query::Arguments),
    /// What changed between two catalogs, and whom it strands
    Diff(diff::Arguments),
    /// Findings about a catalog that validation does not make
    Lint(lint::Arguments),
    /// A smaller catalog: packages, channels, versions
    Filter(filter::Arguments),
    /// Whether and how one bundle updates to another
    Why(why::Arguments),
    /// Copy a catalog and its images to another registry
    Mirror(mirror::Arguments),
    /// A catalog of several catalogs, from a configuration file
    Compose(compose::Arguments),
    /// The checks of a change to a catalog
    Ci(ci::Arguments),
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Add(arguments) => cluster::add(&arguments),
        Commands::List(arguments) => cluster::list(&arguments),
        Commands::Show(arguments) => cluster::show(&arguments),
        Commands::ServeAddress(arguments) => serve_address::run(&arguments),
        Commands::Search(arguments) => search::run(&arguments),
        Commands::Remove(arguments) => cluster::remove(&arguments),
        Commands::Build(arguments) => build::run(&arguments),
        Commands::FromBundles(arguments) => from_bundles::run(&arguments),
        Commands::Query(arguments) => query::run(&arguments),
        Commands::Diff(arguments) => diff::run(&arguments),
        Commands::Lint(arguments) => lint::run(&arguments),
        Commands::Filter(arguments) => filter::run(&arguments),
        Commands::Why(arguments) => why::run(&arguments),
        Commands::Mirror(arguments) => mirror::run(&arguments),
        Commands::Compose(arguments) => compose::run(&arguments),
        Commands::Ci(arguments) => ci::run(&arguments),
    }
}
