//! Cloud credentials: CredentialsRequests become Secrets (COP-02, COP-CRED-01 to COP-CRED-07, OLM0-TOKEN-01 to OLM0-TOKEN-08).
//!
//! ```text
//!   CredentialsRequest ──┐
//!   CloudCredential ─────┤                                ┌─► Secret of the request
//!   Authentication ──────┼─► cloud_credential_core::plan ─┼─► status, finalizer
//!   Infrastructure ──────┤        │ Need     ▲ Answer     └─► ClusterOperator cloud-credential, metrics
//!   Secrets, namespaces ─┘        └► Provider ┘
//! ```
//!
//! Decisions are those of `mainstay_cloud_credential_core`; this crate watches and carries out. No log line, event or status holds the
//! content of a Secret.

mod controller;
mod error;
mod manifests;
mod metrics;
pub mod operator;
mod provider;

pub use controller::run;
pub use error::Error;
pub use mainstay_cloud_credential_core::{NAMESPACE, alerts, fresh};
pub use manifests::{ACCOUNT, LEASE, manifests};
pub use provider::{Provider, Simulated};
