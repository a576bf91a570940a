//! A parsed bundle.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::csv::Csv;
use crate::error::ReadError;

/// Keys of `metadata/annotations.yaml` and of the image's labels.
pub(crate) const PACKAGE: &str = "operators.operatorframework.io.bundle.package.v1";
pub(crate) const CHANNELS: &str = "operators.operatorframework.io.bundle.channels.v1";
pub(crate) const DEFAULT_CHANNEL: &str = "operators.operatorframework.io.bundle.channel.default.v1";

/// One version of one operator, read from its files.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The package name of `metadata/annotations.yaml`; empty when it names none.
    pub package: String,
    /// The map of `metadata/annotations.yaml`.
    pub annotations: BTreeMap<String, String>,
    /// The ClusterServiceVersion.
    pub csv: Csv,
    /// The CRDs to install, as Go's struct holds them.
    pub crds: Vec<Value>,
    /// The other objects to install, as written.
    pub others: Vec<Value>,
    /// The objects that a catalog embeds: the first of every manifest file, as written, in the order of file names.
    pub objects: Vec<Value>,
    /// The requirements in `metadata/dependencies.yaml`.
    pub dependencies: Vec<Property>,
    /// The properties in `metadata/properties.yaml`.
    pub properties: Vec<Property>,
    /// The properties in the CSV's annotation `olm.properties`.
    pub csv_properties: Vec<Property>,
    /// One sentence for each part that was passed over.
    pub warnings: Vec<String>,
    /// The reason why the bundle cannot be installed, if it was read for a catalog in spite of that.
    pub refusal: Option<ReadError>,
}

/// A property or dependency: a type, and a value that the type explains.
#[derive(Debug, Clone)]
pub struct Property {
    /// `olm.package`, `olm.gvk`, ...
    pub kind: String,
    /// JSON text without blanks.
    pub value: Box<RawValue>,
}

impl PartialEq for Property {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.value.get() == other.value.get()
    }
}

impl Property {
    /// The value as a tree.
    pub fn value(&self) -> Value {
        // The text was checked when the RawValue was made.
        serde_json::from_str(self.value.get()).unwrap_or_default()
    }
}

/// The facts of a bundle that a catalog's channels rest on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The package.
    pub package: String,
    /// The bundle's name, which is its CSV's.
    pub name: String,
    /// The version as the CSV writes it.
    pub version: String,
    /// The channels of the annotations, in order, without blanks.
    pub channels: Vec<String>,
    /// The default channel: as named, or the sole channel, or the first by name.
    pub default_channel: Option<String>,
    /// The bundle that this one replaces.
    pub replaces: Option<String>,
    /// The bundles that this one skips.
    pub skips: Vec<String>,
    /// The versions that this one can replace directly.
    pub skip_range: Option<String>,
    /// The namespace that the author suggests.
    pub suggested_namespace: Option<String>,
}

impl Bundle {
    /// Returns the facts of the bundle that a catalog's channels rest on.
    pub fn facts(&self) -> Facts {
        let filled = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        let annotation = |key: &str| self.csv.annotations.get(key).and_then(|text| filled(text));
        let channels: Vec<String> =
            self.annotations.get(CHANNELS).map(String::as_str).unwrap_or_default().split(',').filter_map(filled).collect();
        let named = self.annotations.get(DEFAULT_CHANNEL).and_then(|text| filled(text));
        Facts {
            package: self.package.clone(),
            name: self.csv.name.clone(),
            version: self.csv.version.clone(),
            default_channel: named.or_else(|| channels.iter().min().cloned()),
            channels,
            replaces: filled(&self.csv.replaces),
            skips: self.csv.skips.iter().filter_map(|name| filled(name)).collect(),
            skip_range: annotation("olm.skipRange"),
            suggested_namespace: annotation("operatorframework.io/suggested-namespace"),
        }
    }

    /// The names of the CRDs, in order of their files.
    pub fn crd_names(&self) -> impl Iterator<Item = &str> {
        self.crds.iter().filter_map(|crd| crd["metadata"]["name"].as_str())
    }
}
