//! What stands for the operators of a cluster whose operands are outside this program (COP-G-09, COP-G-10), and small ones that are done here.
//!
//! ```text
//!   manifests of the release, script ─► player::status ─► status of the ClusterOperators that no other part reports
//!   ClusterOperators of the release ─► base ─► settings and their definitions that no manifest brings
//!   discovery, StorageStates ─► storage_migration ─► objects written once more in the storage version
//! ```
//!
//! What is played is marked: the annotation [`player::SIMULATED`], and a word in each message.

pub mod base;
mod error;
mod manifests;
pub mod player;
pub mod storage_migration;

pub use error::Error;
pub use manifests::{ACCOUNT, NAMESPACE, manifests};
