//! Logs of the controllers and of HTTP clients, on stderr: the form of a line, and the levels, which can change at run time (MS-OPS-01).
//!
//! ```text
//!   --log-level, MAINSTAY_LOG ──► Levels ──► the filter of the log ◄── Levels ◄── PUT /mainstay/log-level ◄── mainstay log-level
//! ```

pub mod levels;

use std::sync::{Mutex, OnceLock, PoisonError};

use clap::ValueEnum;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, reload};

pub use levels::{InvalidLevels, Levels};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::screen::{self, Kind, LogLines};

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The one log of this process, once it has started.
static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    levels: Mutex<Levels>,
    filter: reload::Handle<Targets, Registry>,
}

/// Starts logging with levels such as `info` or `warn,olm-v1=debug`.
pub fn start(text: &str, format: Format) -> Result<(), Failure> {
    let levels: Levels = text
        .parse()
        .map_err(|problem: InvalidLevels| Failure::new(Exit::Usage, "--log-level", problem.to_string()).hint(levels::hint()))?;
    let (filter, handle) = reload::Layer::new(levels.targets());
    let kind = if format == Format::Json { Kind::Json } else { Kind::Drawn };
    let layer = tracing_subscriber::fmt::layer().with_writer(LogLines(kind));
    let layer: Box<dyn Layer<_> + Send + Sync> = match format {
        Format::Text => layer.with_ansi(screen::colours_on_stderr()).boxed(),
        Format::Json => layer.json().flatten_event(true).with_current_span(false).boxed(),
    };
    let started = tracing_subscriber::registry().with(filter).with(layer).try_init();
    started.map_err(|error| Failure::new(Exit::Failed, "logging", error.to_string()))?;
    // The subscriber above is the only one, so this is the first and only time.
    let _ = LOG.set(Log { levels: Mutex::new(levels), filter: handle });
    Ok(())
}

/// The present levels; none before the log has started.
pub fn current() -> Option<Levels> {
    LOG.get().map(|log| log.levels.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

/// Why the log has the levels that it had.
#[derive(Debug, thiserror::Error)]
pub enum NotChanged {
    /// There is no log yet.
    #[error("the log has not started")]
    NotStarted,
    /// The log takes no filter.
    #[error(transparent)]
    Filter(#[from] reload::Error),
}

/// Changes the levels from the next line on, and logs that at any level; `user` is the user who asked for it.
///
/// # Errors
/// There is no log.
pub fn change(wanted: Levels, user: &str) -> Result<(), NotChanged> {
    let log = LOG.get().ok_or(NotChanged::NotStarted)?;
    let mut levels = log.levels.lock().unwrap_or_else(PoisonError::into_inner);
    log.filter.reload(wanted.targets())?;
    tracing::info!(target: levels::CHANGES, from = %levels, to = %wanted, user, "log levels changed");
    *levels = wanted;
    Ok(())
}
