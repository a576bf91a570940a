//! OLM classic on a cluster: Subscriptions, InstallPlans, CSVs, OperatorGroups and catalogs (MS-CLI-05, MS-CLI-12, MS-EXPL-02).
//!
//! ```text
//!   objects, packages: what the cluster has ──► olm-classic-core: request, removal, overview, explain ──► steps, answers
//! ```

pub mod approval;
pub mod catalogs;
pub mod described;
pub mod explain;
pub mod install;
pub mod listing;
mod manifests;
pub mod migration;
pub mod next;
pub mod objects;
pub mod operands;
pub mod packages;
pub(crate) mod platform;
pub mod removal;
mod settle;
pub mod upgrade;

pub use mainstay_olm_classic_core::request::{Approval, CatalogName, Request, Watch};
