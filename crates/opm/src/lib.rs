//! `opm`: the commands of opm, with its messages and exit codes (MS-CLI-01, CATLG-46).
//!
//! The words are read by the grammar of upstream's tools ([`cobra`]), then by the declared arguments; each command calls libraries and prints
//! as opm does.
//!
//! ```text
//!   words ── cobra ── Arguments ── run ──► render, serve, migrate, generate, index, registry, alpha ...
//! ```

pub mod alpha;
pub mod cobra;
pub mod completion;
mod databases;
pub mod generate;
mod global;
pub mod index;
pub mod init;
pub mod migrate;
pub mod registry;
pub mod render;
pub mod serve;
mod server_log;
pub mod validate;
pub mod version;

use clap::{Args, Command, Subcommand};
use mainstay_terminal::errors::Failure;

pub use global::Global;

/// Arguments of opm.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Flags of every command.
    #[command(flatten)]
    pub global: Global,
    /// Log what is done
    #[arg(long, hide = true)]
    debug: bool,
    /// What to do.
    #[command(subcommand)]
    command: Option<Commands>,
}

/// Sub-commands of opm.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Print the olm.package blob of a new package
    Init(init::Arguments),
    /// Print the catalog blobs of catalogs and bundles
    Render(render::Arguments),
    /// Check a file-based catalog
    Validate(validate::Arguments),
    /// Generate what catalog images are built with
    #[command(subcommand)]
    Generate(generate::Commands),
    /// Serve a file-based catalog over gRPC
    Serve(serve::Arguments),
    /// Turn an index database into a file-based catalog
    Migrate(migrate::Arguments),
    /// Commands that may still change
    #[command(hide = true)]
    Alpha(alpha::Arguments),
    /// Index images with a database (deprecated)
    Index(index::Arguments),
    /// Index databases (deprecated)
    Registry(registry::Arguments),
    /// Print a completion script for a shell
    #[command(subcommand)]
    Completion(completion::Commands),
    /// Print the version
    Version(version::Arguments),
}

/// Runs one of the commands; without a command nothing is done, as with opm.
///
/// `declared` is the command as the program declares it, for completion scripts.
pub fn run(arguments: Arguments, declared: impl FnOnce() -> Option<Command>) -> Result<(), Failure> {
    let global = arguments.global;
    match arguments.command {
        None => Ok(()),
        Some(Commands::Init(arguments)) => init::run(&arguments),
        Some(Commands::Render(arguments)) => render::run(&arguments, global),
        Some(Commands::Validate(arguments)) => validate::run(&arguments),
        Some(Commands::Generate(command)) => generate::run(&command),
        Some(Commands::Serve(arguments)) => serve::run(&arguments),
        Some(Commands::Migrate(arguments)) => migrate::run(&arguments, global),
        Some(Commands::Alpha(arguments)) => alpha::run(arguments, global),
        Some(Commands::Index(arguments)) => index::run(&arguments, global),
        Some(Commands::Registry(arguments)) => registry::run(&arguments, global),
        Some(Commands::Completion(command)) => completion::run(&command, declared()),
        Some(Commands::Version(_)) => version::run(),
    }
}
