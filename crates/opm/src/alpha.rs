//! `opm alpha`: commands that upstream may still change (CATLG-46).

mod bundle;
mod convert_template;
mod list;
mod render_graph;
mod render_template;

use clap::{Args, Subcommand};
use mainstay_terminal::errors::Failure;

use super::{Global, generate};

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Commands>,
}

/// Sub-commands.
#[derive(Debug, Subcommand)]
enum Commands {
    /// Operator bundle commands
    #[command(subcommand, long_about = "Generate operator bundle metadata and build bundle image.")]
    Bundle(bundle::Commands),
    /// List what is in a catalog
    #[command(subcommand)]
    List(list::Commands),
    /// Draw the update graphs of a catalog's channels
    RenderGraph(render_graph::Arguments),
    /// Compile a catalog template to a catalog
    RenderTemplate(render_template::Arguments),
    /// Turn a catalog into a template
    #[command(subcommand)]
    ConvertTemplate(convert_template::Commands),
    /// Generate what catalog images are built with
    // Where it was before it left alpha (CATLG-30).
    #[command(subcommand, hide = true)]
    Generate(generate::Commands),
}

/// Runs one of the commands; without a command nothing is done, as with opm.
pub fn run(arguments: Arguments, global: Global) -> Result<(), Failure> {
    match arguments.command {
        None => Ok(()),
        Some(Commands::Bundle(command)) => bundle::run(&command, global),
        Some(Commands::List(command)) => list::run(&command, global),
        Some(Commands::RenderGraph(arguments)) => render_graph::run(&arguments, global),
        Some(Commands::RenderTemplate(arguments)) => render_template::run(&arguments, global),
        Some(Commands::ConvertTemplate(command)) => convert_template::run(&command),
        Some(Commands::Generate(command)) => generate::run(&command),
    }
}
