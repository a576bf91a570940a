//! Registries, layouts, unpacking with limits, image building, content cache.
//!
//! Images are pulled in this process; no container engine is needed. What comes from outside is checked before it counts: every blob
//! against its digest, every path of a layer against the root, every size against a limit.
//!
//! ```text
//!   Reference ── Registries (mirrors) ── Client ──┐  (lets in what the policy about signatures lets in)
//!   OCI layout directory ─────────────────────────┴── BlobStore ── unpack ── directory or files ── Cache
//!   files + labels ── ImageBuilder ── BlobStore ── Client::push / Layout
//! ```
//!
//! [`Outbound`] makes requests to servers that are no registries. [`registry`] is a small registry server for tests, demonstrations and `mainstay up`. This crate does not interpret what images hold.

mod addresses;
mod archive;
mod auth;
mod auth_file;
mod blob_cache;
mod build;
mod cache;
mod client;
mod digest;
mod error;
mod helper;
mod hosts;
mod layout;
mod manifest;
pub mod mirror;
mod outbound;
mod pace;
pub mod private;
mod reference;
mod registries;
pub mod registry;
mod retry;
mod settings;
mod short_names;
mod signature;
mod store;
mod tls;
mod transport;
mod unpack;

pub use archive::{is_archive, write_docker_archive};
pub use auth::{Credential, Credentials};
pub use auth_file::{Kept, log_in, log_out};
pub use blob_cache::{BlobCache, Workspace};
pub use build::{Compression, Format, ImageBuilder, ImageFile, ImageIndex};
pub use cache::{Cache, Removed};
pub use client::{Client, ClientConfig, Image, OnProgress, Progress, Resolved, Tree};
pub use digest::{Digest, InvalidDigest};
pub use error::{CertificateProblem, Error, ErrorKind};
pub use layout::Layout;
pub use manifest::{Descriptor, Document, ImageConfig, Index, Manifest, Platform, RunConfig, media_type, parse as parse_manifest};
pub use outbound::{Answer, Outbound, OutboundConfig, OutboundError};
pub use pace::Pace;
pub use reference::Reference;
pub use registries::{Registries, Source};
pub use retry::Retry;
pub use settings::Settings;
pub use signature::{KeyExpiry, Keyring, Rejection, SignatureFiles};
pub use store::{BlobStore, BlobWriter};
pub use unpack::{Contents, Layer, Modes, UnpackLimits, UnpackOptions, Unpacked, read_contents, read_files, unpack};
