//! Where releases come from.

use std::fs;
use std::path::{Path, PathBuf};

use mainstay_oci::{Client, Reference};
use mainstay_update_graph::{ListedRelease, Release, ReleaseMetadata, read_release_list};

use crate::error::Error;
use crate::kept::Kept;
use crate::scrape;

const MAX_FILE: u64 = 256 << 20;
const MAX_FOLDERS: usize = 50_000;

/// A place with releases.
#[derive(Debug, Clone)]
pub enum Place {
    /// A repository of a registry: every tag is looked at.
    Repository(Reference),
    /// A directory: `NAME/release-manifests/release-metadata` or `NAME/release-metadata`, with the pullspec in `NAME/image`; and lists, `NAME.json`.
    Directory(PathBuf),
    /// An OCI layout, and the repository that its images have for clusters.
    Layout(PathBuf, Option<String>),
    /// A list of releases.
    List(PathBuf),
}

impl std::str::FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Place(text.to_owned());
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        Ok(match kind {
            "dir" if !rest.is_empty() => Self::Directory(rest.into()),
            "list" if !rest.is_empty() => Self::List(rest.into()),
            "oci" if !rest.is_empty() => match rest.split_once('=') {
                Some((path, repository)) => Self::Layout(path.into(), Some(repository.to_owned())),
                None => Self::Layout(rest.into(), None),
            },
            _ => {
                let reference = Reference::parse(text).map_err(|_| wrong())?;
                if reference.digest().is_some() {
                    return Err(wrong());
                }
                Self::Repository(reference)
            }
        })
    }
}

impl Place {
    /// Reads the releases; those of files without an architecture get the one given.
    pub(crate) async fn read(&self, client: &Client, kept: &Kept, architecture: &str) -> Result<Vec<Release>, Error> {
        let listed = match self {
            Self::Repository(repository) => return scrape::repository(client, repository, kept).await,
            Self::Layout(path, repository) => return scrape::layout(path, repository.as_deref(), kept).await,
            Self::Directory(path) | Self::List(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || read_place(&path)).await??
            }
        };
        let release = |listed: ListedRelease| {
            if listed.image.is_none() {
                return Err(Error::NoImage(format!("release {}", listed.metadata.version)));
            }
            Ok(listed.into_release(architecture))
        };
        listed.into_iter().filter_map(|listed| release(listed).transpose()).collect()
    }
}

/// Reads the releases of a list, or of a directory.
pub fn read_place(path: &Path) -> Result<Vec<ListedRelease>, Error> {
    if path.is_file() {
        return list(path);
    }
    let mut entries = fs::read_dir(path)
        .map_err(Error::io(path))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<PathBuf>, std::io::Error>>()
        .map_err(Error::io(path))?;
    entries.sort();
    if entries.len() > MAX_FOLDERS {
        return Err(Error::TooLarge { path: path.to_owned(), what: "entries", limit: MAX_FOLDERS as u64 });
    }
    let mut releases = Vec::new();
    for entry in entries {
        if entry.is_file() && entry.extension().is_some_and(|ending| ending == "json") {
            releases.extend(list(&entry)?);
            continue;
        }
        let documents = [entry.join("release-manifests/release-metadata"), entry.join("release-metadata")];
        let Some(document) = documents.into_iter().find(|document| document.is_file()) else { continue };
        let metadata = ReleaseMetadata::parse(&bounded(&document)?)
            .map_err(|source| Error::Metadata { subject: document.display().to_string(), source })?;
        let image = entry.join("image");
        let image = if image.is_file() { Some(String::from_utf8_lossy(&bounded(&image)?).trim().to_owned()) } else { None };
        releases.push(ListedRelease { image, architecture: None, metadata });
    }
    Ok(releases)
}

fn list(path: &Path) -> Result<Vec<ListedRelease>, Error> {
    read_release_list(&bounded(path)?).map_err(|source| Error::List { path: path.to_owned(), source })
}

fn bounded(path: &Path) -> Result<Vec<u8>, Error> {
    let size = fs::metadata(path).map_err(Error::io(path))?.len();
    if size > MAX_FILE {
        return Err(Error::TooLarge { path: path.to_owned(), what: "bytes", limit: MAX_FILE });
    }
    fs::read(path).map_err(Error::io(path))
}
