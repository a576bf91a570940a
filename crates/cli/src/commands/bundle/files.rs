//! All files of a bundle, those beside manifests and metadata too: validators count them.

use std::path::Path;

use mainstay_catalog_store::{Links, whole_bundle};

use crate::bundles::{self, Files};
use crate::errors::Failure;

/// The files of a bundle directory or image, by path.
pub fn all(place: &str) -> Result<Files, Failure> {
    let path = Path::new(place);
    // A layout of images is a directory, too.
    if path.is_dir() && !path.join("oci-layout").is_file() { directory(path) } else { bundles::files(place) }
}

/// The files of a bundle directory that the user names, by path.
pub fn directory(path: &Path) -> Result<Files, Failure> {
    whole_bundle(path, Links::Anywhere).map_err(|error| Failure::failed(format!("bundle {}", path.display()), &error))
}
