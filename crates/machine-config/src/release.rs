//! The release whose configuration nodes are to have.

use serde_json::Value;

/// The version of this controller, which is on everything that it generates.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A release, as far as nodes depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Release {
    /// Its version; this program's own where the cluster has none.
    pub version: String,
    /// Its image.
    pub image: String,
    /// The image of the operating system.
    pub os_image: String,
    /// The image of its extensions.
    pub extensions: String,
}

impl Release {
    /// Reads the release from what the cluster holds of it: the ConfigMap that it brings, and the ClusterVersion.
    pub fn of(os_image: Option<&Value>, cluster_version: Option<&Value>) -> Self {
        let text = |value: Option<&Value>, or: &str| value.and_then(Value::as_str).filter(|text| !text.is_empty()).unwrap_or(or).to_owned();
        let data = |key: &str| os_image.and_then(|map| map.get("data")?.get(key));
        let desired = text(cluster_version.and_then(|version| version.pointer("/status/desired/version")), VERSION);
        let version = text(data("releaseVersion"), &desired);
        Self {
            image: text(cluster_version.and_then(|version| version.pointer("/status/desired/image")), ""),
            os_image: text(data("baseOSContainerImage"), &format!("simulated.mainstay.dev/node-os:{version}")),
            extensions: text(data("baseOSExtensionsContainerImage"), ""),
            version,
        }
    }
}
