//! Payloads of images: the layers of one platform's manifest, of which two folders are kept.

use mainstay_oci::{BlobStore, Client, Contents, Descriptor, Image, Layer, Layout, Reference, UnpackLimits, UnpackOptions, read_contents};
use mainstay_release::{Blob, Files, Folder, ReleaseImage};

use crate::error::ReadError;
use crate::place::{joined, platform};
use crate::{Limits, Release};

const MAX_CONFIG: u64 = 8 << 20;

/// Reads the payload of an image of a registry.
///
/// The client decides about mirrors, credentials, the signature policy and the platform. Every blob is compared with its digest, and the
/// manifest with the digest that the reference names.
pub async fn image(client: &Client, reference: &Reference, limits: &Limits) -> Result<Release, ReadError> {
    let read = pull(client, reference, limits);
    let outcome = tokio::time::timeout(limits.deadline, read).await;
    outcome.unwrap_or_else(|_| Err(ReadError::Deadline { image: reference.to_string(), deadline: limits.deadline }))
}

async fn pull(client: &Client, reference: &Reference, limits: &Limits) -> Result<Release, ReadError> {
    let subject = reference.to_string();
    let failed = |error| ReadError::image(&subject, error);
    let workspace = client.workspace().map_err(failed)?;
    // The size is known before any layer is fetched. A tag may move meanwhile, a digest does not.
    let image = client.inspect(reference, workspace.store()).await.map_err(failed)?;
    check_size(&subject, &image, limits)?;
    let image = client.pull(&reference.at(image.digest), workspace.store()).await.map_err(failed)?;
    let (subject, limits) = (subject.clone(), *limits);
    joined(tokio::task::spawn_blocking(move || of_store(&image, workspace.store(), &subject, &limits)).await)
}

/// Reads the payload of an image of a layout. Blocks.
pub(crate) fn of_layout(layout: &Layout, name: Option<&str>, subject: &str, limits: &Limits) -> Result<Release, ReadError> {
    let image = layout.image(name, &platform()).map_err(|error| ReadError::image(subject, error))?;
    check_size(subject, &image, limits)?;
    for layer in &image.manifest.layers {
        // Blobs of a layout were written by others.
        layout.store().verify(&layer.digest).map_err(|error| ReadError::image(subject, error))?;
    }
    of_store(&image, layout.store(), subject, limits)
}

pub(crate) fn check_size(subject: &str, image: &Image, limits: &Limits) -> Result<(), ReadError> {
    let size = image.manifest.layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.size));
    if size <= limits.image_bytes {
        return Ok(());
    }
    let error = mainstay_oci::Error::Limit { subject: subject.to_owned(), what: "size of all layers in bytes", limit: limits.image_bytes };
    Err(ReadError::image(subject, error))
}

fn of_store(image: &Image, store: &BlobStore, subject: &str, limits: &Limits) -> Result<Release, ReadError> {
    let failed = |error| ReadError::image(subject, error);
    let contents = read_contents(&Layer::of(image, store), &options(limits)).map_err(failed)?;
    let files = files(subject, contents)?;
    Ok(Release { files, image: Some(facts(image, store, subject)?) })
}

/// Reads the manifest and the configuration of an image, without its layers.
pub async fn inspect(client: &Client, reference: &Reference) -> Result<ReleaseImage, ReadError> {
    let subject = reference.to_string();
    let failed = |error| ReadError::image(&subject, error);
    let workspace = client.workspace().map_err(failed)?;
    let image = client.inspect(reference, workspace.store()).await.map_err(failed)?;
    facts(&image, workspace.store(), &subject)
}

pub(crate) fn facts(image: &Image, store: &BlobStore, subject: &str) -> Result<ReleaseImage, ReadError> {
    let config = store.read(&image.manifest.config.digest, MAX_CONFIG).map_err(|error| ReadError::image(subject, error))?;
    let config = serde_json::from_slice(&config).map_err(|error| ReadError::Config { image: subject.to_owned(), error })?;
    let blob = |descriptor: &Descriptor| Blob {
        media_type: descriptor.media_type.clone(),
        digest: descriptor.digest.to_string(),
        size: descriptor.size,
    };
    Ok(ReleaseImage {
        listed: image.digest.to_string(),
        digest: image.descriptor.digest.to_string(),
        media_type: image.descriptor.media_type.clone(),
        layers: image.manifest.layers.iter().map(blob).collect(),
        config_blob: blob(&image.manifest.config),
        config,
    })
}

/// Options that keep the two folders.
pub(crate) fn options(limits: &Limits) -> UnpackOptions {
    kept(limits, &[Folder::Operator, Folder::Release])
}

/// Options that keep these folders.
pub(crate) fn kept(limits: &Limits, folders: &[Folder]) -> UnpackOptions {
    let limits = UnpackLimits {
        total_bytes: limits.payload_bytes,
        file_bytes: limits.file_bytes,
        entries: limits.entries,
        read_bytes: limits.expanded_bytes,
        ..UnpackLimits::default()
    };
    let keep = folders.iter().map(|folder| folder.name().to_owned()).collect();
    UnpackOptions { keep, limits, ..UnpackOptions::default() }
}

/// Returns the files of a payload that layers left.
pub(crate) fn files(subject: &str, contents: Contents) -> Result<Files, ReadError> {
    // Links below other folders of a payload are of no account, as the files there.
    let is_folder = |path: &str| [Folder::Operator, Folder::Release].iter().any(|folder| folder.name() == path);
    if let Some(path) = contents.broken_links.into_iter().find(|path| Files::wants(path) || is_folder(path)) {
        return Err(ReadError::Link { subject: subject.to_owned(), path });
    }
    let mut files = Files::default();
    for folder in [Folder::Operator, Folder::Release] {
        if contents.folders.iter().any(|path| path == folder.name()) {
            files.seen(folder);
        }
    }
    for (path, content) in contents.files {
        files.add(&path, content)?;
    }
    if files.has(Folder::Release) { Ok(files) } else { Err(ReadError::NoPayload(subject.to_owned())) }
}
