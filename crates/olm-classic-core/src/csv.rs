//! ClusterServiceVersions: the state machine that brings an operator from a manifest to running Deployments (OLM0-CSV).
//!
//! ```text
//!   "" ─► Pending ─► InstallReady ─► Installing ─► Succeeded ─► Replacing ─► Deleting
//!            ▲                            │            │
//!            └───────── Failed ◄──────────┴────────────┘
//! ```
//!
//! [`plan`] takes the [`Facts`] about one CSV and answers with one step: a new phase, and what is to be written for it. An installation is carried
//! out by the caller, who hands the outcome to [`installed`] or [`failed`]. Sentences are upstream's, to the letter.

mod facts;
mod health;
mod install;
mod labels;
mod member;
mod membership;
mod permission_checks;
mod plan;
mod replace;
mod requirements;
mod resources;
mod status;
mod token;
mod webhook_rules;

pub use facts::{ApiServiceFacts, Definition, Facts, Group, Serving, WebhookConfiguration};
pub use install::{Install, InstallError, desired};
pub use labels::{api_hash, api_labels};
pub use member::{Member, is_copied};
pub use permission_checks::{PermissionFacts, holds_everywhere, holds_in};
pub use plan::{Action, Plan, failed, installed, plan};
pub use replace::last_of_chain;
pub use status::{Phase, Reason, Transition, next_status, waits_for_cleanup};
pub use token::with_token_volume;

/// The finalizer of a CSV that is not a copy (OLM0-CSV-21).
pub const FINALIZER: &str = "operators.coreos.com/csv-cleanup";
/// The label of a copy: the namespace of the original.
pub const COPIED_FROM: &str = "olm.copiedFrom";
/// The annotation with the name of the OperatorGroup.
pub const GROUP: &str = "olm.operatorGroup";
/// The annotation with the namespace of the OperatorGroup.
pub const GROUP_NAMESPACE: &str = "olm.operatorNamespace";
/// The annotation with the target namespaces of the OperatorGroup.
pub const TARGETS: &str = "olm.targetNamespaces";
