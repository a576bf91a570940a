//! `opm version` (CATLG-46): the line that scripts of opm's users parse.

use clap::Args;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::{built, output};

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Words that opm passes over, too.
    #[arg(hide = true, trailing_var_arg = true)]
    _words: Vec<String>,
}

/// Prints the version.
pub fn run() -> Result<(), Failure> {
    output::line(format!(
        "Version: version.Version{{OpmVersion:{:?}, GitCommit:{:?}, BuildDate:{:?}, GoOs:{:?}, GoArch:{:?}}}",
        built::VERSION,
        built::COMMIT,
        built::DATE,
        std::env::consts::OS,
        built::architecture(),
    ))
}
