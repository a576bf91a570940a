//! `opm index`: images of index databases (CATLG-54, CATLG-55, CATLG-57 to CATLG-62).

mod export;
mod image;

use std::path::Path;

use clap::{Args, Subcommand};
use mainstay_sqlite_index::AddOptions;
use mainstay_terminal::errors::{Exit, Failure};

use self::image::{BuildTool, Workplace};
use super::Global;
use super::databases::{self, change, list, log_of, on_error};
use super::server_log::{Level, ServerLog};

/// Arguments.
#[derive(Debug, Args)]
#[command(
    long_about = "Makes and changes index images.\n\nThey hold an index database. Index databases are deprecated. Turn them into file-based catalogs with `opm migrate`."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Commands>,
}

/// Sub-commands.
#[derive(Debug, Subcommand)]
enum Commands {
    /// Add bundles to an index
    Add(Box<Add>),
    /// Remove packages from an index
    Rm(Rm),
    /// Write the manifests of an index's packages into a folder
    Export(export::Arguments),
    /// Remove all packages but the named ones from an index
    Prune(Prune),
    /// Deprecate bundles of an index, and remove what they replace
    #[command(hide = true)]
    Deprecatetruncate(DeprecateTruncate),
    /// Remove bundles that are in no channel from an index
    PruneStranded(PruneStranded),
}

/// What is written, and where the image goes.
#[derive(Debug, Args)]
struct Output {
    /// Write Dockerfile and database, and build no image
    #[arg(long)]
    generate: bool,
    /// Name of the Dockerfile
    #[arg(short = 'd', long, default_value = "", hide_default_value = true)]
    out_dockerfile: String,
    /// Image to build on, which brings opm along
    #[arg(short = 'i', long, default_value = "", hide_default_value = true)]
    binary_image: String,
    /// Reference of the image
    #[arg(short, long, default_value = "", hide_default_value = true)]
    tag: String,
    /// Log what is done
    #[arg(long, hide = true)]
    debug: bool,
}

/// The tools to pull and build with.
#[derive(Debug, Args)]
#[allow(clippy::struct_field_names, reason = "they are the names of opm's flags")]
struct Tools {
    /// Tool for images: docker, podman. Stands for --pull-tool and --build-tool
    #[arg(short, long, default_value = "", hide_default_value = true)]
    container_tool: String,
    /// Tool to build images with: docker, podman. Defaults to podman. Without it on this machine, this program builds and pushes
    #[arg(short = 'u', long, default_value = "", hide_default_value = true)]
    build_tool: String,
    /// Tool to pull images with: none, docker, podman. Images are pulled by this program whatever it says
    #[arg(short, long, default_value = "", hide_default_value = true)]
    pull_tool: String,
}

impl Tools {
    fn build(&self) -> Result<BuildTool, Failure> {
        if self.build_tool == "none" {
            return Err(refused("none is not a valid container-tool for index add"));
        }
        match (self.container_tool.as_str(), self.build_tool.as_str(), self.pull_tool.as_str()) {
            ("", tool, _) | (tool, "", "") => Ok(BuildTool::named(tool)),
            _ => Err(refused("container-tool cannot be set alongside pull-tool or build-tool")),
        }
    }
}

/// Arguments of `add`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  opm index add --bundles quay.io/team/my-operator-bundle:v0.1.0 --tag quay.io/team/index:v1
  opm index add --bundles quay.io/team/my-operator-bundle:v0.2.0 --from-index quay.io/team/index:v1 --tag quay.io/team/index:v2
  opm index add --bundles quay.io/team/my-operator-bundle:v0.1.0 --generate
  opm index add --bundles \"\" --from-index quay.io/team/index:v1 --binary-image BASE --tag quay.io/team/index:v1

In mode replaces the head of a channel is its highest version; bundles that upgrade from it are left out.

Exit codes: 0 done, 1 failed, 2 a bundle image is there already, 3 a bundle of that name is there already.")]
struct Add {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    tools: Tools,
    /// Index to add to
    #[arg(short, long, default_value = "", hide_default_value = true)]
    from_index: String,
    /// Bundle images, parted by commas
    #[arg(short, long, required = true, value_name = "strings")]
    bundles: Vec<String>,
    /// Keep what works when something does not
    #[arg(long)]
    permissive: bool,
    /// How channels are updated: replaces, semver, semver-skippatch
    #[arg(long, default_value = "replaces")]
    mode: String,
    /// Let bundles take the place of channel heads of the same name
    #[arg(long, hide = true)]
    overwrite_latest: bool,
    /// Allow features that are not supported
    #[arg(long, hide = true)]
    enable_alpha: bool,
}

/// Arguments of `rm`.
#[derive(Debug, Args)]
struct Rm {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    tools: Tools,
    /// Index to remove from
    #[arg(short, long, required = true)]
    from_index: String,
    /// Packages to remove, parted by commas
    #[arg(short, long, required = true, value_name = "strings")]
    operators: Vec<String>,
    /// Keep what works when something does not
    #[arg(long)]
    permissive: bool,
}

/// Arguments of `prune`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opm index prune -f quay.io/team/index:v1 -p first,second -t quay.io/team/small:v1")]
struct Prune {
    #[command(flatten)]
    output: Output,
    /// Index to prune
    #[arg(short, long, required = true)]
    from_index: String,
    /// Packages to keep, parted by commas
    #[arg(short, long, required = true, value_name = "strings")]
    packages: Vec<String>,
    /// Tool for images: docker, podman
    #[arg(short, long, default_value = "podman")]
    container_tool: String,
    /// Keep what works when something does not
    #[arg(long)]
    permissive: bool,
}

