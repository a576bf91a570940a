//! Storage version migration: objects that are stored in an old version are written once more, so that the old version can go (COP-SVM-01 to
//! COP-SVM-05).
//!
//! ```text
//!   discovery (storageVersionHash) ──┐
//!   StorageStates ───────────────────┴─► plan ─► StorageVersionMigration ─► run: page by page, each object written back unchanged
//!                                                                          └─► StorageState, storedVersions of the CRD
//! ```
//!
//! `plan` is pure. A migration that is interrupted goes on at its page.

mod objects;
mod plan;
mod run;

pub use objects::{ACCOUNT, LEASE, NAMESPACE, definitions, manifests};
pub use plan::{Launch, Plan, Resource, plan, resources};
pub use run::{Config, MigrationError, run};
