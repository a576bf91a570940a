//! All files of a bundle, those beside manifests and metadata too: validators count them.

use std::path::Path;

use mainstay_catalog_store::{Links, whole_bundle};

use crate::bundles::{self, Files};
use crate::errors::{Exit, Failure};

/// The files of a bundle directory or image, by path.
pub fn all(place: &str) -> Result<Files, Failure> {
    let path = Path::new(place);
    if path.is_dir() {
        return directory(path);
    }
    if path.exists() || mainstay_catalog_refs::looks_like_a_path(place) {
        let message = if path.exists() { "is not a directory" } else { "no such directory" };
        return Err(Failure::new(Exit::Failed, format!("bundle {place}"), message));
    }
    crate::runtime::block_on(bundles::pull(place))
}

/// The files of a bundle directory that the user names, by path.
pub fn directory(path: &Path) -> Result<Files, Failure> {
    whole_bundle(path, Links::Anywhere).map_err(|error| Failure::failed(format!("bundle {}", path.display()), &error))
}
