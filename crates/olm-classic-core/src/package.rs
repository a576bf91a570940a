//! Packages as PackageManifests show them: channels, their heads, what they hold, and how operators can be installed (OLM0-API-28, OLM0-USER-04).

use mainstay_bundle::InstallMode;
use serde_json::Value;

use crate::category::Category;
use crate::install_modes::{InstallModes, Unsupported};

/// A package of one catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The catalog's name.
    pub catalog: String,
    /// The catalog's namespace.
    pub catalog_namespace: String,
    /// The catalog's name for people.
    pub catalog_title: String,
    /// The catalog's category.
    pub category: Category,
    /// The channel that is followed unless another is named.
    pub default_channel: String,
    /// Its channels.
    pub channels: Vec<Channel>,
}

/// A channel of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// The CSV at its head.
    pub head: String,
    /// The version of the head.
    pub head_version: String,
    /// The install modes of the head.
    pub install_modes: Vec<InstallMode>,
    /// The CSVs that it lists.
    pub entries: Vec<Entry>,
    /// The annotations of the head.
    pub annotations: Value,
    /// The word of the catalog's authors about its end.
    pub deprecation: Option<String>,
}

/// A CSV of a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub csv: String,
    /// Its version; empty if it has none.
    pub version: String,
}

impl Package {
    /// Reads a PackageManifest; what is missing is empty.
    pub fn read(manifest: &Value) -> Self {
        let status = &manifest["status"];
        let field = |name: &str| text(&status[name]);
        Self {
            name: Some(field("packageName")).filter(|name| !name.is_empty()).unwrap_or_else(|| text(&manifest["metadata"]["name"])),
            catalog: field("catalogSource"),
            catalog_namespace: field("catalogSourceNamespace"),
            catalog_title: field("catalogSourceDisplayName"),
            category: Category::of_manifest(manifest),
            default_channel: field("defaultChannel"),
            channels: array(&status["channels"]).map(Channel::read).collect(),
        }
    }

    /// Returns the channel of this name, or the default one.
    pub fn channel(&self, name: Option<&str>) -> Option<&Channel> {
        let name = name.unwrap_or(&self.default_channel);
        self.channels.iter().find(|channel| channel.name == name)
    }

    /// Returns the names of the channels that list a CSV.
    pub fn channels_of(&self, is_it: impl Fn(&Entry) -> bool) -> Vec<&str> {
        self.channels.iter().filter(|channel| channel.entries.iter().any(&is_it)).map(|channel| channel.name.as_str()).collect()
    }

    /// The catalog as `NAME/NAMESPACE`, as the command line takes it.
    pub fn place(&self) -> String {
        format!("{}/{}", self.catalog, self.catalog_namespace)
    }
}

impl Channel {
    fn read(channel: &Value) -> Self {
        let head = &channel["currentCSVDesc"];
        let mode = |mode: &Value| InstallMode { mode: text(&mode["type"]), supported: mode["supported"] == true };
        Self {
            name: text(&channel["name"]),
            head: text(&channel["currentCSV"]),
            head_version: text(&head["version"]),
            install_modes: array(&head["installModes"]).map(mode).collect(),
            entries: array(&channel["entries"])
                .map(|entry| Entry { csv: text(&entry["name"]), version: text(&entry["version"]) })
                .collect(),
            annotations: head["annotations"].clone(),
            deprecation: channel["deprecation"]["message"].as_str().map(str::to_owned),
        }
    }

    /// Checks that its head can be installed in a namespace with these targets.
    pub fn supports(&self, namespace: &str, targets: &[String]) -> Result<(), Unsupported> {
        InstallModes::new(&self.install_modes)?.supports(namespace, targets)
    }

    /// The install modes that its head supports.
    pub fn modes(&self) -> Vec<&str> {
        self.install_modes.iter().filter(|mode| mode.supported).map(|mode| mode.mode.as_str()).collect()
    }

    /// Returns whether it lists a CSV.
    pub fn lists(&self, csv: &str) -> bool {
        self.head == csv || self.entries.iter().any(|entry| entry.csv == csv)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
