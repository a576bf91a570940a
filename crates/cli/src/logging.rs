//! Logs of the loops and of HTTP clients, to stderr.

use tracing_subscriber::EnvFilter;

use crate::errors::{Exit, Failure};

/// Starts logging with a filter such as `info` or `warn,mainstay_olm_v1=debug`.
pub fn start(filter: &str) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::of(Exit::Usage, format!("log level {filter}"), &error).hint("use error, warn, info, debug, trace or TARGET=LEVEL,...")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none())
        .try_init()
        .map_err(|error| Failure::new(Exit::Failed, "logging", error.to_string()))
}
