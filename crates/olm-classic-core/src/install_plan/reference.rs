//! References to the content of unpacked bundles, which stand in steps in place of manifests (OLM0-IP-07).

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::resolve::BundleLookup;

/// The kind of a reference to a bundle that the controller unpacks itself.
const IMAGE: &str = "BundleImage";

/// A reference to the content of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleReference {
    /// The image.
    pub image: String,
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
    /// The reference to a bundle that was looked up.
    pub fn of(lookup: &BundleLookup) -> Self {
        Self {
            image: lookup.path.clone(),
            catalog: lookup.catalog.name.clone(),
            catalog_namespace: lookup.catalog.namespace.clone(),
            replaces: lookup.replaces.clone(),
            properties: lookup.properties.clone(),
        }
    }

    /// Reads a manifest; none if it is no reference.
    pub fn parse(manifest: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(manifest).ok().filter(|value: &Value| value["kind"] == IMAGE)?;
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Some(Self {
            image: text("image"),
            catalog: text("catalogSourceName"),
            catalog_namespace: text("catalogSourceNamespace"),
            replaces: text("replaces"),
            properties: text("properties"),
        })
    }

    /// The text that stands in a step.
    pub fn to_manifest(&self) -> String {
        json!({
            "kind": IMAGE, "name": unpack_name(&self.image), "namespace": self.catalog_namespace, "image": self.image,
            "catalogSourceName": self.catalog, "catalogSourceNamespace": self.catalog_namespace, "replaces": self.replaces,
            "properties": self.properties,
        })
        .to_string()
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
            image: "r.test/b@sha256:1".into(),
            catalog: "c".into(),
            catalog_namespace: "market".into(),
            replaces: "b.v1".into(),
            properties: "{}".into(),
        };
        assert_eq!(BundleReference::parse(&reference.to_manifest()), Some(reference));
        assert_eq!(BundleReference::parse("{\"kind\":\"ConfigMap\"}"), None);
        assert_eq!(BundleReference::parse("kind: ConfigMap\n"), None);
        assert_eq!(unpack_name("r.test/b:v1").len(), 63);
    }
}
