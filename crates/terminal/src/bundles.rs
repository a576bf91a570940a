//! Bundles from directories and registries.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use mainstay_bundle::Bundle;
use mainstay_catalog_refs::bundle_directory;
use mainstay_catalog_store::{Links, whole_bundle};
use mainstay_operations::images;

use crate::catalogs;
use crate::errors::{Exit, Failure};

/// The files of a bundle by path.
pub type Files = mainstay_catalog_refs::BundleFiles;

/// Opens the bundle of a directory or an image for installation.
pub fn open(place: &str) -> Result<Bundle, Failure> {
    read(place, &files(place)?)
}

/// Reads the files of a bundle below `manifests` and `metadata`, from a directory or an image in any place.
pub fn files(place: &str) -> Result<Files, Failure> {
    let opened = async { mainstay_catalog_refs::open_bundle(place, &catalogs::client).await };
    crate::runtime::block_on(async { opened.await.map_err(|error| catalogs::failure(&format!("bundle {place}"), &error)) })
}

/// Reads all files of a bundle directory or image, by path. Files beside manifests and metadata are included, because validators count
/// them.
pub fn whole(place: &str) -> Result<Files, Failure> {
    let path = Path::new(place);
    // A layout of images is a directory, too.
    if path.is_dir() && !path.join("oci-layout").is_file() { whole_directory(path) } else { files(place) }
}

/// Reads all files of a bundle directory that the user names, by path.
pub fn whole_directory(path: &Path) -> Result<Files, Failure> {
    whole_bundle(path, Links::Anywhere).map_err(|error| Failure::failed(format!("bundle {}", path.display()), &error))
}

/// Reads the bundle in these files for installation.
pub fn read(place: &str, files: &Files) -> Result<Bundle, Failure> {
    Ok(images::read_bundle(place, files)?)
}

/// Reads the bundle in these files, with all that a catalog says of it. Content that cannot be read for installation is refused here too,
/// so that every command has one verdict about a bundle.
pub fn read_for_catalog(subject: &str, files: &Files) -> Result<Bundle, Failure> {
    let parts = files.iter().filter(|(path, _)| path.starts_with("manifests/") || path.starts_with("metadata/"));
    let bundle = Bundle::read_for_catalog(parts.map(|(path, bytes)| (path, bytes))).map_err(|error| Failure::failed(subject, &error))?;
    match &bundle.refusal {
        Some(refusal) => Err(Failure::failed(subject, refusal)),
        None => Ok(bundle),
    }
}

/// Reads the files below `manifests` and `metadata`.
pub fn directory(path: &Path) -> Result<Files, Failure> {
    bundle_directory(path).map_err(|error| catalogs::failure(&format!("bundle {}", path.display()), &error))
}

/// Maximum depth of the search for bundles.
const DEPTH: usize = 8;
/// Maximum number of files and folders of the search for bundles.
const ENTRIES: usize = 200_000;

/// The content of a tree of bundle directories, sorted by path.
#[derive(Debug, Default)]
pub struct Found {
    /// Directories with `manifests` and `metadata`.
    pub bundles: Vec<PathBuf>,
    /// All other files, outside of bundles.
    pub files: Vec<PathBuf>,
}

/// Searches for bundles below a directory. Links to folders are not followed, so that the search ends.
pub fn find(root: &Path) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut seen = 0;
    let mut waiting = vec![(root.to_owned(), 0)];
    while let Some((directory, depth)) = waiting.pop() {
        if directory.join("manifests").is_dir() && directory.join("metadata").is_dir() {
            found.bundles.push(directory);
            continue;
        }
        let failed = |error: std::io::Error| Failure::failed(format!("directory {}", directory.display()), &error);
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let refuse = |message: String| Failure::new(Exit::Failed, format!("bundles {}", root.display()), message);
            seen += 1;
            if seen > ENTRIES {
                return Err(refuse(format!("{}: more than {ENTRIES} files and folders", entry.path().display())));
            }
            if entry.file_type().map_err(failed)?.is_dir() {
                // The data of a version control system is no tree of bundles.
                if entry.file_name() == OsStr::new(".git") {
                    continue;
                }
                if depth >= DEPTH {
                    return Err(refuse(format!("{}: more than {DEPTH} folders deep", entry.path().display())));
                }
                waiting.push((entry.path(), depth + 1));
            } else {
                found.files.push(entry.path());
            }
        }
    }
    found.bundles.sort();
    found.files.sort();
    Ok(found)
}
