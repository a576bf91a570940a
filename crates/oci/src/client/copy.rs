//! Whole images: an index with all that it names, unchanged, so that every digest stays the same.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Attempts, Client, Image, MAX_MANIFEST, check_config, read_config};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind};
use crate::manifest::{Descriptor, Document, parse};
use crate::reference::Reference;
use crate::registries::Source;
use crate::store::BlobStore;

/// Depth of nested indexes: an index of indexes is allowed, but no more.
const MAX_DEPTH: usize = 3;
/// Manifests below one reference, their bytes, and the blobs that they name.
const MAX_MANIFESTS: usize = 1024;
const MAX_MANIFEST_BYTES: u64 = 128 << 20;
const MAX_BLOBS: usize = 16_384;

/// An image or an index with everything below it, by descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The manifest or index that the reference stands for.
    pub root: Descriptor,
    /// All manifests and indexes, each after those that it names; the root is the last.
    pub manifests: Vec<Descriptor>,
    /// All blobs, each once.
    pub blobs: Vec<Descriptor>,
}

/// The manifests of an index that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    Present,
}

/// Digests and counts collected while a tree is read.
#[derive(Debug, Default)]
struct Met {
    /// Digests of blobs, and of manifests and indexes that are in the tree with all that they name.
    blobs: BTreeSet<Digest>,
    manifests: BTreeSet<Digest>,
    /// Manifests and indexes that were named, and bytes of those that were read.
    named: usize,
    bytes: u64,
}

impl Tree {
    /// The bytes of all blobs together.
    pub fn size(&self) -> u64 {
        self.blobs.iter().fold(0, |sum, blob| sum.saturating_add(blob.size))
    }

    fn growing(root: Descriptor) -> Self {
        Self { root, manifests: Vec::new(), blobs: Vec::new() }
    }

    /// Reads what a store holds below a manifest or an index.
    pub fn read(subject: &str, store: &BlobStore, root: &Descriptor) -> Result<Self, Error> {
        let mut tree = Self::growing(root.clone());
        tree.read_below(subject, store, root, Wanted::All, 0, &mut Met::default())?;
        Ok(tree)
    }

    /// Does the same, but passes over platforms of an index that the store does not hold.
    pub(crate) fn read_present(subject: &str, store: &BlobStore, root: &Descriptor) -> Result<Self, Error> {
        let mut tree = Self::growing(root.clone());
        tree.read_below(subject, store, root, Wanted::Present, 0, &mut Met::default())?;
        Ok(tree)
    }

    fn read_below(
        &mut self,
        subject: &str,
        store: &BlobStore,
        descriptor: &Descriptor,
        wanted: Wanted,
        depth: usize,
        met: &mut Met,
    ) -> Result<(), Error> {
        let bytes = store.read(&descriptor.digest, MAX_MANIFEST as u64)?;
        for child in self.enter(subject, &bytes, depth, met)? {
            if !met.manifests.contains(&child.digest) && (wanted == Wanted::All || store.has(&child.digest)) {
                self.read_below(subject, store, &child, wanted, depth + 1, met)?;
            }
        }
        met.manifests.insert(descriptor.digest.clone());
        self.manifests.push(descriptor.clone());
        Ok(())
    }

    /// Adds a document's blobs, and returns the manifests that it names.
    fn enter(&mut self, subject: &str, bytes: &[u8], depth: usize, met: &mut Met) -> Result<Vec<Descriptor>, Error> {
        let limit = |what, limit: usize| Error::Limit { subject: subject.to_owned(), what, limit: limit as u64 };
        met.bytes = met.bytes.saturating_add(bytes.len() as u64);
        if met.bytes > MAX_MANIFEST_BYTES {
            return Err(limit("size of all manifests in bytes", MAX_MANIFEST_BYTES as usize));
        }
        match parse(subject, bytes)? {
            Document::Image(manifest) => {
                for blob in manifest.layers.into_iter().chain([manifest.config]) {
                    if met.blobs.insert(blob.digest.clone()) {
                        self.blobs.push(blob);
                    }
                    if self.blobs.len() > MAX_BLOBS {
                        return Err(limit("number of blobs", MAX_BLOBS));
                    }
                }
                Ok(Vec::new())
            }
            Document::Index(_) if depth >= MAX_DEPTH => Err(limit("depth of indexes", MAX_DEPTH)),
            Document::Index(index) => {
                // Counted when they are named, before any of them is fetched.
                met.named += index.manifests.len();
                if met.named > MAX_MANIFESTS {
                    return Err(limit("number of manifests", MAX_MANIFESTS));
                }
                Ok(index.manifests)
            }
        }
    }
}

impl Client {
    /// Reads the manifests of everything that the reference stands for, of all platforms, into the store.
    pub async fn survey(&self, reference: &Reference, store: &BlobStore) -> Result<Tree, Error> {
        self.within(reference, MAX_MANIFEST_BYTES, self.survey_anywhere(reference, store)).await
    }

