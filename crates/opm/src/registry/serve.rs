//! `opm registry serve` (CATLG-56, CATLG-60): serves a database over gRPC, as the catalog that it is.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mainstay_catalog::{Format, MemorySource, render};
use mainstay_catalog_serve::cache::Cache;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::runtime::block_on;

use super::super::databases;
use super::super::serve::{Until, answer, port};
use super::super::server_log::{Level, ServerLog, TerminationLog};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opm registry serve --database /database/index.db\n\n\
    Then: grpcurl -plaintext localhost:50051 api.Registry/ListPackages")]
pub(super) struct Arguments {
    /// Database file
    #[arg(short, long, default_value = "bundles.db")]
    database: PathBuf,
    /// Port to serve on
    #[arg(short, long, default_value = "50051")]
    port: String,
    /// File that gets the reason when serving fails
    #[arg(short, long, default_value = "/dev/termination-log", value_name = "FILE")]
    termination_log: PathBuf,
    /// Accepted for scripts that give it; the file is never changed
    #[arg(long)]
    skip_migrate: bool,
    /// End after so many seconds
    #[arg(long, default_value = "infinite")]
    timeout_seconds: String,
    /// Log what is done
    #[arg(long)]
    debug: bool,
}

/// Serves until the process is told to stop, or the time is over.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let log = ServerLog::new(if arguments.debug { Level::Debug } else { Level::Info });
    let termination = TerminationLog::open(&arguments.termination_log, &log);
    serve(arguments, &log).inspect_err(|failure| termination.write(failure.message(), &log))
}

fn serve(arguments: &Arguments, log: &ServerLog) -> Result<(), Failure> {
    let subject = "opm registry serve";
    let log = log.with(&[("database", &arguments.database.display().to_string()), ("port", &arguments.port)]);
    if arguments.skip_migrate {
        log.write(Level::Debug, "an older schema is read as it is, in a copy", &[]);
    }
    let database = databases::open(&arguments.database)?;
    let catalog =
        database.to_served_catalog().map_err(|error| databases::failure(&format!("database {}", arguments.database.display()), &error))?;
    drop(database);
    let mut lines = Vec::new();
    render(&catalog, Format::JsonLines, &mut lines).map_err(|error| Failure::failed(subject, &error))?;
    drop(catalog);
    let directory = tempfile::Builder::new().prefix("opm-registry-serve-").tempdir();
    let directory = directory.map_err(|error| Failure::failed("temporary cache directory", &error))?;
    let cache = Cache::open(directory.path()).map_err(|error| Failure::failed(subject, &error))?;
    let stored = cache.build(&MemorySource::of("catalog.json", lines)).map_err(|error| Failure::failed(subject, &error))?;
    let number = port(&arguments.port).map_err(|invalid| Failure::new(Exit::Failed, subject, invalid.to_string()))?;
    log.write(Level::Info, &format!("Keeping server open for {} seconds", arguments.timeout_seconds), &[]);
    let until = match arguments.timeout_seconds.as_str() {
        "infinite" => Until::Signal,
        text => {
            let seconds: u16 = text.parse().map_err(|_| {
                Failure::new(Exit::Failed, subject, format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
                    .hint("--timeout-seconds takes a number up to 65535, or infinite")
            })?;
            Until::Elapsed(Duration::from_secs(u64::from(seconds)))
        }
    };
    block_on(answer(stored, number, until, &log))
}
