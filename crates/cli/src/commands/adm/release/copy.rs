//! Copies of a mirror, between registries and directories. Nothing is decided here.

use std::collections::BTreeMap;
use std::path::Path;

use futures::stream::{StreamExt as _, TryStreamExt as _};
use mainstay_oci::{Client, Descriptor, Digest, Error, InvalidDigest, Layout, Reference};
use mainstay_release::mirror::Mapping;

use crate::copies;

/// The annotation of a release in a directory: the pull spec by digest that it was mirrored from.
const SOURCE: &str = "dev.mainstay.release.source";

/// The place that images come from.
pub(super) enum Source {
    /// Their registries.
    Registries,
    /// A directory that an earlier mirror was written to.
    Directory(Kept),
}

/// The place that images go to.
pub(super) enum Target {
    /// Registries.
    Registries,
    /// A directory.
    Directory(Layout),
}

/// A directory with releases.
pub(super) struct Kept {
    layout: Layout,
    entries: BTreeMap<String, Descriptor>,
}

/// A release in a directory.
pub(super) struct KeptRelease<'a> {
    /// Its name in the directory.
    pub name: &'a str,
    /// The pull spec that it was mirrored from.
    pub source: &'a str,
}

impl Kept {
    /// Opens a directory.
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let layout = Layout::open(folder)?;
        let entries = layout.names()?;
        Ok(Self { layout, entries })
    }

    /// The releases in it.
    pub(super) fn releases(&self) -> impl Iterator<Item = KeptRelease<'_>> {
        self.entries.iter().filter_map(|(name, entry)| Some(KeptRelease { name, source: entry.annotations.get(SOURCE)? }))
    }

    /// The image of a digest.
    fn image(&self, digest: &Digest) -> Result<Descriptor, Error> {
        let entry = self.entries.values().find(|entry| entry.digest == *digest);
        let missing = || Error::Content {
            subject: format!("directory {}", self.layout.store().root().display()),
            problem: format!("holds no image {digest}"),
        };
        entry.map(copies::plain).ok_or_else(missing)
    }
}

/// Copies everything, some images at a time; one that fails stops no other. `done` is called for each in the order of the mappings.
///
/// # Errors
/// The list of a directory cannot be written.
pub(super) async fn all(
    client: &Client,
    source: &Source,
    target: &Target,
    mappings: &[Mapping],
    parallel: usize,
    mut done: impl FnMut(&Mapping, Result<(), Error>),
) -> Result<(), Error> {
    let copies = mappings.iter().map(|mapping| async move { Ok::<_, Error>((mapping, one(client, source, target, mapping).await)) });
    let mut copied = futures::stream::iter(copies).buffered(parallel);
    while let Some((mapping, outcome)) = copied.try_next().await? {
        let outcome = outcome.and_then(|root| match (target, root) {
            (Target::Directory(layout), Some(root)) => keep(layout, mapping, root),
            _ => Ok(()),
        });
        done(mapping, outcome);
    }
    Ok(())
}

/// Copies an image and returns what a directory is to list.
async fn one(client: &Client, source: &Source, target: &Target, mapping: &Mapping) -> Result<Option<Descriptor>, Error> {
    let invalid = |error: InvalidDigest| Error::Content { subject: mapping.source.clone(), problem: error.to_string() };
    let digest: Digest = mapping.digest.parse().map_err(invalid)?;
    match (source, target) {
        (Source::Registries, Target::Registries) => {
            let (from, to) = (client.reference(&mapping.source)?.at(digest.clone()), Reference::parse(&mapping.target)?);
            if !client.holds(&to, &digest).await? {
                copies::between_registries(client, &from, &to).await?;
                arrived(client, &to, &digest).await?;
            }
            Ok(None)
        }
        (Source::Directory(kept), Target::Registries) => {
            let to = Reference::parse(&mapping.target)?;
            if !client.holds(&to, &digest).await? {
                copies::layout_to_registry(client, &kept.layout, &mapping.source, &kept.image(&digest)?, &to).await?;
                arrived(client, &to, &digest).await?;
            }
            Ok(None)
        }
        (Source::Registries, Target::Directory(layout)) => {
            let from = client.reference(&mapping.source)?.at(digest);
            Ok(Some(copies::registry_to_layout(client, &from, layout).await?.root))
        }
        (Source::Directory(kept), Target::Directory(layout)) => {
            let root = kept.image(&digest)?;
            match layout.take(&root, kept.layout.store())?.first() {
                None => Ok(Some(root)),
                Some(missing) => {
                    Err(Error::Content { subject: mapping.source.clone(), problem: format!("lacks the blob {}", missing.digest) })
                }
            }
        }
    }
}

/// Compares what a tag stands for now with what was to be put there (CVO-RELM-03).
async fn arrived(client: &Client, target: &Reference, expected: &Digest) -> Result<(), Error> {
    let found = client.resolve(target).await?.digest;
    if found == *expected {
        return Ok(());
    }
    Err(Error::DigestMismatch { subject: target.to_string(), expected: expected.clone(), found })
}

/// Lists an image of a directory; a release with its source.
fn keep(layout: &Layout, mapping: &Mapping, mut root: Descriptor) -> Result<(), Error> {
    if mapping.component.is_none() {
        root.annotations.insert(SOURCE.to_owned(), mapping.source.clone());
    }
    layout.add_descriptor(&mapping.target, &root)
}
