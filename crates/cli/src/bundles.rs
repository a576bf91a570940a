//! Bundles from directories and registries.

use std::path::Path;

use mainstay_bundle::Bundle;
use mainstay_catalog_refs::{bundle_directory, looks_like_a_path, pull_files};

use crate::errors::{Exit, Failure};
use crate::{catalogs, images, progress};

/// The files of a bundle by path.
pub type Files = mainstay_catalog_refs::BundleFiles;

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
    bundle_directory(path).map_err(|error| catalogs::failure(&format!("bundle {}", path.display()), &error))
}

/// The files of a bundle image, as its labels place them.
pub async fn pull(reference: &str) -> Result<Files, Failure> {
    pull_with(&progress::shown(images::client()?), reference).await
}

/// [`pull`] with a client of one's own.
pub async fn pull_with(client: &mainstay_oci::Client, reference: &str) -> Result<Files, Failure> {
    pull_files(client, reference).await.map_err(|error| catalogs::failure(&format!("bundle {reference}"), &error))
}
