//! The Cluster Config Operator: which features a release has on, and what its update migrates in the configuration of the cluster (COP-07).
//!
//! ```text
//!   FeatureGates of the release, FeatureGate/cluster ─► gates ──────┐
//!   FeatureGate/cluster, Infrastructure/cluster ─────► migrations ──┴─► plan ─► run: objects, then ClusterOperator config-operator
//! ```
//!
//! `gates`, `migrations` and `plan` are pure. The steps run again until they find nothing to change: the version is told after that.

mod gates;
mod migrations;
mod plan;
mod run;

pub use gates::{GatesError, Lists, details, sets, status};
pub use migrations::{Facts, MigrationProblem, STEPS, Step};
pub use plan::{Part, Plan, Snapshot, Write, plan};
pub use run::{ACCOUNT, OPERATOR, manifests, run};
