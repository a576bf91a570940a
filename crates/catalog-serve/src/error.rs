//! What can go wrong with an answer.

use std::io;
use std::net::SocketAddr;

use mainstay_catalog::{LoadError, Shape};

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
    /// The address can not be listened on.
    #[error("failed to listen: listen tcp {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The descriptions of the services can not be read.
    #[error("reflection: {0}")]
    Reflection(String),
    /// The connection of the listener broke.
    #[error("serving failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}
