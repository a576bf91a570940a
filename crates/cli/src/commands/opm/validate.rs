//! `opm validate` (CATLG-22).

use std::path::PathBuf;

use clap::Args;
use mainstay_catalog::{Catalog, Limits, validate, validate_all};
use mainstay_catalog_store::DirectorySource;

use crate::errors::{Exit, Failure};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  mainstay opm validate catalog/\n\nExit codes: 0 valid, 1 not valid.")]
pub struct Arguments {
    /// The directory
    directory: PathBuf,
    /// Report everything that is wrong instead of ending where opm ends
    #[arg(long)]
    all: bool,
}

/// Checks a catalog.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let subject = format!("catalog {}", arguments.directory.display());
    let source = DirectorySource::new(&arguments.directory).map_err(|error| Failure::failed(&subject, &error))?;
    let catalog = Catalog::load(&source, &Limits::default()).map_err(|error| Failure::failed(&subject, &error))?;
    let check = if arguments.all { validate_all } else { validate };
    check(&catalog).map_err(|validation| Failure::new(Exit::Failed, subject, validation.to_string()))
}
