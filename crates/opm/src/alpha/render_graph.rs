//! `opm alpha render-graph` (CATLG-49).

use clap::Args;
use mainstay_catalog::Catalog;
use mainstay_catalog::graph::{Drawing, Mermaid, V0Semantics, mermaid};
use mainstay_catalog_refs::{Access, Kind};
use mainstay_terminal::errors::{Failure, note};
use mainstay_terminal::output;

use super::super::{Global, render};

/// Kinds of references that opm accepts here.
const ACCEPTED: &[Kind] = &[Kind::CATALOG_DIRECTORY, Kind::CATALOG_IMAGE, Kind::DATABASE_FILE, Kind::DATABASE_IMAGE];

/// Arguments.
#[derive(Debug, Args)]
#[command(
    long_about = "Draw the update graphs of a catalog's channels in Mermaid's language.",
    after_help = "\
Examples:
  opm alpha render-graph quay.io/team/catalog:latest
  opm alpha render-graph catalog/ -p my-operator --minimum-edge my-operator.v1.2.0
  mainstay graph my-operator --catalog catalog/ -o svg   draws a picture without other programs"
)]
pub struct Arguments {
    /// Images and directories
    #[arg(required = true, num_args = 1.., value_name = "[index-image | fbc-dir]...")]
    references: Vec<String>,
    /// Draw this package alone
    #[arg(short, long, default_value = "")]
    package_name: String,
    /// Leave out the edges below this bundle
    #[arg(long, default_value = "")]
    minimum_edge: String,
    /// Mark what OLM v0 passes over
    #[arg(long)]
    draw_v0_semantics: bool,
}

/// Prints the graphs.
pub fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    global.check()?;
    let client = || global.client();
    let access = Access::as_opm(&client, ACCEPTED);
    let mut all = Catalog::default();
    for reference in &arguments.references {
        render::append(&mut all, render::load(reference, &access)?);
    }
    let options = Mermaid {
        package: Some(arguments.package_name.as_str()).filter(|name| !name.is_empty()),
        minimum_edge: Some(arguments.minimum_edge.as_str()).filter(|name| !name.is_empty()),
        semantics: if arguments.draw_v0_semantics { V0Semantics::Marked } else { V0Semantics::Plain },
    };
    print(&mermaid(&all, &options).map_err(|error| Failure::failed("catalog", &error))?)
}

/// Prints a drawing, and on stderr the parts that were left out of it.
pub(super) fn print(drawing: &Drawing) -> Result<(), Failure> {
    drawing.warnings.iter().for_each(note);
    output::print(&drawing.text)
}
