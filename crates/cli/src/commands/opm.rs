//! `mainstay opm`: what opm does, with its words and exit codes (MS-CLI-09, MS-CLI-01).

use std::path::PathBuf;

use clap::Subcommand;
use mainstay_catalog::{Catalog, Limits, validate, validate_all};
use mainstay_catalog_store::DirectorySource;

use crate::dispatch::not_there;
use crate::errors::{Exit, Failure};

/// Sub-commands of opm.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Check a directory of file-based catalogs
    #[command(after_help = "Examples:\n  mainstay opm validate catalog/\n\nExit codes: 0 valid, 1 not valid.")]
    Validate {
        /// The directory
        directory: PathBuf,
        /// Report everything that is wrong instead of ending where opm ends
        #[arg(long)]
        all: bool,
    },
    /// Whatever else opm can do
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// Runs one of them.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Validate { directory, all } => {
            let subject = format!("catalog {}", directory.display());
            let source = DirectorySource::new(&directory).map_err(|error| Failure::failed(&subject, &error))?;
            let catalog = Catalog::load(&source, &Limits::default()).map_err(|error| Failure::failed(&subject, &error))?;
            let check = if all { validate_all } else { validate };
            check(&catalog).map_err(|validation| Failure::new(Exit::Failed, subject, validation.to_string()))
        }
        Commands::Other(words) => Err(not_there("opm", &words, "of opm there is validate; catalogs are made with mainstay catalog")),
    }
}
