//! `opm registry`: index databases as files (CATLG-60, CATLG-56).

mod serve;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use mainstay_sqlite_index::AddOptions;
use mainstay_terminal::errors::{Exit, Failure};

use super::Global;
use super::databases::{self, list, log_of, on_error};
use super::server_log::{Level, ServerLog};

/// Arguments.
#[derive(Debug, Args)]
#[command(
    long_about = "Builds, changes and serves index databases.\n\nIndex databases are deprecated. Turn them into file-based catalogs with `opm migrate`."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Commands>,
}

/// Sub-commands.
#[derive(Debug, Subcommand)]
enum Commands {
    /// Add bundles to a database
    Add(Add),
    /// Remove packages from a database
    Rm(Rm),
    /// Remove all packages but the named ones from a database
    Prune(Prune),
    /// Remove bundles that are in no channel from a database
    PruneStranded(PruneStranded),
    /// Deprecate bundles of a database
    #[command(hide = true)]
    Deprecatetruncate(DeprecateTruncate),
    /// Serve a database over gRPC
    Serve(serve::Arguments),
}

/// Arguments of `add`.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of opm")]
#[command(after_help = "Examples:\n  opm registry add -d bundles.db -b quay.io/team/my-operator-bundle:v0.1.0\n\n\
    Exit codes: 0 added, 1 failed, 2 a bundle image is there already, 3 a bundle of that name is there already.")]
struct Add {
    /// Database file
    #[arg(short, long, default_value = "bundles.db")]
    database: PathBuf,
    /// Bundle images, parted by commas
    #[arg(short, long, value_name = "strings")]
    bundle_images: Vec<String>,
    /// Keep what works when something does not
    #[arg(long)]
    permissive: bool,
    /// File with certificate authorities of registries, when --container-tool is none
    #[arg(long, default_value = "", hide_default_value = true)]
    ca_file: String,
    /// How channels are updated: replaces, semver, semver-skippatch
    #[arg(long, default_value = "replaces")]
    mode: String,
    /// Tool to pull with: none, docker, podman. Images are pulled by this program whatever it says
    #[arg(short, long, default_value = "none")]
    container_tool: String,
    /// Let bundles take the place of channel heads of the same name
    #[arg(long, hide = true)]
    overwrite_latest: bool,
    /// Allow features that are not supported
    #[arg(long, hide = true)]
    enable_alpha: bool,
    /// Log what is done
    #[arg(long)]
    debug: bool,
}

/// Arguments of `rm`.
#[derive(Debug, Args)]
struct Rm {
    /// Database file
    #[arg(short, long, default_value = "bundles.db")]
    database: PathBuf,
    /// Packages to remove, parted by commas
    #[arg(short = 'o', long, required = true, value_name = "strings")]
    packages: Vec<String>,
    /// Keep what works when something does not
    #[arg(long)]
    permissive: bool,
    /// Log what is done
    #[arg(long)]
    debug: bool,
}

/// Arguments of `prune`.
#[derive(Debug, Args)]
struct Prune {
    /// Database file
    #[arg(short, long, default_value = "bundles.db")]
    database: PathBuf,
    /// Packages to keep, parted by commas
    #[arg(short, long, required = true, value_name = "strings")]
    packages: Vec<String>,
    /// Keep what works when something does not
    #[arg(long)]
    permissive: bool,
    /// Log what is done
    #[arg(long)]
    debug: bool,
}

/// Arguments of `prune-stranded`.
#[derive(Debug, Args)]
struct PruneStranded {
    /// Database file
    #[arg(short, long, default_value = "bundles.db")]
    database: PathBuf,
    /// Log what is done
    #[arg(long)]
    debug: bool,
}

/// Arguments of `deprecatetruncate`.
#[derive(Debug, Args)]
struct DeprecateTruncate {
    /// Database file
    #[arg(short, long, default_value = "index.db")]
    database: PathBuf,
    /// Bundle images, parted by commas
    #[arg(short, long, value_name = "strings")]
    bundle_images: Vec<String>,
    /// Keep what works when something does not
    #[arg(long)]
    permissive: bool,
    /// Remove a package when the heads of all its channels are deprecated
    #[arg(long)]
    allow_package_removal: bool,
    /// Log what is done
    #[arg(long)]
    debug: bool,
}

/// Runs one of the commands.
pub fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    databases::deprecation_notice();
    match &arguments.command {
        None => Ok(()),
        Some(Commands::Add(arguments)) => add(arguments, global),
        Some(Commands::Rm(arguments)) => {
            let packages = list(&arguments.packages);
            let log = log_of("packages", &packages);
            log.write(Level::Info, "removing from the registry", &[]);
            databases::change(&arguments.database, &log, |editor| editor.remove(&packages, on_error(arguments.permissive)))
        }
        Some(Commands::Prune(arguments)) => {
            let packages = list(&arguments.packages);
            let log = log_of("packages", &packages);
            log.write(Level::Info, "pruning from the registry", &[]);
            databases::change(&arguments.database, &log, |editor| editor.prune(&packages, on_error(arguments.permissive)))
        }
        Some(Commands::PruneStranded(arguments)) => {
            let log = ServerLog::new(Level::Info);
            log.write(Level::Info, "pruning from the registry", &[]);
            databases::change(&arguments.database, &log, |editor| editor.prune_stranded().map(|()| Vec::new()))
        }
        Some(Commands::Deprecatetruncate(arguments)) => {
            let images = list(&arguments.bundle_images);
            let log = log_of("bundles", &images);
            log.write(Level::Info, "deprecating from registry", &[]);
            let removal = databases::removal(arguments.allow_package_removal);
            databases::change(&arguments.database, &log, |editor| editor.deprecate(&images, removal, on_error(arguments.permissive)))
        }
        Some(Commands::Serve(arguments)) => serve::run(arguments),
    }
}

fn add(arguments: &Add, global: Global) -> Result<(), Failure> {
    let mode = databases::mode(&arguments.mode)?;
    global.check()?;
    let refuse = |problem: String| Err(Failure::new(Exit::Failed, "opm registry add", problem));
    let tool = arguments.container_tool.as_str();
    if !arguments.ca_file.is_empty() {
        if global.skip_tls_verify {
            return refuse("--skip-tls-verify must be false when --ca-file is set".to_owned());
        }
        if matches!(tool, "docker" | "podman") {
            let problem = "--ca-file cannot be set with --container-tool=";
            return refuse(format!("{problem}{tool}; certificates must be configured specifically for {tool}"));
        }
    }
    let images = list(&arguments.bundle_images);
    let log = log_of("bundles", &images);
    databases::warn_of_insecurity(global, &log);
    log.write(Level::Info, "adding to the registry", &[]);
    let bundles = databases::pull(&databases::client(global, &arguments.ca_file)?, &images, &log)?;
    let options = AddOptions {
        mode,
        overwrite_latest: arguments.overwrite_latest,
        enable_alpha: arguments.enable_alpha,
        on_error: on_error(arguments.permissive),
    };
    databases::add(&arguments.database, &bundles, options, &log)
}
