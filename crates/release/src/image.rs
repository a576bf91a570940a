//! What is known of the image that a payload was read from.

use std::collections::BTreeMap;

use serde_json::Value;

/// The image of a payload, by its manifest and configuration. Digests were compared with the content by the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseImage {
    /// The digest that the reference stood for: of the manifest, or of the list of platforms that it was chosen from.
    pub listed: String,
    /// The digest of the manifest that was read.
    pub digest: String,
    /// The media type of the manifest.
    pub media_type: String,
    /// The layers, lowest first.
    pub layers: Vec<Blob>,
    /// The digest and size of the configuration.
    pub config_blob: Blob,
    /// The configuration.
    pub config: Value,
}

/// Content by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The media type.
    pub media_type: String,
    /// The digest.
    pub digest: String,
    /// The size in bytes.
    pub size: u64,
}

impl ReleaseImage {
    /// Returns the time at which the image was made, as the configuration has it (RFC 3339).
    pub fn created(&self) -> Option<&str> {
        self.config["created"].as_str()
    }

    /// Returns the operating system.
    pub fn os(&self) -> &str {
        self.config["os"].as_str().unwrap_or_default()
    }

    /// Returns the architecture, as Go names it.
    pub fn architecture(&self) -> &str {
        self.config["architecture"].as_str().unwrap_or_default()
    }

    /// Returns the labels.
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        let labels = self.config["config"]["Labels"].as_object();
        labels.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
    }
}
