//! Copying of the planned images, and deletion of those that vanished. Nothing is decided here.

use futures::stream::{StreamExt as _, TryStreamExt as _};
use mainstay_oci::mirror::{Copy, Mirrored, Record};
use mainstay_oci::{Client, Descriptor, Digest, Error, ErrorKind, Layout, Reference, Tree};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::images;
use mainstay_terminal::progress::Progress;

use super::open::{Opened, Rebuilt, Source};
use super::place::{Place, directory_name};
use crate::copies;

/// The result of one image.
pub struct Done {
    /// The outcome.
    pub outcome: Outcome,
    /// The mirrored image, if there is one.
    pub mirrored: Option<Mirrored>,
}

/// The outcome of one image.
pub enum Outcome {
    /// It was copied, at least in part.
    Copied,
    /// It was there already.
    There,
    /// It was not copied.
    Failed(Failure),
}

impl Outcome {
    fn of(is_new: bool) -> Self {
        if is_new { Self::Copied } else { Self::There }
    }

    /// One word for tables and programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Copied => "copied",
            Self::There => "there",
            Self::Failed(_) => "failed",
        }
    }
}

/// Copies everything, some images at a time; one that fails stops no other. The answers are in the order of the copies.
pub async fn copy_all(client: &Client, opened: &Opened, copies: &[Copy], place: &Place, parallel: usize) -> Result<Vec<Done>, Failure> {
    let progress = std::sync::Mutex::new(Progress::start());
    let tasks = copies.iter().enumerate().map(|(number, copy)| {
        let progress = &progress;
        async move {
            if let Ok(mut progress) = progress.lock() {
                progress.doing(&format!("image {} of {}: {}", number + 1, copies.len(), copy.source));
            }
            let (outcome, mirrored) = match copy_one(client, opened, copy, place).await {
                Ok((outcome, mirrored)) => (outcome, Some(mirrored)),
                Err(error) => (Outcome::Failed(images::failure(&format!("image {}", copy.source), &error)), None),
            };
            Ok::<_, Failure>(Done { outcome, mirrored })
        }
    });
    futures::stream::iter(tasks).buffered(parallel).try_collect().await
}

async fn copy_one(client: &Client, opened: &Opened, copy: &Copy, place: &Place) -> Result<(Outcome, Mirrored), Error> {
    let is_catalog = copy.source == *opened.catalog() || opened.catalog().digest().is_some() && copy.source == opened.fixed;
    let rebuilt = opened.rebuilt.as_ref().filter(|_| is_catalog);
    match (&opened.source, place) {
        (Source::Directory(layout), Place::Registry { client, .. }) => from_directory(client, layout, copy).await,
        (Source::Directory(layout), Place::Directory { .. }) => {
            Err(Error::Content { subject: directory_name(layout), problem: "is copied to a registry, not to another directory".to_owned() })
        }
        (Source::Registries, Place::Registry { before, .. }) => match rebuilt {
            Some(rebuilt) => put(client, &rebuilt.tree()?, rebuilt.workspace.store(), copy, std::slice::from_ref(&opened.fixed)).await,
            None => between_registries(client, &source_of(client, opened, copy, is_catalog).await?, copy, before.as_ref()).await,
        },
        (Source::Registries, Place::Directory { layout, list, .. }) => {
            let (root, outcome) = match rebuilt {
                Some(rebuilt) => into_directory_rebuilt(client, rebuilt, &opened.fixed, layout).await?,
                None => into_directory(client, &source_of(client, opened, copy, is_catalog).await?, copy, layout).await?,
            };
            let _held = list.lock().await;
            layout.add_descriptor(&copy.target.to_string(), &root)?;
            let tree = Tree::read(&copy.source.to_string(), layout.store(), &root)?;
            let name = copy.target.to_string();
            Ok((outcome, mirrored(copy, name, &tree)))
        }
    }
}

/// The image by digest, at its source.
async fn source_of(client: &Client, opened: &Opened, copy: &Copy, is_catalog: bool) -> Result<Reference, Error> {
    if is_catalog {
        return Ok(opened.fixed.clone());
    }
    match copy.source.digest() {
        Some(_) => Ok(copy.source.clone()),
        None => Ok(client.resolve(&copy.source).await?.reference),
    }
}

async fn between_registries(
    client: &Client,
    source: &Reference,
    copy: &Copy,
    before: Option<&Record>,
) -> Result<(Outcome, Mirrored), Error> {
    if let Some(digest) = source.digest()
        && client.holds(&copy.target, digest).await?
    {
        let known =
            before.and_then(|before| before.images.iter().find(|image| image.place == copy.target.name() && image.digest == *digest));
        let manifests = match known {
            Some(known) => known.manifests.clone(),
            None => digests(&client.survey(&copy.target.at(digest.clone()), client.workspace()?.store()).await?),
        };
        return Ok((Outcome::There, Mirrored { manifests, ..mirrored_as(copy, copy.target.name(), digest) }));
    }
    let (tree, is_new) = copies::between_registries(client, source, &copy.target).await?;
    Ok((Outcome::of(is_new), mirrored(copy, copy.target.name(), &tree)))
}

async fn from_directory(client: &Client, layout: &Layout, copy: &Copy) -> Result<(Outcome, Mirrored), Error> {
    let name = copy.source.to_string();
    let names = layout.names()?;
    let root =
        names.get(&name).ok_or_else(|| Error::Content { subject: directory_name(layout), problem: format!("holds no image {name}") })?;
    let (tree, is_new) = copies::layout_to_registry(client, layout, &name, &copies::plain(root), &copy.target).await?;
    Ok((Outcome::of(is_new), mirrored(copy, copy.target.name(), &tree)))
}

