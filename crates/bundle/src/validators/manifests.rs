//! A bundle as the validators see it: every manifest with its file, read as leniently as possible so that one bad file hides no finding of
//! another.
//!
//! ```text
//!   files ── find the CSV's folder ── first document of each file ──┬─ CSV, CRDs, objects
//!                                                                  └─ findings of loading
//! ```

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::finding::Finding;
use super::{locate, rules};
use crate::bundle::{CHANNELS, DEFAULT_CHANNEL, PACKAGE};
use crate::csv::Csv;
use crate::error::ReadError;
use crate::go;
use crate::read::{InvalidDocument, Limits, Tree};

/// One object and the file it is in.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The file, relative to the bundle's root.
    pub file: String,
    /// The object as written.
    pub object: Value,
}

impl Manifest {
    /// `kind`.
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// `apiVersion`.
    pub fn api_version(&self) -> &str {
        self.object["apiVersion"].as_str().unwrap_or_default()
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// The CSV of a bundle.
#[derive(Debug, Clone)]
pub struct CsvManifest {
    /// Its file.
    pub file: String,
    /// The CSV in the form that Go's YAML reader hands on.
    pub raw: Value,
    /// The CSV in parsed form.
    pub csv: Csv,
}

/// The input of validators.
#[derive(Debug, Default)]
pub struct Manifests {
    /// The CSV, if it can be read.
    pub csv: Option<CsvManifest>,
    /// The package of the annotations.
    pub package: String,
    /// The channels of the annotations, split at commas.
    pub channels: Vec<String>,
    /// The default channel of the annotations.
    pub default_channel: String,
    /// Every object, including the CSV, in the order of files.
    pub objects: Vec<Manifest>,
    /// CRDs of `apiextensions.k8s.io/v1`, as Go's struct holds them.
    pub crds: Vec<Manifest>,
    /// CRDs of `apiextensions.k8s.io/v1beta1`, as written.
    pub old_crds: Vec<Manifest>,
    /// Bytes of all files.
    pub size: usize,
    /// Bytes of all files when each is compressed for a ConfigMap.
    pub compressed_size: usize,
    /// Problems of reading the files.
    pub findings: Vec<Finding>,
    pub(crate) tree: Tree,
}

impl Manifests {
    /// Reads the files of a bundle; paths are relative to its root. Only more or larger files than a bundle may have are an error.
    pub fn read<P: AsRef<str>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, B)>) -> Result<Self, ReadError> {
        let tree = Tree::gather(files, Limits::default())?;
        let mut manifests = Self { tree, ..Self::default() };
        manifests.read_annotations();
        if let Some(folder) = manifests.csv_folder() {
            manifests.read_objects(&folder);
            manifests.measure();
        } else {
            let detail = "unable to find a csv in bundle directory".to_owned();
            manifests.findings.push(Finding::error(&rules::NO_CSV, "", detail).without_value());
        }
        Ok(manifests)
    }

    /// The bundle's name, which is its CSV's.
    pub fn name(&self) -> &str {
        self.csv.as_ref().map_or("", |manifest| manifest.csv.name.as_str())
    }

    /// A bundle of only its CSV, as opm passes it to an optional validator.
    pub(crate) fn csv_alone(csv: CsvManifest) -> Self {
        Self { csv: Some(csv), ..Self::default() }
    }

    /// The line of a field of a file.
    pub(crate) fn line(&self, file: &str, path: &str) -> Option<usize> {
        let text = std::str::from_utf8(self.tree.get(file)?).ok()?;
        locate::line(text, path)
    }

    fn visible(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.tree.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
        files.filter(|(path, _)| !path.split('/').any(|part| part.starts_with('.')))
    }

    /// Reads every file whose name begins with `annotations`; the last one wins.
    fn read_annotations(&mut self) {
        let mut found = BTreeMap::new();
        let mut findings = Vec::new();
        for (path, bytes) in self.visible().filter(|(path, _)| name_of(path).starts_with("annotations")) {
            match self.tree.first_document(bytes).and_then(|document| texts(&known_annotations(&document))) {
                Ok(annotations) => found = annotations,
                Err(problem) => {
                    let detail = format!("unable to load the annotations file {path}: {problem}");
                    findings.push(Finding::error(&rules::ANNOTATIONS_FILE, "", detail).without_value().at(path, ""));
                }
            }
        }
        let mut take = |key: &str| found.remove(key).unwrap_or_default();
        self.package = take(PACKAGE);
        self.channels = take(CHANNELS).split(',').map(str::to_owned).collect();
        self.default_channel = take(DEFAULT_CHANNEL);
        self.findings.extend(findings);
    }

    /// The folder of the last CSV in the order in which the files are visited.
    fn csv_folder(&self) -> Option<String> {
        let is_csv = |bytes: &[u8]| self.tree.first_document(bytes).is_ok_and(|object| object["kind"] == "ClusterServiceVersion");
        let found = self.visible().filter(|(_, bytes)| is_csv(bytes)).last();
        found.map(|(path, _)| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned())
    }

