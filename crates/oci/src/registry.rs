//! A small registry server: the OCI distribution protocol, for tests, demonstrations and `mainstay up`.
//!
//! Push and pull, mounts, chunked uploads, ranges, tags, the catalog of repositories and referrers; content in memory or in a directory.
//!
//! ```text
//!   HTTP ── access (nobody / basic / token) ── route ── Content { blobs, repositories }
//! ```

mod access;
mod content;
mod handlers;
mod uploads;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use bytes::Bytes;

pub use access::Access;
pub use uploads::UploadLimits;

use crate::digest::Digest;
use crate::error::Error;
use content::Content;

/// Options of a registry.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Directory of the content; in memory when absent.
    pub directory: Option<PathBuf>,
    /// Access control.
    pub access: Access,
    /// Limits on unfinished uploads.
    pub uploads: UploadLimits,
}

/// A registry. Clones share its content.
#[derive(Clone)]
pub struct Registry {
    state: Arc<State>,
}

struct State {
    content: Content,
    access: Access,
    counters: Counters,
}

/// Counters of requests, by kind.
#[derive(Debug, Default)]
struct Counters {
    manifest_reads: AtomicU64,
    manifest_writes: AtomicU64,
    blob_checks: AtomicU64,
    blob_reads: AtomicU64,
    blob_writes: AtomicU64,
    refused: AtomicU64,
}

/// Counts of requests so far, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Manifests read, also by `HEAD`.
    pub manifest_reads: u64,
    /// Manifests stored.
    pub manifest_writes: u64,
    /// Blobs checked by `HEAD`.
    pub blob_checks: u64,
    /// Blobs read.
    pub blob_reads: u64,
    /// Blobs stored.
    pub blob_writes: u64,
    /// Requests without the right credentials.
    pub refused: u64,
}

impl Registry {
    /// A registry with these options; a directory's content is taken over.
    pub fn new(options: Options) -> Result<Self, Error> {
        let content = Content::open(options.directory, options.uploads)?;
        Ok(Self { state: Arc::new(State { content, access: options.access, counters: Counters::default() }) })
    }

    /// An open registry in memory.
    pub fn in_memory() -> Self {
        Self { state: Arc::new(State { content: Content::default(), access: Access::Open, counters: Counters::default() }) }
    }

    /// The server's routes; the whole path space is the registry's.
    pub fn router(&self) -> Router {
        Router::new().fallback(handlers::handle).with_state(self.clone())
    }

    /// Serves until the future ends.
    pub async fn serve(self, listener: tokio::net::TcpListener, until: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        axum::serve(listener, self.router()).with_graceful_shutdown(until).await
    }

    /// Returns the counts of requests so far.
    pub fn counts(&self) -> Counts {
        let counters = &self.state.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            manifest_reads: read(&counters.manifest_reads),
            manifest_writes: read(&counters.manifest_writes),
            blob_checks: read(&counters.blob_checks),
            blob_reads: read(&counters.blob_reads),
            blob_writes: read(&counters.blob_writes),
            refused: read(&counters.refused),
        }
    }

    /// The repositories, sorted.
    pub fn repositories(&self) -> Vec<String> {
        self.state.content.repositories()
    }

    /// Replaces the bytes under a digest, as a broken disk or an attacker would. For tests of clients that pull.
    pub fn corrupt(&self, digest: &Digest, bytes: impl Into<Bytes>) -> Result<(), Error> {
        self.state.content.replace(digest, bytes.into())
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
