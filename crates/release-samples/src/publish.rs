//! Sample releases as payload folders, images and signatures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mainstay_oci::{BlobStore, Client, Digest, ImageBuilder, Layout, Platform, Reference};

use crate::error::Error;
use crate::payload::{Images, Release, Trust, components, releases};
use crate::signing::{SigningKey, signature_file};

/// Where images go.
pub enum Target<'a> {
    /// Repositories of a registry: one of releases, and one of their components.
    Registry {
        /// The client.
        client: &'a Client,
        /// The repository of releases.
        releases: Reference,
        /// The repository of components.
        components: Reference,
    },
    /// An OCI layout, in which releases are named by their tags.
    Layout {
        /// The layout.
        layout: &'a Layout,
        /// The repository of releases that pull specs name.
        releases: Reference,
        /// The repository of components that pull specs name.
        components: Reference,
    },
}

/// A release that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The version.
    pub version: &'static str,
    /// The pull spec by digest.
    pub image: String,
    /// The digest.
    pub digest: Digest,
    /// The folder with `manifests` and `release-manifests`.
    pub folder: PathBuf,
}

/// The kinds of images that are published.
enum Kind {
    Release,
    Component,
}

/// Publishes all sample releases: their folders below `folder`, their images at the target, and their signatures below `signatures`, signed
/// with the key that they trust.
///
/// # Errors
/// A file cannot be written, an image cannot be pushed, or the key cannot sign.
pub async fn publish(
    target: &Target<'_>,
    key: &SigningKey,
    store: &str,
    folder: &Path,
    signatures: &Path,
    now: Timestamp,
) -> Result<Vec<Published>, Error> {
    let trust = Trust { public_key: key.public()?, store: store.to_owned() };
    let mut all = Vec::new();
    for release in releases() {
        let mut images = Images::new();
        for component in components() {
            // Each release has images of its own: the content names the version.
            let text = format!("{component} {}\n", release.version);
            let builder = ImageBuilder::new().file("component", text.into_bytes()).label("io.openshift.release.operator", "true");
            let digest = target.put(&builder, Kind::Component, &format!("{component}-{}", release.version)).await?;
            images.insert(component.to_owned(), target.components().at(digest).to_string());
        }
        all.push(publish_one(target, key, &release, &images, &trust, folder, signatures, now).await?);
    }
    Ok(all)
}

#[allow(clippy::too_many_arguments, reason = "one release has these parts")]
async fn publish_one(
    target: &Target<'_>,
    key: &SigningKey,
    release: &Release,
    images: &Images,
    trust: &Trust,
    folder: &Path,
    signatures: &Path,
    now: Timestamp,
) -> Result<Published, Error> {
    let files = release.files(images, trust)?;
    let own = folder.join(release.version);
    write_files(&own, &files)?;
    let builder = ImageBuilder::new().files(files).label("io.openshift.release", release.version);
    let digest = target.put(&builder, Kind::Release, &release.tag()).await?;
    let repository = target.releases().name();
    let signature = signature_file(signatures, &digest);
    write(&signature, &key.sign(&digest, &format!("{repository}:{}", release.tag()), now)?)?;
    Ok(Published { version: release.version, image: target.releases().at(digest.clone()).to_string(), digest, folder: own })
}

impl Target<'_> {
    fn releases(&self) -> &Reference {
        match self {
            Self::Registry { releases, .. } | Self::Layout { releases, .. } => releases,
        }
    }

    fn components(&self) -> &Reference {
        match self {
            Self::Registry { components, .. } | Self::Layout { components, .. } => components,
        }
    }

    /// Builds and stores an image, the same on every machine: the sample releases are for one architecture.
    async fn put(&self, builder: &ImageBuilder, kind: Kind, tag: &str) -> Result<Digest, Error> {
        let platform = Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None };
        let builder = builder.clone().platform(platform);
        let repository = match kind {
            Kind::Release => self.releases(),
            Kind::Component => self.components(),
        };
        match self {
            Self::Registry { client, .. } => {
                let workspace = client.workspace()?;
                let image = builder.build(workspace.store())?;
                Ok(client.push(&image, workspace.store(), &repository.tagged(tag)?).await?)
            }
            Self::Layout { layout, .. } => {
                let store: &BlobStore = layout.store();
                let image = builder.build(store)?;
                layout.add(tag, &image)?;
                Ok(image.descriptor.digest)
            }
        }
    }
}

/// Writes files below a folder.
///
/// # Errors
/// A file or folder cannot be written.
pub fn write_files(folder: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<(), Error> {
    for (path, bytes) in files {
        write(&folder.join(path), bytes)?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    }
    std::fs::write(path, bytes).map_err(Error::io(path))
}
