//! `mainstay plan`: what a change would do (MS-PLAN-01).

use clap::Args;

use crate::errors::{Exit, Failure};

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {}

/// Runs it.
pub fn run(_arguments: &Arguments) -> Result<(), Failure> {
    Err(Failure::new(Exit::Usage, "plan", "is being written"))
}
