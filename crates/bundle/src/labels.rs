//! The labels and the annotations file of a bundle image (OLM0-BUNDLE-04).

use std::collections::BTreeMap;

use crate::bundle::{Bundle, CHANNELS, DEFAULT_CHANNEL, PACKAGE};

/// Label of the bundle's type.
pub const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
/// Label of the manifests directory.
pub const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
/// Label of the metadata directory.
pub const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";

impl Bundle {
    /// The labels of the bundle's image: the annotations, and the defaults for the two directories and the type if the annotations lack them.
    pub fn image_labels(&self) -> BTreeMap<String, String> {
        let mut labels = layout();
        labels.extend(self.annotations.iter().map(|(key, value)| (key.clone(), value.clone())));
        labels
    }
}

/// The annotations of a new bundle of this package and these channels.
pub fn annotations(package: &str, channels: &[&str], default_channel: Option<&str>) -> BTreeMap<String, String> {
    let mut annotations = layout();
    annotations.insert(PACKAGE.to_owned(), package.to_owned());
    annotations.insert(CHANNELS.to_owned(), channels.join(","));
    if let Some(channel) = default_channel {
        annotations.insert(DEFAULT_CHANNEL.to_owned(), channel.to_owned());
    }
    annotations
}

/// The text of `metadata/annotations.yaml`.
pub fn annotations_yaml(annotations: &BTreeMap<String, String>) -> String {
    mainstay_yaml::to_string(&serde_json::json!({ "annotations": annotations }))
}

fn layout() -> BTreeMap<String, String> {
    [(MEDIA_TYPE, "registry+v1"), (MANIFESTS, "manifests/"), (METADATA, "metadata/")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}
