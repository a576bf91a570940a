//! `mainstay explain`: state, what it waits for, and the next action (MS-EXPL-02).

use clap::Args;

use crate::errors::{Exit, Failure};

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {}

/// Runs it.
pub fn run(_arguments: &Arguments) -> Result<(), Failure> {
    Err(Failure::new(Exit::Usage, "explain", "is being written"))
}
