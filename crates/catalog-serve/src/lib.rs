//! Network interfaces of catalogs, served from content and index on disk: no catalog is ever held in memory as objects.
//!
//! ```text
//!   StoredCatalog ──┬── grpc      api.Registry, health and reflection: what OLM and grpcurl ask (CATLG-36..44)
//!     content, index └── content   catalogd's HTTP interface (OLM1-CAT-16..18)
//! ```
//!
//! An answer is found by the index, read from the content, and converted on request.

pub mod cache;
pub mod content;
mod error;
pub mod grpc;
mod opm_cache;

pub use error::ServeError;
pub use opm_cache::opm_cache;
