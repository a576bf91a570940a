//! Cluster API as a provider (MACH-PROV-11): instances by the infrastructure providers of Cluster API, which run in the cluster.
//!
//! ```text
//!   Machine ── provider ──► Secret, clone of the template, Machine of cluster.x-k8s.io ──► Cluster API's controllers: an instance
//!      ▲                                                          │ status, spec.providerID
//!      └────────────────────────── follow ◄───────────────────────┘
//! ```
//!
//! The objects and their reading are `mainstay_machine_core::cluster_api`'s.

mod follow;
mod provider;

pub(crate) use follow::follow;
pub use provider::ClusterApiProvider;
