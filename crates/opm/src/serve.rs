//! `opm serve` (CATLG-45): a directory of file-based catalogs, answered over gRPC.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use mainstay_catalog_serve::ServeError;
use mainstay_catalog_serve::cache::{Cache, FORMAT};
use mainstay_catalog_serve::grpc::{Listener, Options, serve_registry};
use mainstay_catalog_store::{DirectorySource, StoredCatalog};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::runtime::block_on;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::server_log::{Level, ServerLog, TerminationLog};
use mainstay_terminal::errors::InvalidArgument;

/// Limit for answers in flight after the stop was requested.
const DRAIN: Duration = Duration::from_secs(10);

/// Arguments.
#[derive(Debug, Args)]
#[command(
    long_about = "Serves the catalog of a directory over gRPC (api.Registry, health, reflection).\n\n\
                  The directory is read once, at the start; later changes of it are not seen.",
    after_help = "Examples:\n  \
                  mainstay opm serve catalog/\n  \
                  mainstay opm serve catalog/ --cache-dir /tmp/cache --cache-only\n  \
                  mainstay opm serve catalog/ --cache-dir /tmp/cache --port 50051\n\n\
                  Then: grpcurl -plaintext localhost:50051 api.Registry/ListPackages"
)]
pub struct Arguments {
    /// The directory
    #[arg(value_name = "source_path")]
    directory: PathBuf,
    /// Port to serve on
    #[arg(short, long, default_value = "50051")]
    port: String,
    /// Directory that keeps the catalog in the form in which it is served
    #[arg(long, value_name = "DIRECTORY")]
    cache_dir: Option<PathBuf>,
    /// Fill the cache and end without serving
    #[arg(long)]
    cache_only: bool,
    /// End with an error when the cache is missing or was made from something else; otherwise it is filled again.
    /// Default: true with --cache-dir and without --cache-only
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    cache_enforce_integrity: Option<bool>,
    /// File that gets the reason when serving fails
    #[arg(short, long, default_value = "/dev/termination-log", value_name = "FILE")]
    termination_log: PathBuf,
    /// Accepted for scripts that give it; there are no profiles
    #[arg(long, default_value = "localhost:6060", value_name = "ADDRESS")]
    pprof_addr: String,
    /// Accepted for scripts that give it; there are no profiles
    #[arg(long)]
    pprof_capture_profiles: bool,
    /// Say more
    #[arg(long)]
    debug: bool,
}

/// Serves until the process is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let log = ServerLog::new(if arguments.debug { Level::Debug } else { Level::Info });
    log.write(
        Level::Debug,
        "profiles are not available in this program",
        &[("address", &arguments.pprof_addr), ("capture", &arguments.pprof_capture_profiles.to_string())],
    );
    let termination = TerminationLog::open(&arguments.termination_log, &log);
    serve(arguments, &log).inspect_err(|failure| termination.write(failure.message(), &log))
}

fn serve(arguments: &Arguments, log: &ServerLog) -> Result<(), Failure> {
    let subject = "opm serve";
    let enforce = arguments.cache_enforce_integrity.unwrap_or(arguments.cache_dir.is_some() && !arguments.cache_only);
    if enforce && arguments.cache_dir.is_none() {
        return Err(Failure::new(Exit::Failed, subject, "--cache-dir must be specified with --cache-enforce-integrity"));
    }
    // Removed when serving stops.
    let mut temporary = None;
    let directory = if let Some(directory) = &arguments.cache_dir {
        directory.clone()
    } else {
        let made = tempfile::Builder::new().prefix("opm-serve-cache-").tempdir();
        let made = made.map_err(|error| Failure::failed("temporary cache directory", &error))?;
        temporary.insert(made).path().to_owned()
    };
    let log = log.with(&[("cache", &directory.display().to_string()), ("configs", &arguments.directory.display().to_string())]);
    let catalog = open(arguments, &directory, Integrity::of(enforce), &log)?;
    if arguments.cache_only {
        return Ok(());
    }
    let port = port(&arguments.port).map_err(|invalid| Failure::new(Exit::Failed, subject, invalid.to_string()))?;
    let log = log.with(&[("port", &arguments.port)]);
    block_on(answer(catalog, port, Until::Signal, &log))?;
    drop(temporary);
    Ok(())
}

