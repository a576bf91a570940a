//! The files of a bundle, and the catalog entry that they become.

use std::collections::BTreeMap;
use std::path::Path;

use mainstay_bundle::{Bundle, labels};
use mainstay_catalog::{BundleName, Catalog, PackageName, Property, RelatedImage, SourceError};
use mainstay_catalog_store::{Links, bundle_files};
use serde_json::value::RawValue;

use crate::error::Error;
use crate::image_template::ImageTemplate;

/// The files of a bundle by path: below `manifests/` and `metadata/`.
pub type BundleFiles = Vec<(String, Vec<u8>)>;

const MANIFESTS: &str = "manifests";
const METADATA: &str = "metadata";

/// Returns true if a directory holds a bundle, by `opm`'s test: it has `manifests` and `metadata`.
pub(crate) fn is_bundle(directory: &Path) -> bool {
    [MANIFESTS, METADATA].iter().all(|name| directory.join(name).is_dir())
}

/// Returns the files below `manifests` and `metadata` of a directory that the user names.
pub fn bundle_directory(directory: &Path) -> Result<BundleFiles, Error> {
    Ok(bundle_files(directory, Links::Anywhere).map_err(SourceError::from)?)
}

/// Returns the folders that an image's labels name, with the folders of a bundle that they stand for.
pub(crate) fn folders(image_labels: &BTreeMap<String, String>) -> [(String, &'static str); 2] {
    let folder = |label: &str, default: &str| image_labels.get(label).map_or(default, String::as_str).trim_matches('/').to_owned();
    [(folder(labels::MANIFESTS, MANIFESTS), MANIFESTS), (folder(labels::METADATA, METADATA), METADATA)]
}

/// Returns the files of an image at their places in a bundle.
pub(crate) fn placed(files: BTreeMap<String, Vec<u8>>, folders: &[(String, &'static str)]) -> BundleFiles {
    let place = |path: &str| {
        let below =
            |(folder, name): &(String, &'static str)| Some(format!("{name}/{}", path.strip_prefix(folder.as_str())?.strip_prefix('/')?));
        folders.iter().find_map(below)
    };
    files.into_iter().map(|(path, bytes)| (place(&path).unwrap_or(path), bytes)).collect()
}

/// Returns the catalog that a bundle's image stands for: its one entry (OLM1-BUILD-05).
pub(crate) fn entry(files: &BundleFiles, image: &str) -> Result<Catalog, Error> {
    let bundle = Bundle::read_for_catalog(files.iter().map(|(path, bytes)| (path, bytes)))?;
    listed(&bundle, image)
}

/// Returns the catalog that a bundle's directory stands for. It has no image yet, unless a template gives its reference.
pub(crate) fn entry_of_directory(files: &BundleFiles, template: Option<&ImageTemplate>) -> Result<Catalog, Error> {
    let bundle = Bundle::read_for_catalog(files.iter().map(|(path, bytes)| (path, bytes)))?;
    let image = template.map(|template| template.apply(&bundle.package, &bundle.csv.name, &bundle.csv.version));
    listed(&bundle, image.as_deref().unwrap_or_default())
}

fn listed(bundle: &Bundle, image: &str) -> Result<Catalog, Error> {
    let mut properties = Vec::new();
    for (kind, text) in bundle.catalog_properties()? {
        let value = RawValue::from_string(text)
            .map_err(|error| mainstay_bundle::ReadError::Catalog { problem: format!("property {kind:?}: {error}") })?;
        properties.push(Property { kind, value });
    }
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let related = bundle.related_images(image);
    let entry = mainstay_catalog::Bundle {
        package: PackageName::new(&bundle.package),
        name: BundleName::new(&bundle.csv.name),
        image: image.to_owned(),
        properties,
        related_images: related
            .iter()
            .map(|related| RelatedImage { name: text(&related["name"]), image: text(&related["image"]) })
            .collect(),
    };
    Ok(Catalog { bundles: vec![entry], ..Catalog::default() })
}
