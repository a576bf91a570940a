//! Images for everything that needs content by reference: catalogs and bundles today, release images next.
//!
//! ```text
//!   registries.conf, auth files, policy.json ──┐
//!   global pull secret (GlobalPullSecret) ─────┤                        ┌── pull ─────► PulledImage, unpacked where its user says
//!   mirror objects (MirrorController) ─────────┼──► ImageSource ────────┤
//!   authorities of registries ─────────────────┘    ▲        │          └── unpacked ─► a folder by owner and digest, kept
//!   Secret of one owner (PullSecrets) ── Credentials┘        └── admitted: what the signature policy let in, and under which conditions
//! ```
//!
//! Settings are read again before each pull, so a change needs no restart. Content that is kept is used without a pull, but never without
//! the policy: each use, under each name, must be admitted by the policy as it is then (OLM1-GEN-12). Content is unpacked by one task at a
//! time. What is inside an image, and to whom it belongs, is known to the users of this crate only.

pub mod admitted;
mod error;
pub mod global_pull_secret;
pub mod mirrors;
pub mod pull_secrets;
pub mod registries;
mod source;

pub use error::ImageError;
pub use source::{ContentLock, ImageSource, PulledImage, UnpackedImage};
