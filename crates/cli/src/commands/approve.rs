//! `mainstay approve`: let a ChangePlan happen (MS-POL-01).

use clap::Args;

use crate::errors::{Exit, Failure};

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {}

/// Runs it.
pub fn run(_arguments: &Arguments) -> Result<(), Failure> {
    Err(Failure::new(Exit::Usage, "approve", "is being written"))
}
