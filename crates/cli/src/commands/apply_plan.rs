//! `mainstay apply-plan`: a saved plan, done (MS-PLAN-02).

use clap::Args;

use crate::errors::{Exit, Failure};

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {}

/// Runs it.
pub fn run(_arguments: &Arguments) -> Result<(), Failure> {
    Err(Failure::new(Exit::Usage, "apply-plan", "is being written"))
}
