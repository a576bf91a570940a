//! `opm alpha bundle`: metadata, images and ConfigMaps of bundles (CATLG-48).

mod build;
mod extract;
mod generate;
mod unpack;
mod validate;

use clap::Subcommand;
use mainstay_terminal::errors::Failure;

use super::super::Global;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Generate operator bundle metadata and Dockerfile
    Generate(generate::Arguments),
    /// Build operator bundle image
    Build(build::Arguments),
    /// Validate bundle image
    #[command(hide = true)]
    Validate(validate::Arguments),
    /// Extracts the data in a bundle directory via ConfigMap
    Extract(extract::Arguments),
    /// Unpacks the content of an operator bundle
    Unpack(unpack::Arguments),
}

/// Runs one of the commands.
pub fn run(command: &Commands, global: Global) -> Result<(), Failure> {
    match command {
        Commands::Generate(arguments) => generate::run(arguments),
        Commands::Build(arguments) => build::run(arguments, global),
        Commands::Validate(arguments) => validate::run(arguments, global),
        Commands::Extract(arguments) => extract::run(arguments),
        Commands::Unpack(arguments) => unpack::run(arguments, global),
    }
}
