//! What can go wrong before a request is answered.

use std::net::SocketAddr;
use std::path::PathBuf;

/// A listener that can not be opened, or TLS material that can not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address can not be listened on.
    #[error("can not listen on {address}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A certificate or key file can not be read.
    #[error("can not read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Text that should be PEM is none.
    #[error("{what} is no usable PEM: {detail}")]
    Pem {
        /// What was read.
        what: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// Certificate and key do not fit each other, or use something unsupported.
    #[error("serving certificate can not be used")]
    Certificate(#[source] rustls::Error),
}
