//! Decisions about cloud credentials (COP-CRED-01 to COP-CRED-08, OLM0-TOKEN-01 to OLM0-TOKEN-08).
//!
//! ```text
//!   CloudCredential, Authentication, Infrastructure ─► Settings ─┐
//!   CredentialsRequest, its Secret, the root Secret ─────────────┼─► plan ─► Secret, status, finalizer; or a Need of the provider
//!                                                                └─► report ─► ClusterOperator cloud-credential, metrics
//!   CredentialsRequest files ─► render ─► what ccoctl writes: Secrets, trust policies, scripts
//! ```
//!
//! All functions are pure. The loop that observes and acts is `mainstay-cloud-credential`. Contents of Secrets are in [`Contents`], which is
//! never printed.

pub mod alerts;
mod cloud;
pub mod conditions;
mod contents;
pub mod explain;
pub mod fresh;
pub mod plan;
pub mod provider;
pub mod render;
pub mod report;
mod request;
mod settings;
pub mod token;
pub mod verify;

pub use cloud::Cloud;
pub use contents::Contents;
pub use request::{Request, RequestError};
pub use settings::{Mode, Settings, SettingsError};

/// The namespace of requests, and of the operator upstream.
pub const NAMESPACE: &str = "openshift-cloud-credential-operator";
/// The API version of requests and of provider specifications.
pub const API_VERSION: &str = "cloudcredential.openshift.io/v1";
/// The finalizer of requests.
pub const FINALIZER: &str = "cloudcredential.openshift.io/deprovision";
/// The annotation and label of a Secret that was written for a request.
pub const REQUEST_MARK: &str = "cloudcredential.openshift.io/credentials-request";
/// The namespace of the root Secrets.
pub const ROOT_NAMESPACE: &str = "kube-system";
/// The annotation of the root Secret that tells what it is good for: `mint`, `passthrough` or `insufficient`.
pub const ROOT_MODE: &str = "cloudcredential.openshift.io/mode";
/// The annotation of CloudCredential by which an administrator allows the update to a minor version.
pub const UPGRADEABLE_TO: &str = "cloudcredential.openshift.io/upgradeable-to";
/// The path of the token that operators mount.
pub const TOKEN_PATH: &str = "/var/run/secrets/openshift/serviceaccount/token";
