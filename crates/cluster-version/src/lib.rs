//! The Cluster Version Operator: brings a cluster to a release and keeps it there (`docs/spec/cluster-version.md`).
//!
//! ```text
//!   ClusterVersion ── operator ── accept: verify, retrieve, read, preconditions ── release in force
//!        ▲               │                                                              │
//!        └── status ─────┤                                                              ▼
//!                        └── job ── worker ── pass ── graph of tasks ── task: apply, check, delete
//! ```
//!
//! The decisions are those of `cluster-version-core`; here they meet the cluster. Two parts run beside each other: the operator, which looks at
//! the ClusterVersion and keeps its status, and the worker, which applies manifests. They share one job and one report.

mod accept;
mod accepted;
mod error;
mod graph_run;
mod images;
mod metrics;
mod operator;
mod pace;
mod pass;
mod pods;
mod services;
mod settled;
mod source;
mod task;
mod updates;
mod worker;

pub use accepted::go_architecture;
pub use error::{Error, RetrieveError};
pub use images::{Clients, Images};
pub use operator::{Config, run};
pub use pace::Pace;
pub use pods::{PodSettings, Pods};
pub use services::Services;
pub use source::{Genuine, Proof, Releases};
pub use updates::{Proxy, UpdateService};

/// The namespace of the operator.
pub const NAMESPACE: &str = "openshift-cluster-version";
/// The name under which it writes.
pub const ACCOUNT: &str = "cluster-version-operator";
