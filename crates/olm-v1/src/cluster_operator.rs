//! OpenShift's cluster operator for OLM. It reports installed bundles that do not support the next platform version (OLM1-COMPAT-01 to
//! OLM1-COMPAT-06), keeps the default catalogs (OLM1-CAT-10 to OLM1-CAT-12), and passes proxy settings and feature gates to the Deployments of both
//! controllers (OLM1-GEN-06, OLM1-GEN-08).
//!
//! ```text
//!   olms/cluster, clusterversions/version, proxies/cluster, featuregates/cluster ──┐
//!   ClusterExtensions, their install records ──► compat ───────────────────────────┼──► conditions of olms/cluster ──► ClusterOperator olm
//!   ClusterCatalogs ─────────────────────────► catalogs ──► applied field by field ┤
//!   Deployments ─────────────────────────────► deployments ──► patched ────────────┘
//! ```
//!
//! The decisions are pure functions of objects, in [`mainstay_olm_v1_core::cluster_operator`]. On a cluster without the kinds of
//! `operator.openshift.io` and `config.openshift.io` the operator does nothing.

mod controller;
mod manifests;

pub use controller::{Config, OperatorError, run};
pub use manifests::{ACCOUNT, DEFINITION, LEASE, NAMESPACE, manifests};
