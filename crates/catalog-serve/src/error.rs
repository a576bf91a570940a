//! What can go wrong with an answer.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use mainstay_catalog::{LoadError, Shape};
use mainstay_catalog_store::StoreError;

/// Why a catalog is not served, or an answer not given.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The content can not be read.
    #[error("content of the catalog: {0}")]
    Read(#[from] io::Error),
    /// A blob of the content is not what its schema says.
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
        /// What is wrong.
        shape: Shape,
    },
    /// A bundle has a property more often than makes sense.
    #[error("parse properties: expected at most 1 property of type \"{kind}\", found {found}")]
    TooMany {
        /// Type of the property.
        kind: &'static str,
        /// How often it is there.
        found: usize,
    },
    /// An embedded object can not be read.
    #[error("package \"{package}\", bundle \"{bundle}\": {what} bundle object property at index {index}{reason}")]
    Object {
        /// Package of the bundle.
        package: String,
        /// Name of the bundle.
        bundle: String,
        /// Position among the properties.
        index: usize,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        reason: String,
    },
    /// A package is not valid.
    #[error("{0}")]
    Invalid(String),
    /// A package can not be served.
    #[error("build package index: process package \"{package}\": {source}")]
    Process {
        /// Its name.
        package: String,
        /// What is wrong with it.
        source: Box<ServeError>,
    },
    /// The catalog can not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cache directory can not be looked at.
    #[error("detect cache format: read cache directory: {0}")]
    DetectCache(io::Error),
    /// The cache directory holds something else.
    #[error("cache directory has unexpected contents: {names}")]
    UnexpectedCache {
        /// Names of what is there.
        names: String,
    },
    /// The cache has no digest.
    #[error("read existing cache digest: open {}: {}", path.display(), of_system(source))]
    CacheDigest {
        /// The file.
        path: PathBuf,
        /// Why it can not be read.
        source: io::Error,
    },
    /// The cache was made from something else, or was changed.
    #[error("cache requires rebuild: cache reports digest as \"{existing}\", but computed digest is \"{computed}\"")]
    Stale {
        /// What was written down.
        existing: String,
        /// What is so now.
        computed: String,
    },
    /// The cache holds no catalog.
    #[error("the cache holds no catalog")]
    EmptyCache,
    /// The cache can not be written.
    #[error("cache {}: {source}", path.display())]
    Cache {
        /// What was to be written.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The address can not be listened on.
    #[error("failed to listen: listen tcp {}: bind: {}", short(*address), of_system(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The descriptions of the services can not be read.
    #[error("reflection: {0}")]
    Reflection(#[from] Box<tonic_reflection::server::Error>),
    /// The connection of the listener broke.
    #[error("serving failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// An address as Go writes it: every interface is nothing.
fn short(address: SocketAddr) -> String {
    if address.ip().is_unspecified() { format!(":{}", address.port()) } else { address.to_string() }
}

/// What the system said, in its own words without a number.
fn of_system(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}
