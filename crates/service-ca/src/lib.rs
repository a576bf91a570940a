//! The service CA: serving certificates for Services, and the bundle that trusts them (COP-SCA-01 to COP-SCA-05).
//!
//! ```text
//!   Secret signing-key ──► authority::plan ──► make, rotate ──► Authority ──┬──► serving::plan   one Service: its Secret, its annotations
//!   forced rotation ─────┘  keep, until when                               └──► inject::plan    one ConfigMap, CRD, webhook ...: the bundle
//!                                                                          └──► ClusterOperator service-ca, where the kind is served
//! ```
//!
//! The plans are pure functions of objects, the authority and the time. `controller` watches, calls them, and carries them out through
//! `mainstay_apply`; keys are made only there. All state is in the cluster: the authority in its Secret, the issued certificates in the
//! Secrets of the Services. So a restart at any moment continues from there.
//!
//! A rotation never breaks trust. The bundle holds the new CA, each old one that is still valid, and both cross-signed certificates. A
//! certificate that the new CA signs is followed by the new CA as signed by the old one, so that clients with yesterday's bundle accept
//! it too.

mod annotations;
pub mod authority;
pub mod certificates;
mod controller;
mod error;
pub mod inject;
mod manifests;
mod report;
pub mod serving;

pub use controller::run;
pub use error::Error;
pub use manifests::{ACCOUNT, LEASE, NAMESPACE, manifests};
