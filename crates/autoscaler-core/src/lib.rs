//! Decisions of the cluster autoscaler, pure functions of facts that callers hand in (COP-04, COP-CAS-01 to COP-CAS-05, MACH-SET-06).
//!
//! ```text
//!   MachineAutoscaler ── target ──► bounds and owner as annotations of a MachineSet
//!   ClusterAutoscaler ── settings ──┐
//!   MachineSets ── group, template ─┤
//!   Nodes, Pods, budgets ───────────┴─► Snapshot ──► plan ──┬── failed   machines that never became nodes; the set is left out
//!                                                            ├── grow     pods ─► imagined nodes ─► options ─► expander ─► balance
//!                                                            └── shrink   unneeded nodes whose pods all have another place
//!   Plan ── status ──► ConfigMap cluster-autoscaler-status
//! ```
//!
//! Where a pod fits is asked of a [`Rehearsal`], which callers back with the scheduler's own filter. What must be remembered between two passes
//! is [`Memory`]; losing it costs waiting time alone. Each decision is a type (`reason`), its `Display` the sentence of events, status and
//! explanations.

mod backoff;
mod balance;
pub mod expander;
pub mod group;
pub mod grow;
mod limits;
pub mod memory;
pub mod node;
pub mod plan;
pub mod pod;
pub mod reason;
pub mod rehearsal;
pub mod settings;
pub mod shrink;
mod size;
pub mod status;
pub mod target;
pub mod template;

pub use group::{Group, GroupId, Machine};
pub use memory::Memory;
pub use node::Node;
pub use plan::{Plan, Snapshot, plan};
pub use pod::{Budget, Pod};
pub use rehearsal::Rehearsal;
pub use settings::Settings;
pub use size::Size;
