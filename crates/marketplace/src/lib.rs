//! OperatorHub: the default catalogs of a cluster (OLM0-HUB-01 to OLM0-HUB-07, OLM0-HUB-11).
//!
//! ```text
//!   OperatorHub cluster ─┐
//!   release ─────────────┼─► hub::plan ─► CatalogSources of openshift-marketplace ─► hub::status ─► OperatorHub's status
//!   CatalogSources ──────┘                                                                      └─► ClusterOperator marketplace
//! ```
//!
//! Decisions are those of `mainstay_olm_classic_core::hub`; this crate watches and carries out.

mod controller;
mod error;
mod manifests;
mod report;

pub use controller::{Config, run, run_as};
pub use error::Error;
pub use mainstay_olm_classic_core::hub::{DefaultCatalog, NAMESPACE, default_catalogs, operator_hub};
pub use manifests::{ACCOUNT, LEASE, manifests};