    async fn survey_anywhere(&self, reference: &Reference, store: &BlobStore) -> Result<Tree, Error> {
        let mut attempts = Attempts::default();
        for source in self.config.registries.sources(reference)? {
            match self.survey_from(reference, &source, store).await {
                Ok(tree) => return Ok(tree),
                Err(error) => attempts.failed(&source, error)?,
            }
        }
        Err(attempts.into_error(reference))
    }

    /// Fetches all blobs of a surveyed tree.
    pub async fn fetch(&self, reference: &Reference, tree: &Tree, store: &BlobStore) -> Result<(), Error> {
        self.fetch_blobs(reference, store, &tree.blobs).await
    }

    /// Fetches these blobs of a repository.
    pub async fn fetch_blobs(&self, reference: &Reference, store: &BlobStore, blobs: &[Descriptor]) -> Result<(), Error> {
        let mut attempts = Attempts::default();
        for source in self.config.registries.sources(reference)? {
            match self.pull_blobs(reference, &source, store, blobs).await {
                Ok(()) => return Ok(()),
                Err(error) => attempts.failed(&source, error)?,
            }
        }
        Err(attempts.into_error(reference))
    }

    /// Returns the images of a surveyed tree, one for each platform, with their configurations. Attestations that builders keep beside images
    /// (platform `unknown`) are left out.
    pub async fn images(&self, reference: &Reference, tree: &Tree, store: &BlobStore) -> Result<Vec<Image>, Error> {
        let subject = reference.to_string();
        let mut images = Vec::new();
        for descriptor in &tree.manifests {
            let bytes = store.read(&descriptor.digest, MAX_MANIFEST as u64)?;
            let Document::Image(manifest) = parse(&subject, &bytes)? else { continue };
            let noted = descriptor.platform.as_ref().is_some_and(|platform| platform.os == "unknown");
            if noted {
                continue;
            }
            check_config(&subject, &manifest)?;
            self.fetch_blobs(reference, store, std::slice::from_ref(&manifest.config)).await?;
            let config = read_config(&subject, store, &manifest)?;
            images.push(Image { digest: tree.root.digest.clone(), descriptor: descriptor.clone(), manifest: *manifest, config });
        }
        Ok(images)
    }

    /// Returns true if the target has that content, under its tag if it has one.
    pub async fn holds(&self, target: &Reference, digest: &Digest) -> Result<bool, Error> {
        let place = self.own_place(target)?;
        let Some(tag) = target.tag() else { return self.has_manifest(target, &place, digest).await };
        match self.head(&place.reference.tagged(tag)?, &place).await {
            Ok((found, _)) => Ok(found == *digest),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts a tree whose manifests are in the store into another repository. Blobs that the store lacks are mounted from `origins` or fetched
    /// from them. Returns true if the target lacked the tree.
    pub async fn put(&self, tree: &Tree, store: &BlobStore, target: &Reference, origins: &[Reference]) -> Result<bool, Error> {
        let place = self.own_place(target)?;
        let missing = !self.has_manifest(target, &place, &tree.root.digest).await?;
        if missing {
            for blob in &tree.blobs {
                self.push_blob(target, &place, store, blob, origins).await?;
            }
            for manifest in &tree.manifests {
                self.put_manifest(target, &place, store, manifest, manifest.digest.as_str()).await?;
            }
        }
        if let Some(tag) = target.tag() {
            self.put_manifest(target, &place, store, &tree.root, tag).await?;
        }
        Ok(missing)
    }

    async fn survey_from(&self, reference: &Reference, source: &Source, store: &BlobStore) -> Result<Tree, Error> {
        let fetched = self.manifest(reference, source, reference.version(), reference.digest()).await?;
        let subject = reference.to_string();
        let own = match parse(&subject, &fetched.bytes)? {
            Document::Image(manifest) => manifest.media_type,
            Document::Index(index) => index.media_type,
        };
        let root = fetched.descriptor(own.as_deref());
        store.write(&fetched.bytes)?;
        let mut tree = Tree::growing(root.clone());
        self.survey_below(reference, source, store, (&mut tree, &mut Met::default()), root, 0).await?;
        Ok(tree)
    }

    fn survey_below<'a>(
        &'a self,
        reference: &'a Reference,
        source: &'a Source,
        store: &'a BlobStore,
        (tree, met): (&'a mut Tree, &'a mut Met),
        descriptor: Descriptor,
        depth: usize,
    ) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            if !store.has(&descriptor.digest) {
                let fetched = self.manifest(reference, source, descriptor.digest.as_str(), Some(&descriptor.digest)).await?;
                store.write(&fetched.bytes)?;
            }
            let bytes = store.read(&descriptor.digest, MAX_MANIFEST as u64)?;
            self.permit(reference, source, &bytes).await?;
            for child in tree.enter(&reference.to_string(), &bytes, depth, met)? {
                if !met.manifests.contains(&child.digest) {
                    self.survey_below(reference, source, store, (&mut *tree, &mut *met), child, depth + 1).await?;
                }
            }
            met.manifests.insert(descriptor.digest.clone());
            tree.manifests.push(descriptor);
            Ok(())
        }
        .boxed()
    }
}
