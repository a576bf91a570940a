//! What a person does with a cluster, as functions that any face calls: install, upgrade, rollback, uninstall, approve, explain,
//! permissions, wait.
//!
//! A face (the command line, a console, an SDK) parses and asks; the plan that it shows is a value, and the function that made it is the
//! only one, so that all faces show and do the same. Nothing here prints, asks, reads arguments or knows an exit code: what goes wrong is a
//! [`Failure`](mainstay_diagnostics::Failure) with a kind, what goes on is told to a [`Progress`].
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
//!   rollback, uninstall, approval: a plan of their own (verdict, preview, what is made besides), and its carrying out by apply::execute
//!   explain, permissions, wait: answers
//! ```

mod advice;
pub mod apply;
pub mod approval;
mod bundles;
pub mod catalogs;
mod change;
pub mod cluster_catalogs;
pub mod explain;
pub mod extensions;
mod facts;
mod failure;
pub mod images;
mod ownership;
pub mod permissions;
mod placement;
mod plan;
mod progress;
mod records;
pub mod rollback;
mod saved;
mod session;
pub mod settings;
pub mod simulated;
mod token_access;
pub mod uninstall;
mod verify;
mod view;
pub mod wait;

pub use change::{Change, CrdSafety, InstallRequest, InstallerPermissions};
pub use failure::{not_resolved, not_written, refused};
pub use plan::{Planned, plan};
pub use progress::{OnTransfer, Progress, Silent};
pub use saved::{SavedPlan, SavedPlans};
pub use session::{MANAGER, Registries, Session};
pub use verify::verify;
