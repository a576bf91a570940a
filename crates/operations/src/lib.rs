//! Operations on a cluster, as functions that any user interface calls: install, upgrade, rollback, uninstall, approve, explain,
//! permissions, wait.
//!
//! An interface (the command line, a console, an SDK) parses and asks. The plan that it shows is a value, and only one function makes it,
//! so that all interfaces show and do the same. Nothing here prints, asks, reads arguments or knows an exit code: errors are a
//! [`Failure`](mainstay_diagnostics::Failure) with a kind, and progress is reported to a [`Progress`].
//!
//! ```text
//!   Session: a cluster, as one identity
//!      │ reads: extensions, catalogs, records, ownership, settings, simulated, token_access
//!      ▼
//!   view::ClusterView ── begin, ready, path ──► olm-v1's plan ── Need(facts) ──► fetched, once each ──┐
//!      ▲                                           │ Ready                                            │
//!      └───────────────────────────────────────────┼──────────────────────────────────────────────────┘
//!                                                  ▼
//!   Change ── plan ─────────────────────────► Planned ──┬── verify   dry run, step by step (MS-PLAN-03)
//!             install, upgrade, rollback,               ├── saved    a file, applied later (MS-PLAN-02)
//!             uninstall, object                         └── apply    done, step by step
//!   approval: a plan of its own (the additional objects), carried out by apply::execute
//!   explain, permissions, wait: answers
//! ```

pub mod accounts;
mod advice;
pub mod apply;
pub mod approval;
mod bundles;
pub mod catalogs;
mod change;
pub mod classic;
pub mod cluster_catalogs;
pub mod cluster_install;
pub mod cluster_update;
pub mod credentials;
pub mod explain;
pub mod extensions;
mod facts;
mod failure;
pub mod images;
pub mod inspect;
pub mod machines;
pub mod nodes;
mod ownership;
pub mod permissions;
mod placement;
mod plan;
mod plan_file;
pub mod pools;
mod progress;
mod records;
pub mod registry_addresses;
pub mod rollback;
mod saved;
mod session;
pub mod settings;
pub mod simulated;
mod token_access;
pub mod uninstall;
pub mod update_plan;
mod verify;
mod view;
pub mod wait;

pub use change::{Change, CrdSafety, Destination, InstallRequest, InstallerPermissions};
pub use failure::{not_resolved, not_written, refused};
pub use plan::{Planned, plan};
pub use progress::{OnTransfer, Progress, Silent};
pub use saved::{SavedPlan, SavedPlans};
pub use session::{ClusterRegistries, MANAGER, Registries, Session};
pub use verify::verify;
