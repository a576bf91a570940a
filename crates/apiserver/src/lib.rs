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
mod context;
pub mod crd;
mod decode;
mod discovery;
pub mod entry;
pub mod error;
mod eviction;
pub mod fields;
pub mod fuzz;
mod gotime;
mod health;
pub mod inflight;
mod jsonpath;
mod lookup;
mod members;
mod metrics;
pub mod object;
pub mod object_store;
mod open;
mod pages;
mod policy_status;
pub mod processor;
pub mod remote;
pub mod request;
mod respond;
mod rest;
mod rules;
mod scale;
pub mod selector;
mod served;
mod server;
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
pub use request::TrustedIdentity;
