//! PackageManifests of the catalogs, as an aggregated API (OLM0-API-27 to OLM0-API-31, OLM0-CAT-02, OLM0-TENANT-08).
//!
//! ```text
//!   SourceContents ──► packages   of each content, read once, kept compressed ──┐
//!   CatalogSources ──► manifest   name, publisher, labels, age ─────────────────┴─► view ◄── api ◄── the API server, as front proxy
//!   register       ──► APIService and Service, kept as they must be
//! ```
//!
//! A package is seen while its source has content: a catalog that cannot be used, or is deleted, takes its packages along.

#![allow(clippy::result_large_err, reason = "a refusal is the rare case, and boxing it would burden every caller")]

mod answers;
mod api;
mod csv;
mod documents;
mod error;
mod follow;
mod front;
mod icon;
mod listener;
mod manifest;
mod manifests;
mod packages;
mod packed;
mod permissions;
mod register;
mod run;
mod view;

pub use api::{PackageApi, router};
pub use error::Error;
pub use listener::Listener;
pub use manifest::{API_VERSION, GROUP, KIND, Manifest, RESOURCE, SourceFacts};
pub use manifests::{ACCOUNT, manifests};
pub use packages::{Channel, Deprecation, Entry, Package, Packages};
pub use register::{LEASE, NAMESPACE, PORT, SERVICE, declared};
pub use run::{Setup, run, run_as};
pub use view::{Snapshot, Source, View};
