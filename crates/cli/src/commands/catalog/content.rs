//! Catalogs as models, for the commands that look at them as a curator does.

use clap::ValueEnum;
use mainstay_catalog::{Catalog, Level, Limits};

use crate::catalogs;
use crate::errors::Failure;

/// The catalog at a place: a directory, a file or an image.
pub fn open(place: &str) -> Result<Catalog, Failure> {
    let source = catalogs::source(place)?;
    Catalog::load(source.as_ref(), &Limits::default()).map_err(|error| Failure::failed(format!("catalog {place}"), &error))
}

/// A level as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LevelArgument {
    /// Somebody will be hurt by it.
    Error,
    /// It is probably not what was meant.
    Warning,
    /// Good to know.
    Info,
}

impl From<LevelArgument> for Level {
    fn from(level: LevelArgument) -> Self {
        match level {
            LevelArgument::Error => Self::Error,
            LevelArgument::Warning => Self::Warning,
            LevelArgument::Info => Self::Info,
        }
    }
}

/// `1 error`, `2 errors`.
pub fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