    fn read_objects(&mut self, folder: &str) {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let mut inner_folders: Vec<&str> = Vec::new();
        let mut findings = Vec::new();
        let mut manifests = Vec::new();
        for (path, bytes) in &self.tree.files {
            let Some(name) = path.strip_prefix(&prefix) else { continue };
            if let Some((inner, _)) = name.split_once('/') {
                if !inner_folders.contains(&inner) {
                    inner_folders.push(inner);
                    let detail = format!("bundle manifests dir contains directory: {prefix}{inner}");
                    findings.push(Finding::error(&rules::FOLDER, "", detail).without_value().at(path, ""));
                }
                continue;
            }
            if name.starts_with('.') {
                let detail = format!("bundle manifests dir has hidden file: {path}");
                findings.push(Finding::error(&rules::HIDDEN_FILE, "", detail).without_value().at(path, ""));
                continue;
            }
            let decoded = self.tree.first_document(bytes).and_then(with_kind);
            match decoded {
                Ok(object) => manifests.push(Manifest { file: path.clone(), object }),
                Err(problem) => {
                    let detail = format!("unable to decode object: {problem}");
                    findings.push(Finding::error(&rules::DECODE, "", detail).without_value().at(path, ""));
                }
            }
        }
        for manifest in &manifests {
            self.sort_in(manifest, &mut findings);
        }
        self.objects = manifests;
        self.findings.extend(findings);
    }

    fn sort_in(&mut self, manifest: &Manifest, findings: &mut Vec<Finding>) {
        let name = name_of(&manifest.file);
        let mut refuse =
            |rule, path: &str, detail: String| findings.push(Finding::error(rule, "", detail).without_value().at(&manifest.file, path));
        match (manifest.kind(), manifest.api_version()) {
            ("ClusterServiceVersion", _) if self.csv.is_some() => {
                refuse(&rules::SEVERAL_CSVS, "", "invalid bundle: contains multiple CSVs".to_owned());
            }
            ("ClusterServiceVersion", _) => {
                let raw = go::lenient("operators.ClusterServiceVersion", &manifest.object);
                match Csv::parse(&raw) {
                    Ok(csv) => self.csv = Some(CsvManifest { file: manifest.file.clone(), raw, csv }),
                    Err(mismatch) => refuse(&rules::CSV_TYPES, &mismatch.path, format!("unable to parse CSV {name}: {mismatch}")),
                }
            }
            ("CustomResourceDefinition", "apiextensions.k8s.io/v1") => {
                let object = go::lenient("apiextensions.CustomResourceDefinition", &manifest.object);
                match go::conform("apiextensions.CustomResourceDefinition", &object) {
                    Ok(object) => self.crds.push(Manifest { file: manifest.file.clone(), object }),
                    Err(mismatch) => refuse(&rules::CRD_TYPES, &mismatch.path, format!("unable to parse CRD {name}: {mismatch}")),
                }
            }
            ("CustomResourceDefinition", "apiextensions.k8s.io/v1beta1") => self.old_crds.push(manifest.clone()),
            ("CustomResourceDefinition", other) => {
                refuse(&rules::CRD_VERSION, "apiVersion", format!("unsupported CRD version {other} for {name}"));
            }
            _ => {}
        }
    }

    /// Measures the bundle in a ConfigMap: each file compressed, then as base64 text.
    fn measure(&mut self) {
        for bytes in self.tree.files.values() {
            self.size += bytes.len();
            self.compressed_size += gzip_base64(bytes).len();
        }
    }
}

/// A file as a ConfigMap holds it: compressed, then as base64 text.
pub fn gzip_base64(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    base64::engine::general_purpose::STANDARD.encode(encoder.finish().unwrap_or_default())
}

/// Returns the object if it has a kind; the words of the error are Kubernetes'.
pub(crate) fn with_kind(object: Value) -> Result<Value, InvalidDocument> {
    // An `apiVersion` of three parts is invalid, and Kubernetes then does not see the kind either.
    let readable = object["apiVersion"].as_str().is_none_or(|version| version.matches('/').count() < 2);
    match object["kind"].as_str() {
        Some(kind) if !kind.is_empty() && readable => Ok(object),
        _ if object.is_null() => Err(InvalidDocument("EOF".to_owned())),
        _ => Err(InvalidDocument(format!(
            "error unmarshaling JSON: while decoding JSON: Object 'Kind' is missing in '{}'",
            go::to_string(&object)
        ))),
    }
}

/// The annotations that describe the bundle; the types of others are not checked here.
fn known_annotations(document: &Value) -> Value {
    match &document["annotations"] {
        Value::Object(entries) => {
            let known =
                [PACKAGE, CHANNELS, DEFAULT_CHANNEL].into_iter().filter_map(|key| Some((key.to_owned(), entries.get(key)?.clone())));
            Value::Object(known.collect())
        }
        other => other.clone(),
    }
}

pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A mapping of texts, as Go reads one from YAML: a boolean or number counts as written, null as an empty text.
pub(crate) fn texts(value: &Value) -> Result<BTreeMap<String, String>, InvalidDocument> {
    let entries = match value {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(entries) => entries,
        _ => return Err(InvalidDocument("annotations: expected a mapping".to_owned())),
    };
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        Value::Null => Ok((key.clone(), String::new())),
        Value::Bool(_) | Value::Number(_) => Ok((key.clone(), value.to_string())),
        Value::Array(_) | Value::Object(_) => Err(InvalidDocument(format!("annotations[{key}]: expected text, found {value}"))),
    };
    entries.iter().map(text).collect()
}
