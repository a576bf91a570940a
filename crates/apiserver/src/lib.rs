//! Kubernetes API machinery over the store.
//!
//! ```text
//!   listener or in-process client
//!      │ server: identify ── authorize ── negotiate
//!      ├─ pages: discovery, openapi, health, metrics
//!      └─ rest: decode ── default ── admission ── strategy ── validate ── store
//!                                                   │                       │
//!                          built-in: mainstay-kinds; custom: crd         cache ── watch
//! ```
//!
//! There is one REST implementation for every kind. What is particular to a kind comes from `strategy`; what is particular to a
//! path from `rest::special`. Requirements: KAPI-SRV, -DISC, -REST, -WATCH, -PATCH, -SSA, -CRD, -ADM-03.
//!
//! A module uses those below it:
//!
//! ```text
//!   open, server                     the server is put together, and requests come in
//!   pages, rest, watch               handlers: they take a Context, which is a request with the server's parts
//!   context ── api                   Api holds the parts; no part knows it, and each is given what it needs
//!   admission                        asks the rest of the server through its own trait Lookup, which server_lookup implements
//!   bootstrap, aggregation, crd, policy_status    tasks over the objects
//!   object_store ── cache, served    typed access to what is stored
//!   strategy, fields, table, scale   functions of a resource and an object
//!   request, object, error           a request as data, an object as bytes and as a value, a refusal
//! ```

#![allow(clippy::result_large_err, reason = "a refusal is the rare case, and boxing it would burden every caller")]

pub mod access;
pub mod admission;
mod aggregation;
mod api;
mod apiservices;
pub mod backup;
mod body;
mod bootstrap;
pub mod cache;
mod cache_lag;
mod caller;
mod clock;
pub mod containers;
mod context;
pub mod crd;
mod decode;
mod discovery;
mod entry;
pub mod error;
mod eviction;
pub mod fields;
mod flow;
pub mod fuzz;
mod gotime;
mod health;
mod horizon;
pub mod inflight;
mod jsonpath;
mod members;
mod metrics;
pub mod object;
mod object_store;
mod open;
mod pages;
mod policy_status;
mod processor;
pub mod remote;
mod reported;
pub mod request;
mod respond;
mod rest;
mod rules;
mod scale;
pub mod selector;
mod served;
mod server;
mod server_lookup;
mod services;
mod stored;
mod strategy;
mod strict;
mod table;
#[cfg(test)]
mod testing;
mod versions;
mod watch;
mod websocket;

pub use api::Api;
pub use bootstrap::Endpoint;
pub use error::ApiError;
pub use open::{Config, OpenError, Server, Storage};
pub use reported::{InvalidVersion, ReportedVersion};
pub use request::TrustedIdentity;
pub use rest::ControlPlane;
