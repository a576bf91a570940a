//! `opm alpha convert-template` (CATLG-50).

use clap::{Args, Subcommand};
use mainstay_catalog::template::{Destination, convert};
use mainstay_catalog::{Limits, MemorySource};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

use super::render_template::{Input, read};
use crate::render::parse_output;

/// What a catalog becomes.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Make a basic template of a catalog
    Basic(Arguments),
    /// Make a template for substitutions of a catalog
    Substitutes(Arguments),
}

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  opm alpha convert-template basic catalog/index.yaml -o yaml > template.yaml
  opm render quay.io/team/catalog:latest | opm alpha convert-template basic")]
pub struct Arguments {
    /// The catalog's file; `-` or none is standard input
    #[arg(value_name = "[<fbc-file> | -]")]
    file: Option<String>,
    /// Output format (json|yaml)
    #[arg(short, long, default_value = "json")]
    output: String,
}

/// Prints the template.
pub fn run(command: &Commands) -> Result<(), Failure> {
    let (destination, arguments) = match command {
        Commands::Basic(arguments) => (Destination::Basic, arguments),
        Commands::Substitutes(arguments) => (Destination::Substitutes, arguments),
    };
    parse_output(&arguments.output)?;
    let fail = |message: String| Failure::new(Exit::Failed, "template", message);
    let input = Input::of(arguments.file.as_deref());
    let bytes = read(&input).map_err(|_| fail(format!("unable to open input: {:?}", input.name())))?;
    let source = MemorySource::of(input.name(), bytes);
    let json = convert(&source, &Limits::default(), destination).map_err(|error| fail(format!("converting: {error}")))?;
    if arguments.output == "json" {
        return output::line(json);
    }
    let value = mainstay_yaml::parse(&json).map_err(|error| fail(format!("converting: {error}")))?;
    output::line(format!("---\n{}", mainstay_yaml::to_string(&value)))
}