/// Arguments of `prune-stranded`.
#[derive(Debug, Args)]
struct PruneStranded {
    #[command(flatten)]
    output: Output,
    /// Index to prune
    #[arg(short, long, required = true)]
    from_index: String,
    /// Tool for images: docker, podman
    #[arg(short, long, default_value = "podman")]
    container_tool: String,
}

/// Arguments of `deprecatetruncate`.
#[derive(Debug, Args)]
struct DeprecateTruncate {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    tools: Tools,
    /// Index to change
    #[arg(short, long, default_value = "", hide_default_value = true)]
    from_index: String,
    /// Bundle images, parted by commas
    #[arg(short, long, required = true, value_name = "strings")]
    bundles: Vec<String>,
    /// Keep what works when something does not
    #[arg(long)]
    permissive: bool,
    /// Remove a package when the heads of all its channels are deprecated
    #[arg(long)]
    allow_package_removal: bool,
}

/// Runs one of the commands.
pub fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    databases::deprecation_notice();
    match &arguments.command {
        None => Ok(()),
        Some(Commands::Add(arguments)) => add(arguments, global),
        Some(Commands::Rm(arguments)) => {
            let packages = list(&arguments.operators);
            let log = log_of("operators", &packages);
            let job = Job { global, output: &arguments.output, from: &arguments.from_index, tool: arguments.tools.build()?, log: &log };
            job.run("building the index", |path| change(path, &log, |editor| editor.remove(&packages, on_error(arguments.permissive))))
        }
        Some(Commands::Export(arguments)) => export::run(arguments, global),
        Some(Commands::Prune(arguments)) => {
            let packages = list(&arguments.packages);
            let log = log_of("packages", &packages);
            let tool = pruning_tool(&arguments.container_tool)?;
            let job = Job { global, output: &arguments.output, from: &arguments.from_index, tool, log: &log };
            job.run("pruning the index", |path| change(path, &log, |editor| editor.prune(&packages, on_error(arguments.permissive))))
        }
        Some(Commands::PruneStranded(arguments)) => {
            let log = ServerLog::new(Level::Info);
            let tool = pruning_tool(&arguments.container_tool)?;
            let job = Job { global, output: &arguments.output, from: &arguments.from_index, tool, log: &log };
            job.run("pruning stranded bundles from the index", |path| {
                change(path, &log, |editor| editor.prune_stranded().map(|()| Vec::new()))
            })
        }
        Some(Commands::Deprecatetruncate(arguments)) => {
            let images = list(&arguments.bundles);
            let log = log_of("bundles", &images);
            let removal = databases::removal(arguments.allow_package_removal);
            let job = Job { global, output: &arguments.output, from: &arguments.from_index, tool: arguments.tools.build()?, log: &log };
            job.run("deprecating bundles from the index", |path| {
                change(path, &log, |editor| editor.deprecate(&images, removal, on_error(arguments.permissive)))
            })
        }
    }
}

fn add(arguments: &Add, global: Global) -> Result<(), Failure> {
    global.check()?;
    let options = AddOptions {
        mode: databases::mode(&arguments.mode)?,
        overwrite_latest: arguments.overwrite_latest,
        enable_alpha: arguments.enable_alpha,
        on_error: on_error(arguments.permissive),
    };
    let images = list(&arguments.bundles);
    let log = log_of("bundles", &images);
    let job = Job { global, output: &arguments.output, from: &arguments.from_index, tool: arguments.tools.build()?, log: &log };
    job.run("building the index", |path| {
        let bundles = databases::pull(&databases::client(global, "")?, &images, &log)?;
        databases::add(path, &bundles, options, &log)
    })
}

/// The work that all of the commands share: take the database out of an image, change it, write the Dockerfile, build.
struct Job<'a> {
    global: Global,
    output: &'a Output,
    from: &'a str,
    tool: BuildTool,
    log: &'a ServerLog,
}

impl Job<'_> {
    fn run(&self, message: &str, change: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<(), Failure> {
        self.global.check()?;
        self.log.write(Level::Info, message, &[]);
        let workplace = if self.output.generate {
            Workplace::kept(&self.output.out_dockerfile)
        } else {
            Workplace::temporary(&self.output.out_dockerfile)?
        };
        let place = workplace.database()?;
        let io = |error: std::io::Error| Failure::failed(format!("file {}", place.display()), &error);
        // The existing file stays until the new database is whole.
        let folder = place.parent().unwrap_or(Path::new("."));
        let scratch = tempfile::Builder::new().prefix(".index-").tempdir_in(folder).map_err(io)?;
        let database = scratch.path().join("index.db");
        if !self.from.is_empty() {
            self.log.write(Level::Info, &format!("Pulling previous image {} to get metadata", self.from), &[]);
            image::extract(&databases::client(self.global, "")?, self.from, &database)?;
        }
        change(&database)?;
        std::fs::rename(&database, &place).map_err(io)?;
        self.log.write(Level::Info, "Generating dockerfile", &[]);
        workplace.write_dockerfile(&self.output.binary_image, self.log)?;
        if self.output.generate {
            return Ok(());
        }
        image::build(&workplace, &self.output.binary_image, &self.output.tag, self.tool, self.global, self.log)
    }
}

fn pruning_tool(text: &str) -> Result<BuildTool, Failure> {
    if text == "none" {
        return Err(refused("none is not a valid container-tool for index prune"));
    }
    Ok(BuildTool::named(text))
}

fn refused(text: &str) -> Failure {
    Failure::new(Exit::Failed, "opm index", text)
}
