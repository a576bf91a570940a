//! What stands for the operators of a cluster whose operands are outside this program (COP-G-09, COP-G-10), and small ones that are done here.
//!
//! ```text
//!   manifests of the release, script ─► player::status ─► status of the ClusterOperators that no other part reports
//!   FeatureGates of the release, configuration ─► cluster_config ─► status of FeatureGate/cluster, migrated objects
//!   Config/cluster of the samples ─► samples ─► three ImageStreams
//!   ClusterOperators of the release ─► base ─► settings and their definitions that no manifest brings
//!   discovery, StorageStates ─► storage_migration ─► objects written once more in the storage version
//! ```
//!
//! What is played is marked: the annotation [`player::SIMULATED`], and a word in each message.

pub mod base;
pub mod cluster_config;
mod embedded;
mod error;
mod follow;
mod manifests;
pub mod player;
pub mod reported;
pub mod samples;
pub mod storage_migration;

pub use error::Error;
pub use manifests::{ACCOUNT, NAMESPACE, manifests};
