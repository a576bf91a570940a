//! The decisions of the Cluster Version Operator (CVO): what brings a cluster to a release and keeps it there.
//!
//! ```text
//!   ClusterVersion ── validation ── wanted release ── preconditions ── accepted ── history ─┐
//!                                                                                          ├── status
//!   manifests ── apply ── health ── errors ── what is waited for, and for how long ────────┘
//!   ClusterOperators, overrides, admin gates, deletions ── upgradeable ─────────────────────┘
//! ```
//!
//! All functions are pure: the clock comes in as a time, and nothing asks a cluster. The release's content is `mainstay-release`'s, the graph of
//! updates `mainstay-update-graph`'s.

pub mod activity;
pub mod apply;
pub mod cases;
pub mod conditions;
pub mod deletion;
pub mod error;
pub mod health;
pub mod history;
pub mod inject;
pub mod load;
pub mod metrics;
pub mod payload_pod;
pub mod plan;
pub mod precondition;
pub mod readiness;
pub mod release;
pub mod retrieval;
pub mod rival;
pub mod stand_in;
pub mod status;
pub mod upgradeable;
pub mod validation;
pub mod wanted;

pub use wanted::Mode;
