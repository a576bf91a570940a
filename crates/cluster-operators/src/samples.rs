//! The Cluster Samples Operator, played with objects (COP-13): three ImageStreams of our own, kept as upstream's operator keeps its samples.
//! No image is imported. Every object says that it is simulated.
//!
//! ```text
//!   Config/cluster, ImageStreams of namespace openshift ─► plan ─► run: Config and its status, ImageStreams, ClusterOperator openshift-samples
//! ```
//!
//! `streams`, `status` and `plan` are pure.

mod plan;
mod run;
mod status;
mod streams;

pub use plan::{FINALIZER, Plan, Snapshot, Step, plan};
pub use run::{ACCOUNT, OPERATOR, manifests, run};
pub use status::{State, status};
pub use streams::{MANAGED, NAMES, VERSION, streams};
