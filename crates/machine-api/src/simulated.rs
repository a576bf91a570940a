//! The simulated provider: instances that are objects, and nodes whose kubelets are simulated (MACH-PROV-04 to MACH-PROV-06).
//!
//! ```text
//!   Machine ── provider ──► SimInstance ── instances ──► pending ─► running ─► boot ─► certificate ─► joined
//!                              │ deleted: shutting-down, then gone                                       │
//!                              └────────────── mainstay_workloads::node: its kubelet ◄───────────────────┘
//! ```
//!
//! Everything is in the cluster, so that instances survive restarts and can be edited to play an outage: `kubectl delete siminstance NAME`
//! loses an instance. In a rehearsal (`--simulate-cloud`), the provider specs of clouds are answered for in the same way (MACH-PROV-10).

mod instances;
mod join;
mod provider;
mod settings;

pub(crate) use instances::run;
pub use provider::SimulatedProvider;
pub use settings::{Operation, Settings, SettingsError};

/// The group of the provider spec.
pub const GROUP: &str = "sim.mainstay.dev";
/// The kind of the provider spec.
pub const KIND: &str = "SimProviderConfig";
/// The finalizer of instances, so that their end takes its time.
pub const FINALIZER: &str = "sim.mainstay.dev/instance";
