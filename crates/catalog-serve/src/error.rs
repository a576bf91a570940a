//! Errors of serving catalogs.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use mainstay_catalog::{LoadError, Shape};
use mainstay_catalog_store::StoreError;

/// The reason for which a catalog is not served, or a request not answered.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The content cannot be read.
    #[error("content of the catalog: {0}")]
    Read(#[from] io::Error),
    /// A blob of the content does not match its schema.
    #[error(transparent)]
    Blob(#[from] LoadError),
    /// A property of a bundle has another shape than its type says.
    #[error("package \"{package}\", bundle \"{bundle}\": property {kind}: {shape}")]
    Property {
        /// Package of the bundle.
        package: String,
        /// Name of the bundle.
        bundle: String,
        /// Type of the property.
        kind: &'static str,
        /// The problem with its shape.
        shape: Shape,
    },
    /// A bundle has a property too often.
    #[error("parse properties: expected at most 1 property of type \"{kind}\", found {found}")]
    TooMany {
        /// Type of the property.
        kind: &'static str,
        /// Number of its occurrences.
        found: usize,
    },
    /// An embedded object cannot be read.
    #[error("package \"{package}\", bundle \"{bundle}\": {what} bundle object property at index {index}{reason}")]
    Object {
        /// Package of the bundle.
        package: String,
        /// Name of the bundle.
        bundle: String,
        /// Position among the properties.
        index: usize,
        /// The attempted action.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// A package is not valid.
    #[error("{0}")]
    Invalid(String),
    /// A package cannot be served.
    #[error("build package index: process package \"{package}\": {source}")]
    Process {
        /// Its name.
        package: String,
        /// The problem with the package.
        source: Box<ServeError>,
    },
    /// The catalog cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cache directory cannot be read.
    #[error("detect cache format: read cache directory: {0}")]
    DetectCache(io::Error),
    /// The cache directory holds other content.
    #[error("cache directory has unexpected contents: {names}")]
    UnexpectedCache {
        /// Names of its entries.
        names: String,
    },
    /// The cache has no digest.
    #[error("read existing cache digest: open {}: {}", path.display(), of_system(source))]
    CacheDigest {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The cache was made from another catalog, or was changed.
    #[error("cache requires rebuild: cache reports digest as \"{existing}\", but computed digest is \"{computed}\"")]
    Stale {
        /// The recorded digest.
        existing: String,
        /// The current digest.
        computed: String,
    },
    /// The cache holds no catalog.
    #[error("the cache holds no catalog")]
    EmptyCache,
    /// The cache cannot be written.
    #[error("cache {}: {source}", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The server cannot listen on the address.
    #[error("failed to listen: listen tcp {}: bind: {}", short(*address), of_system(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The descriptions of the services cannot be read.
    #[error("reflection: {0}")]
    Reflection(#[from] Box<tonic_reflection::server::Error>),
    /// The connection of the listener broke.
    #[error("serving failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Formats an address as Go does: all interfaces are an empty host.
fn short(address: SocketAddr) -> String {
    if address.ip().is_unspecified() { format!(":{}", address.port()) } else { address.to_string() }
}

/// Returns the system's error message without its number.
fn of_system(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}
