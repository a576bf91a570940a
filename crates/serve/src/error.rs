//! Errors before a request is answered.

use std::net::SocketAddr;
use std::path::PathBuf;

/// A listener that cannot be opened, or TLS material that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// A certificate or key file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The text is not PEM.
    #[error("{what} is no usable PEM: {detail}")]
    Pem {
        /// The name of the text that was read.
        what: &'static str,
        /// The problem.
        detail: String,
    },
    /// Certificate and key do not match, or use an unsupported feature.
    #[error("serving certificate cannot be used")]
    Certificate(#[source] rustls::Error),
}
