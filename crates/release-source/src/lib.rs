//! Release payloads from where they lie (CVO-REL-08), and their signatures: the content is judged by `release`; this crate reads, within limits.
//!
//! ```text
//!   a reference of a registry ── oci::Client (mirrors, credentials, policy, platform) ──┐
//!   an OCI layout, an archive of images ────────────────────────────────────────────────┴─ layers ─┐
//!   a tar stream ──────────────────────────────────────────────────────────────────────────────────┴─ the two folders ── Release
//!   a folder ──────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Only what lies in `manifests` and `release-manifests` is kept; nothing is unpacked to disk.

mod component;
mod error;
mod folder;
mod image;
mod place;
pub mod signature;
mod tar;

use std::time::Duration;

use mainstay_oci::Client;
use mainstay_release::{Files, ReleaseImage};

pub use component::{ComponentFolders, ComponentImage, component, folders};
pub use error::ReadError;
pub use folder::folder;
pub use image::{image, inspect};
pub use place::Place;
pub use tar::tar;

/// A payload, and the image that it came from.
#[derive(Debug)]
pub struct Release {
    /// The files of both folders.
    pub files: Files,
    /// The image; none for a folder and a plain tar stream.
    pub image: Option<ReleaseImage>,
}

/// The limits of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all layers of an image as they are in the registry.
    pub image_bytes: u64,
    /// Bytes of all layers uncompressed, those of other files too.
    pub expanded_bytes: u64,
    /// Entries of all layers.
    pub entries: u64,
    /// Bytes of one file of a payload.
    pub file_bytes: u64,
    /// Bytes of all files of a payload.
    pub payload_bytes: u64,
    /// Time until an image is pulled and read.
    pub deadline: Duration,
}

impl Default for Limits {
    /// Images of OpenShift have about 500 MB in 5 layers, 1.5 GB uncompressed with 40,000 entries, and payloads of 15 MB.
    fn default() -> Self {
        Self {
            image_bytes: 4 << 30,
            expanded_bytes: 16 << 30,
            entries: 500_000,
            file_bytes: 16 << 20,
            payload_bytes: 256 << 20,
            deadline: Duration::from_secs(600),
        }
    }
}

/// Reads a payload from its place. `client` is asked for only if the place is an image of a registry.
pub async fn read<E>(place: &Place, client: impl FnOnce() -> Result<Client, E>, limits: &Limits) -> Result<Release, ReadError>
where
    ReadError: From<E>,
{
    let local = match place {
        Place::Image(text) => {
            let client = client()?;
            let reference = client.reference(text).map_err(|error| ReadError::image(text, error))?;
            return image(&client, &reference, limits).await;
        }
        local => local.clone(),
    };
    let limits = *limits;
    place::joined(tokio::task::spawn_blocking(move || local.read(&limits)).await)
}
