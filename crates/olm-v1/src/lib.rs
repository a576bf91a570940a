//! OLM v1: ClusterCatalog (catalogd) and ClusterExtension (operator-controller).
//!
//! ```text
//!   ClusterCatalog ──► catalog::controller ──pull, unpack, index──► catalog-store ──► catalog-serve  /catalogs/NAME/api/v1/all
//!                                                                                        │
//!   ClusterExtension ──► extension::controller ◄──── extension::catalogs (local copy) ◄──┘
//!                          observe / plan / act / status
//! ```
//!
//! The two controllers communicate only through objects and the catalog's address, so they run in one process or in two (OLM1-GEN-01).

pub mod catalog;
pub mod catalog_secrets;
pub mod cluster_operator;
pub mod deployment;
pub mod endpoint;
pub mod events;
pub mod extension;
pub mod images;
pub mod manifests;
mod serving;
mod setup;
mod sizes;

pub use setup::{Parts, Ready, Setup, SetupError, Surroundings};
