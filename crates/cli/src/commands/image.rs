//! `mainstay image`: this program as an OCI image (MS-CLI-04).

use clap::Args;

use crate::errors::{Exit, Failure};

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {}

/// Runs it.
pub fn run(_arguments: &Arguments) -> Result<(), Failure> {
    Err(Failure::new(Exit::Usage, "image", "is being written"))
}
