//! `mainstay catalog lint`.

use clap::Args;

use crate::dispatch::not_there;
use crate::errors::Failure;

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The words.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    Err(not_there("catalog lint", &arguments.words, "not there yet"))
}
