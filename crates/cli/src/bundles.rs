//! Bundles from directories and registries.

use std::path::Path;

use mainstay_bundle::Bundle;
use mainstay_catalog::Source as _;
use mainstay_catalog_store::DirectorySource;

use crate::catalogs::looks_like_a_path;
use crate::errors::{Exit, Failure};
use crate::images;

/// The labels of a bundle image that name its folders.
const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";

/// The files of a bundle by path.
pub type Files = Vec<(String, Vec<u8>)>;

/// The bundle of a directory or an image, to install it.
pub fn open(place: &str) -> Result<Bundle, Failure> {
    let files = if Path::new(place).is_dir() {
        directory(Path::new(place))?
    } else if looks_like_a_path(place) {
        return Err(Failure::new(Exit::Failed, format!("bundle {place}"), "no such directory"));
    } else {
        crate::runtime::block_on(pull(place))?
    };
    read(place, &files)
}

/// The bundle in these files, to install it.
pub fn read(place: &str, files: &Files) -> Result<Bundle, Failure> {
    Bundle::read(files.iter().map(|(path, bytes)| (path, bytes))).map_err(|error| Failure::failed(format!("bundle {place}"), &error))
}

/// The files below `manifests` and `metadata`.
pub fn directory(path: &Path) -> Result<Files, Failure> {
    let subject = format!("bundle {}", path.display());
    let source = DirectorySource::new(path).map_err(|error| Failure::failed(&subject, &error))?;
    let paths = source.paths().map_err(|error| Failure::failed(&subject, &error))?;
    let ours = paths.into_iter().filter(|path| path.starts_with("manifests/") || path.starts_with("metadata/"));
    let read = |path: String| source.read(&path).map(|bytes| (path, bytes.into_owned()));
    ours.map(read).collect::<Result<_, _>>().map_err(|error| Failure::failed(&subject, &error))
}

/// The files of a bundle image, as its labels place them.
pub async fn pull(reference: &str) -> Result<Files, Failure> {
    pull_with(&images::client()?, reference).await
}

/// [`pull`] with a client of one's own.
pub async fn pull_with(client: &mainstay_oci::Client, reference: &str) -> Result<Files, Failure> {
    let mut folders = Vec::new();
    let files = images::read(client, reference, |labels| {
        let folder = |label: &str, default: &str| labels.get(label).map_or(default, String::as_str).trim_matches('/').to_owned();
        folders = vec![(folder(MANIFESTS, "manifests"), "manifests"), (folder(METADATA, "metadata"), "metadata")];
        folders.iter().map(|(folder, _)| folder.clone()).collect()
    })
    .await?;
    let place = |path: &str| {
        folders
            .iter()
            .find_map(|(folder, name)| path.strip_prefix(folder.as_str())?.strip_prefix('/').map(|below| format!("{name}/{below}")))
    };
    Ok(files.into_iter().map(|(path, bytes)| (place(&path).unwrap_or(path), bytes)).collect())
}
