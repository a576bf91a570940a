//! Releases of a registry's repository and of OCI layouts (CVO-OSUS-11, CVO-OSUS-12).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt as _, TryStreamExt as _};
use mainstay_oci::{
    BlobStore, Client, Descriptor, Digest, Document, ErrorKind, ImageConfig, Layer, Layout, Manifest, Platform, Reference, UnpackLimits,
    UnpackOptions, parse_manifest, read_files,
};
use mainstay_update_graph::{MULTI, Release, ReleaseMetadata};

use crate::error::Error;
use crate::kept::{Kept, Known};

/// Images that are looked at together.
const CONCURRENCY: usize = 16;
const MAX_TAGS: usize = 50_000;
const MAX_MANIFEST: u64 = 4 << 20;
const MAX_CONFIG: u64 = 8 << 20;
/// The largest layer that is fetched to look into it.
const MAX_LAYER: u64 = 512 << 20;
const DOCUMENT: &str = "release-manifests/release-metadata";

/// Where the blobs of an image come from.
enum Origin<'a> {
    Registry(&'a Client, &'a Reference),
    /// They are in the store already.
    Layout,
}

impl Origin<'_> {
    async fn fetch(&self, store: &BlobStore, blob: &Descriptor) -> Result<(), Error> {
        if let Self::Registry(client, reference) = self {
            client.fetch_blobs(reference, store, std::slice::from_ref(blob)).await?;
        }
        Ok(())
    }
}

/// The releases of all tags of a repository.
pub(crate) async fn repository(client: &Client, repository: &Reference, kept: &Kept) -> Result<Vec<Release>, Error> {
    let tags = client.tags(repository).await?;
    if tags.len() > MAX_TAGS {
        return Err(Error::TooLarge { path: repository.name().into(), what: "tags", limit: MAX_TAGS as u64 });
    }
    let skipped = Arc::new(AtomicUsize::new(0));
    let found: Vec<Option<Release>> = futures::stream::iter(tags)
        .map(|tag| {
            let skipped = skipped.clone();
            async move { tagged(client, repository, &tag, kept, &skipped).await }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    let skipped = skipped.load(Ordering::Relaxed);
    if skipped > 0 {
        tracing::info!(repository = repository.name(), tags = skipped, "tags skipped: signatures, or no image that can be read");
    }
    Ok(found.into_iter().flatten().collect())
}

async fn tagged(client: &Client, repository: &Reference, tag: &str, kept: &Kept, skipped: &AtomicUsize) -> Result<Option<Release>, Error> {
    let read = async {
        let resolved = client.resolve(&repository.tagged(tag)?).await?;
        let known = if let Some(known) = kept.get(&resolved.digest) {
            known
        } else {
            let known = examine(client, &resolved.reference, tag).await?;
            kept.put(&resolved.digest, &known)?;
            known
        };
        Ok::<_, Error>(release(known, &repository.name(), &resolved.digest))
    };
    match read.await {
        Ok(release) => Ok(release),
        // An image that can never be read is passed over; a registry that fails now keeps the old graph.
        Err(Error::Image(error)) if tag.contains(".sig") || is_content(error.kind()) => {
            skipped.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, tag, "tag skipped");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns true for errors that another attempt does not mend.
fn is_content(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::Unauthorized
            | ErrorKind::Forbidden
            | ErrorKind::Unreachable
            | ErrorKind::Interrupted
            | ErrorKind::Certificate(_)
            | ErrorKind::Tls
            | ErrorKind::Timeout
            | ErrorKind::RateLimited
            | ErrorKind::Server
    )
}

fn release(known: Known, repository: &str, digest: &Digest) -> Option<Release> {
    let (architecture, metadata) = known?;
    Release::of_image(format!("{repository}@{digest}"), digest.as_str(), &architecture, metadata)
}

async fn examine(client: &Client, reference: &Reference, tag: &str) -> Result<Known, Error> {
    let workspace = client.workspace()?;
    let store = workspace.store();
    let tree = client.survey(reference, store).await?;
    known(&Origin::Registry(client, reference), store, &tree.root, tag).await
}

/// The nature of an image or index in a store.
async fn known(origin: &Origin<'_>, store: &BlobStore, root: &Descriptor, subject: &str) -> Result<Known, Error> {
    let manifest_of = |descriptor: &Descriptor| -> Result<Document, Error> {
        Ok(parse_manifest(subject, &store.read(&descriptor.digest, MAX_MANIFEST)?)?)
    };
    let (architecture, manifest) = match manifest_of(root)? {
        Document::Image(manifest) => (architecture_of(origin, store, &manifest).await?, *manifest),
        Document::Index(index) => {
            // Builders keep attestations beside images, under a platform of this name.
            let real = |entry: &&Descriptor| entry.platform.as_ref().is_none_or(|platform| platform.os != "unknown");
            let images: Vec<&Descriptor> = index.manifests.iter().filter(real).collect();
            let Some(first) = images.first() else { return Ok(None) };
            let Document::Image(manifest) = manifest_of(first)? else { return Ok(None) };
            let architecture = match images.as_slice() {
                [only] => match &only.platform {
                    Some(platform) => platform.architecture.clone(),
                    None => architecture_of(origin, store, &manifest).await?,
                },
                _ => MULTI.to_owned(),
            };
            (architecture, *manifest)
        }
    };
    for layer in manifest.layers.iter().rev().filter(|layer| layer.size <= MAX_LAYER) {
        origin.fetch(store, layer).await?;
        let read = Layer { name: format!("layer {}", layer.digest), path: store.path(&layer.digest) };
        let limits = UnpackLimits { total_bytes: 8 << 20, file_bytes: 4 << 20, ..UnpackLimits::default() };
        let options = UnpackOptions { keep: vec![DOCUMENT.to_owned()], limits, ..UnpackOptions::default() };
        let files = tokio::task::spawn_blocking(move || read_files(&[read], &options)).await??;
        let Some(document) = files.get(DOCUMENT) else { continue };
        match ReleaseMetadata::parse(document) {
            Ok(metadata) => return Ok(Some((architecture, metadata))),
            // An older layer may have one that can be read.
            Err(error) => tracing::warn!(%error, subject, layer = %layer.digest, "release-metadata not read"),
        }
    }
    Ok(None)
}

async fn architecture_of(origin: &Origin<'_>, store: &BlobStore, manifest: &Manifest) -> Result<String, Error> {
    origin.fetch(store, &manifest.config).await?;
    let bytes = store.read(&manifest.config.digest, MAX_CONFIG)?;
    let config: ImageConfig = serde_json::from_slice(&bytes).unwrap_or_default();
    let own = config.platform().architecture;
    Ok(if own.is_empty() { Platform::default().architecture } else { own })
}

/// The releases of all named images of a layout.
pub(crate) async fn layout(path: &Path, repository: Option<&str>, kept: &Kept) -> Result<Vec<Release>, Error> {
    let layout = Layout::open(path)?;
    let mut releases = Vec::new();
    for (name, descriptor) in layout.names()? {
        let found = if let Some(found) = kept.get(&descriptor.digest) {
            found
        } else {
            let found = known(&Origin::Layout, layout.store(), &descriptor, &name).await?;
            kept.put(&descriptor.digest, &found)?;
            found
        };
        let own = Reference::parse(&name).ok().map(|reference| reference.name());
        let Some(repository) = repository.map(str::to_owned).or(own) else {
            return Err(Error::NoImage(format!("{}: {name}", path.display())));
        };
        releases.extend(release(found, &repository, &descriptor.digest));
    }
    Ok(releases)
}
