//! Signatures of releases, looked up and verified (CVO-SIG-01 to CVO-SIG-12). The rules are those of `release::signature`.
//!
//! ```text
//!   ConfigMaps of the cluster ──> spec.signatureStores, if set ──> or else the stores of the running release, all at once
//!        one after the other; the first that satisfies every keyring ends the search
//! ```

mod fetch;
mod verifier;

pub use verifier::{CustomStore, StoreAuthority, Stores, Verifier};
