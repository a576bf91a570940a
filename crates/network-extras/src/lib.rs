//! The proxy of the cluster, and trusted CA certificates for ConfigMaps that ask for them (COP-NET-01 to COP-NET-03, OLM0-ADMIN-19).
//!
//! ```text
//!   Proxy cluster, Infrastructure, Network, install-config ─► proxy::status ─► Proxy's status ─► OLM classic and other readers
//!   ConfigMap of spec.trustedCA, the system's certificates ─► trust::merge ─► openshift-config-managed/trusted-ca-bundle
//!                                                                             └─► every ConfigMap with the label, key ca-bundle.crt
//! ```
//!
//! `proxy`, `trust` and `fresh` are pure; `controller` watches and carries out. What cannot be accepted changes nothing: it shows in
//! ClusterOperator `network`, where the kind is served, and in the log.

mod controller;
mod error;
pub mod fresh;
mod manifests;
pub mod proxy;
mod report;
pub mod trust;

pub use controller::{Config, run};
pub use error::Error;
pub use manifests::{ACCOUNT, LEASE, NAMESPACE, manifests};
