//! `mainstay adm`: what administrators of the platform do.

mod credentials;

use clap::{Args, Subcommand};
use mainstay_terminal::errors::Failure;

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    /// Secrets and cloud-side documents for CredentialsRequests
    #[command(subcommand)]
    Credentials(Credentials),
    #[command(external_subcommand)]
    Other(Vec<String>),
}

#[derive(Debug, Subcommand)]
enum Credentials {
    /// Write what ccoctl writes in a dry run, without a call to a cloud
    Render(Box<credentials::Arguments>),
}

/// Runs the command; the words of one that is not there are the error.
pub fn run(arguments: &Arguments) -> Result<Result<(), Failure>, Vec<String>> {
    match &arguments.command {
        Commands::Credentials(Credentials::Render(arguments)) => Ok(credentials::render(arguments)),
        Commands::Other(words) => Err(words.clone()),
    }
}
