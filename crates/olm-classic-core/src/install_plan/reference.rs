//! References to the content of unpacked bundles, which stand in steps in place of manifests (OLM0-IP-07).

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::resolve::BundleLookup;
use crate::source::SourceKey;

/// The kind of a reference to a bundle that the controller unpacks itself.
const IMAGE: &str = "BundleImage";
/// The kind of a reference to a bundle that a Job has unpacked.
const CONFIG_MAP: &str = "ConfigMap";

/// A reference to the content of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleReference {
    /// The name of what belongs to the unpacking ([`unpack_name`]).
    pub name: String,
    /// The image, if the controller reads it itself; none if the content is in a ConfigMap of that name in the catalog's namespace.
    pub image: Option<String>,
    /// The catalog's name.
    pub catalog: String,
    /// The catalog's namespace.
    pub catalog_namespace: String,
    /// The CSV that the bundle replaces.
    pub replaces: String,
    /// The properties as text of the annotation.
    pub properties: String,
}

impl BundleReference {
    /// The reference to a bundle that was looked up, and that a Job has unpacked if `by_job`.
    pub fn of(lookup: &BundleLookup, by_job: bool) -> Self {
        Self {
            name: unpack_name(&lookup.path),
            image: (!by_job).then(|| lookup.path.clone()),
            catalog: lookup.catalog.name.clone(),
            catalog_namespace: lookup.catalog.namespace.clone(),
            replaces: lookup.replaces.clone(),
            properties: lookup.properties.clone(),
        }
    }

    /// Reads a manifest; none if it is no reference.
    pub fn parse(manifest: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(manifest).ok()?;
        // A ConfigMap of a bundle has no catalog, which a reference always has.
        let refers = value["kind"] == IMAGE || (value["kind"] == CONFIG_MAP && value["catalogSourceName"].is_string());
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        refers.then(|| Self {
            name: if value["kind"] == IMAGE { unpack_name(&text("image")) } else { text("name") },
            image: (value["kind"] == IMAGE).then(|| text("image")),
            catalog: text("catalogSourceName"),
            catalog_namespace: text("catalogSourceNamespace"),
            replaces: text("replaces"),
            properties: text("properties"),
        })
    }

    /// The bundle that it refers to, as the resolver looked it up for this CSV.
    pub fn lookup(&self, csv: &str) -> BundleLookup {
        BundleLookup {
            path: self.image.clone().unwrap_or_default(),
            identifier: csv.to_owned(),
            replaces: self.replaces.clone(),
            catalog: SourceKey { name: self.catalog.clone(), namespace: self.catalog_namespace.clone() },
            properties: self.properties.clone(),
        }
    }

    /// The text that stands in a step.
    pub fn to_manifest(&self) -> String {
        let mut reference = json!({
            "kind": if self.image.is_some() { IMAGE } else { CONFIG_MAP }, "name": self.name, "namespace": self.catalog_namespace,
            "catalogSourceName": self.catalog, "catalogSourceNamespace": self.catalog_namespace, "replaces": self.replaces,
            "properties": self.properties,
        });
        if let Some(image) = &self.image {
            reference["image"] = json!(image);
        }
        reference.to_string()
    }
}

/// The name of what belongs to the unpacking of a bundle: 63 hex digits of the hash of its image (OLM0-CAT-30).
pub fn unpack_name(image: &str) -> String {
    let mut hex = format!("{:x}", Sha256::digest(image.as_bytes()));
    hex.truncate(63);
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-IP-07, OLM0-CAT-30: a reference is read as it was written, and a manifest is none.
    #[test]
    fn references() {
        let reference = BundleReference {
            name: unpack_name("r.test/b@sha256:1"),
            image: Some("r.test/b@sha256:1".into()),
            catalog: "c".into(),
            catalog_namespace: "market".into(),
            replaces: "b.v1".into(),
            properties: "{}".into(),
        };
        assert_eq!(BundleReference::parse(&reference.to_manifest()), Some(reference.clone()));
        let by_job = BundleReference { image: None, ..reference };
        assert!(by_job.to_manifest().contains("\"kind\":\"ConfigMap\""));
        assert_eq!(BundleReference::parse(&by_job.to_manifest()), Some(by_job));
        assert_eq!(BundleReference::parse("{\"kind\":\"ConfigMap\"}"), None);
        assert_eq!(BundleReference::parse("kind: ConfigMap\n"), None);
        assert_eq!(unpack_name("r.test/b:v1").len(), 63);
    }
}
