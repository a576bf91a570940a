//! Every listener: TLS with reload, limits, graceful shutdown.
//!
//! The embedded API server, the catalog server and the health endpoints all listen through [`Server`]. A request carries a [`Connection`] in its
//! extensions: the remote address, and the certificates of the client. Those are proven to be the client's own (it holds the key), but their issuer
//! is not verified yet: the authenticator does that.
//!
//! ```text
//!   Server::bind ─ accept ─ (limit) ─ TLS handshake ─ HTTP/1.1 or HTTP/2 ─ Router
//!                                        │                  │
//!                                   Certificates        Connection in the request's extensions
//!                                   (replaceable)
//! ```

mod error;
pub mod fair;
mod files;
pub mod fuzz;
mod gzip;
mod places;
mod sent;
mod server;
mod stalled;
mod steps;
mod tls;

pub use error::Error;
pub use files::raise_file_limit;
pub use gzip::{Gzip, GzipService, UnknownLength, accepts_gzip};
pub use places::Place;
pub use server::{Connection, Ended, Limits, Observer, Server};
pub use tls::{Authorities, Certificates, ClientCertificates, Tls};
