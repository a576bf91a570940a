//! The policy about images: `policy.json`, `registries.d`, and the signatures that they ask for, as in container tools
//! (containers-policy.json(5), containers-registries.d(5); OLM1-GEN-12).
//!
//! ```text
//!   policy.json ── Policy ── the narrowest scope ── Requirement ─┐
//!   registries.d ── Places ── where signatures lie               ├─ allowed, or why not
//!   lookaside, attachments ── Signature ─────────────────────────┘
//!        openpgp │ sigstore (keys, rekor, certificate) ── payload ── identity
//! ```
//!
//! The decision is a function of bytes, times and names; `files` reads the files that the policy names, and `client::signatures` fetches
//! signatures. All files are read again for each image, so a change counts from the next pull on. Refusals have the sentences of container tools.

mod certificate;
mod evaluate;
mod files;
mod identity;
mod keys;
mod openpgp;
mod payload;
mod places;
mod policy;
mod rekor;
mod requirement;
mod sigstore;
mod stored;
mod strict;

pub use files::SignatureFiles;
pub use openpgp::{KeyExpiry, Keyring};

pub(crate) use evaluate::{Candidate, check, conditions};
pub(crate) use files::read_if_there;
pub(crate) use places::{SignaturePlace, signature_place};
pub(crate) use stored::{SIGSTORE_SIGNATURE, Signature};

/// The place of a mistake in a policy or a signature's text, and the rule that it breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(String);

/// Why a requirement of the policy is not met, in the sentences of container tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejection(String);

impl From<Malformed> for Rejection {
    fn from(malformed: Malformed) -> Self {
        Self(malformed.0)
    }
}

/// The most signatures of one image in one place.
pub(crate) const MAX_SIGNATURES: usize = 128;
/// The largest signature or payload, in bytes. Real ones have a few thousand; all signatures of an image are held in memory at once.
pub(crate) const MAX_SIGNATURE: usize = 256 << 10;
