//! `api.Registry` by gRPC (CATLG-36 to CATLG-44), with health and reflection, as every catalog of OLM serves it.

mod bundle;
mod client;
mod csv;
mod go_json;
mod health;
mod registry;
mod server;

pub use bundle::csv_json;
pub(crate) use bundle::whole;
pub use client::{FetchError, RemoteRegistry};
pub use registry::Registry;
pub use server::{Listener, Options, serve_registry};

/// Messages and services of `proto/registry.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod api {
    tonic::include_proto!("api");
}

/// Descriptors of the services, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/registry.bin"));
