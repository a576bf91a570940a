//! The output of `opm alpha bundle generate`: the annotations and the Dockerfile of a bundle, and the package and channels if the user does not
//! name them (CATLG-48).
//!
//! ```text
//!   PACKAGE.package.yaml, VERSION/*.yaml ── Package::read ── channels whose heads lead to the bundle ─┐
//!   --package, --channels, --default ─────────────────────────────────────────────────────────────────┴─ Description
//!                                                               annotations.yaml, bundle.Dockerfile ◄──┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use crate::bundle::{CHANNELS, DEFAULT_CHANNEL, PACKAGE};
use crate::labels::{MANIFESTS, MEDIA_TYPE, METADATA};
use crate::read::{InvalidDocument, Limits, Tree};
use crate::validators::with_kind;

/// The content of the annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// `registry+v1`, `plain` or `helm`.
    pub media_type: String,
    /// The package.
    pub package: String,
    /// The channels, separated by commas.
    pub channels: String,
    /// The default channel; empty for none.
    pub default_channel: String,
}

impl Description {
    /// Labels and annotations, in the order of the Dockerfile.
    pub fn entries(&self) -> Vec<(&'static str, &str)> {
        let mut entries = vec![
            (MEDIA_TYPE, self.media_type.as_str()),
            (MANIFESTS, "manifests/"),
            (METADATA, "metadata/"),
            (PACKAGE, &self.package),
            (CHANNELS, &self.channels),
        ];
        if !self.default_channel.is_empty() {
            entries.push((DEFAULT_CHANNEL, &self.default_channel));
        }
        entries
    }

    /// The text of `annotations.yaml`.
    pub fn annotations(&self) -> String {
        let entries = self.entries().into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        crate::labels::annotations_yaml(&entries)
    }

    /// The text of the Dockerfile, with the paths of the two folders relative to it.
    pub fn dockerfile(&self, base_image: &str, manifests: &str, metadata: &str) -> String {
        let mut text = format!("FROM {base_image}\n\n");
        for (key, value) in self.entries() {
            // Writing to a String does not fail.
            let _ = writeln!(text, "LABEL {key}={value}");
        }
        if !self.default_channel.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "COPY {manifests} /manifests/\nCOPY {metadata} /metadata/");
        text
    }

    /// The entries that an existing annotations file lacks or has otherwise, in opm's words.
    pub fn differences(&self, existing: &str) -> Result<Vec<String>, InvalidDocument> {
        let document = mainstay_yaml::parse(existing).map_err(|error| InvalidDocument(error.to_string()))?;
        let found = crate::validators::texts(&document["annotations"])?;
        let problem = |(key, wanted): (&str, &str)| match found.get(key) {
            None => Some(format!("Missing field: {key}")),
            Some(value) if value != wanted => Some(format!("Expect field {key:?} to have value {wanted:?} instead of {value:?}")),
            Some(_) => None,
        };
        Ok(self.entries().into_iter().filter_map(problem).collect())
    }
}

/// The type of a folder of manifests, by its files' names and contents; `folder` is its name in messages.
pub fn media_type<'a>(folder: &str, files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<&'static str, InvalidDocument> {
    let files = files.into_iter().map(|(name, bytes)| (format!("manifests/{name}"), bytes));
    let tree = Tree::gather(files, Limits::default()).map_err(|error| InvalidDocument(error.to_string()))?;
    crate::validators::kind_of_bundle(&tree, folder)
}

/// Files by name.
pub type Files = Vec<(String, Vec<u8>)>;

/// A package in the older layout: a package file, and one folder of manifests for each version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its default channel: the one it names, or its only one.
    pub default_channel: String,
    heads: Vec<(String, String)>,
    /// The bundles that each CSV replaces or skips.
    edges: BTreeMap<String, Vec<String>>,
}

