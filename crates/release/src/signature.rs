//! Signatures of releases (CVO-SIG-01 to CVO-SIG-12): whose are needed, what they must say, where they lie, and whether those found are enough.
//!
//! ```text
//!   manifests of the running release ── SignatureConfig ── keyrings, stores
//!   image ── ReleaseDigest ── Verification ── offer(signature), missed(why) ── Verified, or VerifyError
//!                                 └── Claim: what the signed content says
//! ```
//!
//! OpenPGP and requests are the caller's: a keyring is anything that opens a message.

mod claim;
mod config;
mod digest;
mod lookup;
mod store;
mod verdict;

pub use claim::{ClaimError, check_claim, unsigned_claim};
pub use config::{ConfigError, SignatureConfig};
pub use digest::ReleaseDigest;
pub use lookup::{Exhausted, MAX_SIGNATURE, MAX_SIGNATURES, SignatureStore, StoreAddress};
pub use store::{SignatureConfigMap, managed_config_map, release_config_map};
pub use verdict::{Cause, Keyring, Verification, Verified, VerifyError};
