//! `opm version` (CATLG-46): the line that scripts of opm's users pick apart.

use clap::Args;

use crate::errors::Failure;
use crate::output;

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Words that opm passes over, too.
    #[arg(hide = true, trailing_var_arg = true)]
    _words: Vec<String>,
}

/// Prints it.
pub fn run() -> Result<(), Failure> {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let (commit, date) = (option_env!("MAINSTAY_COMMIT").unwrap_or_default(), option_env!("MAINSTAY_BUILD_DATE").unwrap_or_default());
    output::line(format!(
        "Version: version.Version{{OpmVersion:{version:?}, GitCommit:{commit:?}, BuildDate:{date:?}, GoOs:{:?}, GoArch:{:?}}}",
        std::env::consts::OS,
        architecture(),
    ))
}

/// The machine as Go calls it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
