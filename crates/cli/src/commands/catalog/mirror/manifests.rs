//! The files that a cluster needs to use a mirror: those of one run in one directory (CATLG-72, OLM1-DISC-03).

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mainstay_oci::Reference;
use mainstay_oci::mirror::{By, Copy, digest_mirror_set, image_content_source_policy, registries_conf, rules, tag_mirror_set};
use mainstay_terminal::errors::Failure;
use serde_json::{Value, json};

use super::open::Opened;

/// The namespace in which clusters look for their catalogs; the user changes it if theirs is another.
const NAMESPACE: &str = "openshift-marketplace";

/// Writes the directory `manifests-<index name>-<number>`, whose number is the second of the run, and returns its path.
pub fn write(parent: &Path, opened: &Opened, copies: &[Copy], now: SystemTime) -> Result<PathBuf, Failure> {
    let catalog = opened.catalog();
    let name = index_name(catalog);
    // A clock before 1970 must not prevent the files from being written.
    let number = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let folder = parent.join(format!("manifests-{name}-{number}"));
    let failed = |path: &Path, error: &std::io::Error| Failure::failed(format!("file {}", path.display()), error);
    std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    for (file, text) in files(opened, copies) {
        let path = folder.join(file);
        std::fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    }
    Ok(folder)
}

/// The files by name.
fn files(opened: &Opened, copies: &[Copy]) -> Vec<(&'static str, String)> {
    let catalog = opened.catalog();
    let is_catalog = |copy: &&Copy| copy.source.name() == catalog.name() && copy.source.version() == catalog.version();
    let images: Vec<Copy> = copies.iter().filter(|copy| !is_catalog(copy)).cloned().collect();
    let (by_digest, by_tag) = (rules(&images, By::Digest), rules(&images, By::Tag));
    let mut files = Vec::new();
    if let Some(copy) = copies.iter().find(is_catalog) {
        files.push(("catalogSource.yaml", yaml(&catalog_source(opened, &copy.target))));
        files.push(("clusterCatalog.yaml", yaml(&cluster_catalog(catalog, &copy.target))));
    }
    files.push(("imageContentSourcePolicy.yaml", yaml(&image_content_source_policy(&format!("{}-0", index_name(catalog)), &by_digest))));
    if !by_digest.is_empty() {
        files.push(("imageDigestMirrorSet.yaml", yaml(&digest_mirror_set("idms-operator-0", &by_digest))));
    }
    if !by_tag.is_empty() {
        files.push(("imageTagMirrorSet.yaml", yaml(&tag_mirror_set("itms-operator-0", &by_tag))));
    }
    files.push(("registries.conf", registries_conf(&by_digest, &by_tag)));
    files.push(("mapping.txt", lines(copies.iter().map(|copy| format!("{}={}", copy.source, copy.target)))));
    files
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.flat_map(|line| [line, "\n".to_owned()]).collect()
}

fn yaml(object: &Value) -> String {
    format!("---\n{}", mainstay_yaml::to_string(object))
}

/// A CatalogSource as a starting point; its user will want a display name and an update strategy (OLM0-ADMIN-34).
fn catalog_source(opened: &Opened, target: &Reference) -> Value {
    let mut object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": {"name": index_name(opened.catalog()), "namespace": NAMESPACE},
        "spec": {"sourceType": "grpc", "image": target.to_string()},
    });
    if let Some(folder) = &opened.content_only {
        // Without a program of its own the image is only a container of files, which the cluster's opm serves.
        object["spec"]["grpcPodConfig"] = json!({"extractContent": {"catalogDir": folder}});
    }
    object
}

fn cluster_catalog(catalog: &Reference, target: &Reference) -> Value {
    json!({
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": cluster_catalog_name(catalog)},
        "spec": {"source": {"type": "Image", "image": {"ref": target.to_string()}}},
    })
}

/// `cc-<catalog repo name>-<first 12 chars of tag or digest>`, with `.` turned into `-` (OLM1-DISC-03).
fn cluster_catalog_name(catalog: &Reference) -> String {
    let version = catalog.digest().map_or_else(|| catalog.version(), mainstay_oci::Digest::hex);
    let short: String = version.chars().take(12).collect();
    object_name(&format!("cc-{}-{short}", last(catalog)))
}

/// The last part of the catalog's repository, without characters that an object's name cannot have (OLM0-ADMIN-41).
fn index_name(catalog: &Reference) -> String {
    object_name(last(catalog))
}

fn last(catalog: &Reference) -> &str {
    catalog.repository().rsplit('/').next().unwrap_or_default()
}

fn object_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// OLM1-DISC-03, OLM0-ADMIN-41: the names of catalogs on a cluster.
    #[test]
    fn names() {
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for (catalog, name, index) in [
            ("registry.redhat.io/redhat/redhat-operator-index:v4.18", "cc-redhat-operator-index-v4-18", "redhat-operator-index"),
            ("quay.io/org/my_index:2026.11.22-nightly", "cc-my-index-2026-11-22-n", "my-index"),
            (&format!("quay.io/catalog@{digest}"), "cc-catalog-e3b0c44298fc", "catalog"),
        ] {
            let catalog = Reference::parse(catalog).unwrap();
            assert_eq!((cluster_catalog_name(&catalog).as_str(), index_name(&catalog).as_str()), (name, index));
        }
    }
}
