//! `mainstay opm`: what opm does, with its words and exit codes (MS-CLI-01, CATLG-46).

pub mod alpha;
pub mod generate;
pub mod index;
pub mod init;
pub mod migrate;
pub mod registry;
pub mod render;
pub mod serve;
pub mod validate;

use clap::Subcommand;

use crate::errors::Failure;

/// Sub-commands of opm.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Check a directory of file-based catalogs
    Validate(validate::Arguments),
    /// The olm.package blob of a new package
    Init(init::Arguments),
    /// Catalog blobs of bundles and catalogs
    Render(render::Arguments),
    /// Serve a catalog over gRPC
    Serve(serve::Arguments),
    /// Generate what catalogs are built with
    Generate(generate::Arguments),
    /// An index database as a file-based catalog
    Migrate(migrate::Arguments),
    /// Commands that may still change
    Alpha(alpha::Arguments),
    /// Index images with a database (deprecated)
    Index(index::Arguments),
    /// Index databases (deprecated)
    Registry(registry::Arguments),
}

/// Runs one of them.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Validate(arguments) => validate::run(&arguments),
        Commands::Init(arguments) => init::run(&arguments),
        Commands::Render(arguments) => render::run(&arguments),
        Commands::Serve(arguments) => serve::run(&arguments),
        Commands::Generate(arguments) => generate::run(&arguments),
        Commands::Migrate(arguments) => migrate::run(&arguments),
        Commands::Alpha(arguments) => alpha::run(&arguments),
        Commands::Index(arguments) => index::run(&arguments),
        Commands::Registry(arguments) => registry::run(&arguments),
    }
}
