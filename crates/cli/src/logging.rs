//! Logs of the loops and of HTTP clients, to stderr.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::errors::{Exit, Failure};

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging with a filter such as `info` or `warn,mainstay_olm_v1=debug`.
pub fn start(filter: &str, format: Format) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Failure::of(Exit::Usage, format!("log level {filter}"), &error).hint("use error, warn, info, debug, trace or TARGET=LEVEL,...")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        Format::Text => {
            let colour = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
            log.with_ansi(colour).try_init()
        }
        Format::Json => log.json().flatten_event(true).with_current_span(false).try_init(),
    };
    started.map_err(|error| Failure::new(Exit::Failed, "logging", error.to_string()))
}