/// The requirement on a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Integrity {
    /// It must be as it was filled, from this catalog.
    Enforced,
    /// It is filled again when it is not as it was filled.
    Restored,
}

impl Integrity {
    fn of(enforced: bool) -> Self {
        if enforced { Self::Enforced } else { Self::Restored }
    }
}

/// The catalog of the directory, from the cache if that is allowed.
fn open(arguments: &Arguments, directory: &Path, integrity: Integrity, log: &ServerLog) -> Result<StoredCatalog, Failure> {
    let subject = "opm serve";
    let cache = Cache::open(directory).map_err(|error| Failure::failed(subject, &error))?;
    if cache.is_present() {
        log.write(Level::Info, "found existing cache contents", &[("backend", FORMAT)]);
    }
    let failed = |step: &str, error: &ServeError| Failure::new(Exit::Failed, subject, format!("{step}: {error}"));
    let rebuild = "failed to load or rebuild cache: failed to rebuild cache";
    let source = DirectorySource::of_user(&arguments.directory)
        .map_err(|error| failed(rebuild, &ServeError::from(mainstay_catalog::LoadError::from(error))))?;
    let checked = cache.check_integrity(&source);
    if let Err(ServeError::Stale { existing, computed }) = &checked {
        log.write(Level::Warning, "cache requires rebuild", &[("computedDigest", computed), ("existingDigest", existing)]);
    }
    match (checked, integrity) {
        (Ok(()), _) => cache.load().map_err(|error| failed("failed to load cache", &error)),
        (Err(error), Integrity::Enforced) => {
            let again =
                format!("fill it with `opm serve {} --cache-dir {} --cache-only`", arguments.directory.display(), directory.display());
            Err(failed("integrity check failed", &error).hint(again))
        }
        (Err(_), Integrity::Restored) => {
            log.write(Level::Info, "building cache", &[]);
            cache.build(&source).map_err(|error| failed(rebuild, &error))
        }
    }
}

/// A port by number.
pub(super) fn port(text: &str) -> Result<u16, InvalidArgument> {
    match text.parse::<u64>() {
        Ok(port) => u16::try_from(port).map_err(|_| InvalidArgument(format!("failed to listen: listen tcp: address {text}: invalid port"))),
        Err(_) => Err(InvalidArgument(format!("failed to listen: listen tcp: lookup tcp/{text}: unknown port"))),
    }
}

/// The time for which a catalog is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Until SIGINT or SIGTERM.
    Signal,
    /// No longer than this.
    Elapsed(Duration),
}

impl Until {
    async fn elapsed(self) {
        match self {
            Self::Signal => std::future::pending().await,
            Self::Elapsed(time) => tokio::time::sleep(time).await,
        }
    }
}

/// Serves a catalog on every interface.
pub(super) async fn answer(catalog: StoredCatalog, port: u16, until: Until, log: &ServerLog) -> Result<(), Failure> {
    let failed = |error: &ServeError| {
        let failure = Failure::new(Exit::Failed, "opm serve", error.to_string());
        match error {
            ServeError::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
                failure.hint("another program serves on this port; end it, or give another one with --port")
            }
            _ => failure,
        }
    };
    let signals = |kind| signal(kind).map_err(|error| Failure::failed("signals", &error));
    let (mut interrupt, mut terminate) = (signals(SignalKind::interrupt())?, signals(SignalKind::terminate())?);
    // One socket takes both kinds of addresses, if the system has both.
    let listener = match Listener::bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)).await {
        Err(ServeError::Listen { source, .. }) if source.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {
            Listener::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)).await
        }
        listener => listener,
    };
    let listener = listener.map_err(|error| failed(&error))?;
    let served = listener.address().port().to_string();
    log.with(&[("port", &served)]).write(Level::Info, "serving registry", &[]);
    let stop = CancellationToken::new();
    let answers = serve_registry(catalog, listener, Options { drain: DRAIN }, stop.clone());
    tokio::pin!(answers);
    tokio::select! {
        ended = answers.as_mut() => return ended.map_err(|error| failed(&error)),
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = until.elapsed() => log.write(Level::Info, "Timeout expired. Gracefully stopping.", &[]),
    }
    log.write(Level::Info, "shutting down server", &[]);
    stop.cancel();
    answers.await.map_err(|error| failed(&error))
}