impl Package {
    /// Reads a package: the files beside the folders, and for each folder its files, all by name.
    pub fn read(directory: &str, files: &[(String, Vec<u8>)], folders: &[(String, Files)]) -> Result<Self, InvalidDocument> {
        let mut package = Self::default();
        for (folder, files) in folders {
            let csv = csv_of(&format!("{directory}/{folder}"), files)
                .map_err(|problem| InvalidDocument(format!("error getting CSVs from bundles in the package directory, {problem}")))?;
            let spec = &csv["spec"];
            let mut edges: Vec<String> =
                spec["skips"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            edges.extend(spec["replaces"].as_str().filter(|name| !name.is_empty()).map(str::to_owned));
            package.edges.insert(csv["metadata"]["name"].as_str().unwrap_or_default().to_owned(), edges);
        }
        let missing = "name of package (packageName) is missing";
        let mut problems = Vec::new();
        for (name, bytes) in files {
            let document = document(bytes);
            match document.map(|document| (document["packageName"].as_str().unwrap_or_default().to_owned(), document)) {
                Ok((found, document)) if !found.is_empty() => {
                    package.name = found;
                    package.channels(&document);
                    return Ok(package);
                }
                Ok(_) => problems.push(format!("error parsing {directory}/{name} as package.yaml file, {missing}")),
                Err(problem) => problems.push(format!(
                    "error parsing {directory}/{name} as package.yaml file, could not decode contents into package manifest - {problem}"
                )),
            }
        }
        Err(InvalidDocument(format!(
            "error parsing package.yaml file in the package root directory, valid PackageManifest YAML file not found in {directory}, {}",
            problems.join(",")
        )))
    }

    fn channels(&mut self, document: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let channels = document["channels"].as_array().into_iter().flatten();
        self.heads = channels.map(|channel| (text(&channel["name"]), text(&channel["currentCSV"]))).collect();
        self.default_channel = text(&document["defaultChannel"]);
        if let ("", [(only, _)]) = (self.default_channel.as_str(), &self.heads[..]) {
            self.default_channel.clone_from(only);
        }
    }

    /// The channels whose head is the bundle or leads to it, sorted.
    pub fn channels_of(&self, bundle: &str) -> Vec<&str> {
        let leads = |head: &str| {
            let mut seen = BTreeSet::new();
            let mut left = vec![head];
            while let Some(name) = left.pop() {
                if seen.insert(name) {
                    left.extend(self.edges.get(name).into_iter().flatten().map(String::as_str));
                }
            }
            seen.contains(bundle)
        };
        let names: BTreeSet<&str> = self.heads.iter().filter(|(_, head)| leads(head)).map(|(name, _)| name.as_str()).collect();
        names.into_iter().collect()
    }
}

/// The one CSV among files.
pub fn csv_of(directory: &str, files: &[(String, Vec<u8>)]) -> Result<Value, InvalidDocument> {
    let mut found = None;
    for (_, bytes) in files {
        let Ok(object) = document(bytes).and_then(with_kind) else { continue };
        if object["kind"] != "ClusterServiceVersion" {
            continue;
        }
        if found.is_some() {
            return Err(InvalidDocument("more than one ClusterServiceVersion is found in bundle".to_owned()));
        }
        found = Some(object);
    }
    found.ok_or_else(|| InvalidDocument(format!("no ClusterServiceVersion object found in {directory}")))
}

fn document(bytes: &[u8]) -> Result<Value, InvalidDocument> {
    let tree = Tree::gather([("file", bytes)], Limits::default()).map_err(|error| InvalidDocument(error.to_string()))?;
    tree.first_document(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn csv(name: &str, spec: &str) -> (String, Files) {
        let text =
            format!("apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: {name}}}\nspec: {spec}\n");
        (name.to_owned(), vec![("csv.yaml".to_owned(), text.into_bytes())])
    }

    /// CATLG-48: without --channels those count whose heads lead to the bundle.
    #[test]
    fn channels_are_inferred_from_the_package() {
        let file =
            "packageName: p\nchannels:\n- {name: b, currentCSV: p.v2}\n- {name: a, currentCSV: p.v3}\n- {name: c, currentCSV: p.v1}\n";
        let folders = [csv("p.v1", "{}"), csv("p.v2", "{replaces: p.v1}"), csv("p.v3", "{skips: [p.v2], replaces: p.v3}")];
        let package = Package::read("d", &[("p.package.yaml".to_owned(), file.as_bytes().to_vec())], &folders).unwrap();
        assert_eq!((package.name.as_str(), package.default_channel.as_str()), ("p", ""));
        assert_eq!(package.channels_of("p.v1"), ["a", "b", "c"]);
        assert_eq!(package.channels_of("p.v2"), ["a", "b"]);
        assert_eq!(package.channels_of("p.v3"), ["a"]);
        assert!(Package::read("d", &[], &folders).unwrap_err().to_string().contains("valid PackageManifest YAML file not found in d"));
    }

    /// CATLG-48: an annotations file that is there already is compared.
    #[test]
    fn annotations_are_compared() {
        let description = Description {
            media_type: "registry+v1".to_owned(),
            package: "p".to_owned(),
            channels: "a,b".to_owned(),
            default_channel: "a".to_owned(),
        };
        assert_eq!(description.differences(&description.annotations()).unwrap(), Vec::<String>::new());
        let other = description.annotations().replace("a,b", "b");
        let wanted = "Expect field \"operators.operatorframework.io.bundle.channels.v1\" to have value \"a,b\" instead of \"b\"";
        assert_eq!(description.differences(&other).unwrap(), [wanted]);
        assert!(
            description.dockerfile("scratch", "m", "metadata").ends_with(".default.v1=a\n\nCOPY m /manifests/\nCOPY metadata /metadata/\n")
        );
    }
}