async fn put(
    client: &Client,
    tree: &Tree,
    store: &mainstay_oci::BlobStore,
    copy: &Copy,
    origins: &[Reference],
) -> Result<(Outcome, Mirrored), Error> {
    let is_new = client.put(tree, store, &copy.target, origins).await?;
    Ok((Outcome::of(is_new), mirrored(copy, copy.target.name(), tree)))
}

async fn into_directory(client: &Client, source: &Reference, copy: &Copy, layout: &Layout) -> Result<(Descriptor, Outcome), Error> {
    let names = layout.names()?;
    if let Some(there) = names.get(&copy.target.to_string())
        && source.digest() == Some(&there.digest)
        && layout.is_whole(there)?
    {
        return Ok((copies::plain(there), Outcome::There));
    }
    Ok((copies::registry_to_layout(client, source, layout).await?.root, Outcome::Copied))
}

async fn into_directory_rebuilt(
    client: &Client,
    rebuilt: &Rebuilt,
    base: &Reference,
    layout: &Layout,
) -> Result<(Descriptor, Outcome), Error> {
    let missing = layout.take(&rebuilt.root, rebuilt.workspace.store())?;
    client.fetch_blobs(base, layout.store(), &missing).await?;
    Ok((rebuilt.root.clone(), Outcome::Copied))
}

fn mirrored(copy: &Copy, place: String, tree: &Tree) -> Mirrored {
    Mirrored { manifests: digests(tree), ..mirrored_as(copy, place, &tree.root.digest) }
}

fn mirrored_as(copy: &Copy, place: String, digest: &Digest) -> Mirrored {
    Mirrored {
        source: copy.source.to_string(),
        target: copy.target.to_string(),
        place,
        digest: digest.clone(),
        manifests: Vec::new(),
        found: false,
    }
}

fn digests(tree: &Tree) -> Vec<Digest> {
    tree.manifests.iter().map(|manifest| manifest.digest.clone()).collect()
}

/// Records the present images; deletes those that vanished, if requested, and returns their names. Images that are not deleted stay in the record, so
/// that a later run can delete them.
pub async fn keep_record(opened: &Opened, done: &[Done], place: &Place, prune: bool) -> Result<Vec<String>, Failure> {
    let images: Vec<Mirrored> = done.iter().filter_map(|done| recorded(done, place.before())).collect();
    let mut record = Record::new(opened.catalog().to_string(), images);
    let others = match place {
        Place::Registry { others, .. } => others.as_slice(),
        Place::Directory { .. } => &[],
    };
    let mut deleted = Vec::new();
    if let Some(before) = place.before() {
        let vanished = before.vanished(&record, others);
        if prune {
            for (image, digests) in &vanished {
                delete(place, image, digests).await?;
                deleted.push(image.target.clone());
            }
        } else {
            let stay: Vec<Mirrored> = vanished
                .into_iter()
                .map(|(image, digests)| Mirrored { manifests: digests.into_iter().rev().cloned().collect(), ..image.clone() })
                .collect();
            record.images.extend(stay);
        }
    }
    place.keep(&record).await?;
    if let (Place::Directory { layout, .. }, true) = (place, prune) {
        layout.collect().map_err(|error| images::failure(&directory_name(layout), &error))?;
    }
    Ok(deleted)
}

/// The record of an image; one that was there already and that no earlier run put there is marked as found, since it is not ours.
fn recorded(done: &Done, before: Option<&Record>) -> Option<Mirrored> {
    let image = done.mirrored.clone()?;
    let ours = match done.outcome {
        Outcome::There => before.is_some_and(|before| before.put(&image.place, &image.digest)),
        Outcome::Copied | Outcome::Failed(_) => true,
    };
    Some(Mirrored { found: !ours, ..image })
}

async fn delete(place: &Place, image: &Mirrored, digests: &[&Digest]) -> Result<(), Failure> {
    match place {
        Place::Registry { client, .. } => {
            let failed = |error: Error| {
                let unsupported = matches!(error, Error::Status { status: 405, .. });
                let failure = images::failure(&format!("image {}", image.target), &error);
                let hint = "the registry does not allow deletion; its settings or its administrators decide that";
                if unsupported { failure.hint(hint) } else { failure }
            };
            let repository = Reference::parse(&image.place).map_err(failed)?;
            for digest in digests {
                match client.delete(&repository.at((*digest).clone())).await {
                    // Another client deleted it, or the registry did with its index.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    other => other.map_err(failed)?,
                }
            }
            Ok(())
        }
        Place::Directory { layout, list, .. } => {
            let _held = list.lock().await;
            let names = layout.names().map_err(|error| images::failure(&directory_name(layout), &error))?;
            // A name that has another digest by now belongs to a new image.
            if names.get(&image.place).is_some_and(|entry| digests.contains(&&entry.digest)) {
                layout.remove(&image.place).map_err(|error| images::failure(&directory_name(layout), &error))?;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// CATLG-74: what somebody else had put into the mirror before is used, and never deleted as ours.
    #[test]
    fn what_others_put_there_is_not_ours() {
        let digest = Digest::of(b"image");
        let image = |found| Mirrored {
            source: "quay.io/a:1".to_owned(),
            target: "m.example/a:1".to_owned(),
            place: "m.example/a".to_owned(),
            digest: digest.clone(),
            manifests: vec![digest.clone()],
            found,
        };
        let found = |outcome, before: Option<&Record>| recorded(&Done { outcome, mirrored: Some(image(false)) }, before).unwrap().found;
        let (ours, theirs) = (Record::new("c:1", vec![image(false)]), Record::new("c:1", vec![image(true)]));
        assert!(found(Outcome::There, None) && found(Outcome::There, Some(&theirs)));
        assert!(!found(Outcome::There, Some(&ours)) && !found(Outcome::Copied, None));
    }
}
