//! The readers that make a bundle of files.
//!
//! Upstream has two readers that differ. The one that installs reads every document of every file and refuses anything that it does not
//! understand. The one that fills catalogs reads the first document of each file and passes over the rest. [`Bundle::read`] is the first,
//! [`Bundle::read_for_catalog`] the second. Both go by the content of a manifest, not by the name of its file.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bundle::{Bundle, CHANNELS, DEFAULT_CHANNEL, PACKAGE, Property};
use crate::csv::Csv;
use crate::error::ReadError;
use crate::go;

/// Why a document of a bundle cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDocument(pub(crate) String);

/// The file in which a bundle declares its properties.
const PROPERTIES: &str = "metadata/properties.yaml";

/// The limits of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files, including those that are not read.
    pub files: usize,
    /// Bytes of one file.
    pub file_bytes: usize,
    /// Bytes of all files.
    pub total_bytes: usize,
    /// Objects of one file.
    pub objects: usize,
    /// The deepest nesting of a document.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { files: 10_000, file_bytes: 32 << 20, total_bytes: 256 << 20, objects: 10_000, depth: 200 }
    }
}

impl Bundle {
    /// Reads a bundle to install it (OLM1-INST-06). Paths are relative to the bundle's root.
    pub fn read<P: AsRef<str>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, B)>) -> Result<Self, ReadError> {
        Self::read_limited(files, Limits::default())
    }

    /// Reads a bundle as [`Bundle::read`] does, with other limits.
    pub fn read_limited<P: AsRef<str>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, B)>, limits: Limits) -> Result<Self, ReadError> {
        let tree = Tree::gather(files, limits)?;
        let annotations = installed_annotations(&tree)?;
        let contents = Contents::strict(&tree)?;
        let mut bundle = contents.into_bundle(annotations);
        bundle.properties = installed_properties(&tree)?;
        bundle.csv_properties = csv_properties(&bundle.csv)?;
        join_properties(&mut bundle, &tree);
        bundle.dependencies = listed(&tree, "dependencies", &mut bundle.warnings);
        bundle.objects = tree.catalog_objects(&mut bundle.warnings);
        Ok(bundle)
    }

    /// Reads a bundle for a catalog, as `opm` does: parts that cannot be read are passed over with a warning, and a bundle that cannot be
    /// installed may still be listed (see [`Bundle::refusal`]).
    pub fn read_for_catalog<P: AsRef<str>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (P, B)>) -> Result<Self, ReadError> {
        let tree = Tree::gather(files, Limits::default())?;
        let mut warnings = Vec::new();
        let objects = tree.catalog_objects(&mut warnings);
        let catalog = |problem: &str| ReadError::Catalog { problem: problem.to_owned() };
        if objects.is_empty() {
            return Err(catalog("no bundle objects found"));
        }
        let Some(manifest) = objects.iter().find(|object| object["kind"] == "ClusterServiceVersion") else {
            return Err(catalog("no csv in bundle"));
        };
        let annotations = tree.catalog_annotations().ok_or_else(|| catalog("Could not find annotations file"))?;

        let strict = installed_annotations(&tree).and_then(|_| Contents::strict(&tree));
        let mut bundle = match strict {
            Ok(contents) => contents.into_bundle(annotations),
            Err(refusal) => {
                let csv = Csv::parse(&go::lenient("operators.ClusterServiceVersion", manifest))
                    .map_err(|mismatch| field("manifests", manifest, mismatch))?;
                let mut bundle = Contents { csv, crds: Vec::new(), others: Vec::new() }.into_bundle(annotations);
                bundle.refusal = Some(refusal);
                bundle
            }
        };
        bundle.objects = objects;
        bundle.warnings = warnings;
        bundle.dependencies = listed(&tree, "dependencies", &mut bundle.warnings);
        bundle.properties = listed(&tree, "properties", &mut bundle.warnings);
        match csv_properties(&bundle.csv) {
            Ok(properties) => bundle.csv_properties = properties,
            Err(error) => bundle.warnings.push(error.to_string()),
        }
        join_properties(&mut bundle, &tree);
        bundle.check_provided()?;
        Ok(bundle)
    }
}

/// The files by path, sorted.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    limits: Limits,
    /// The bytes that YAML aliases have repeated so far.
    repeated: AtomicUsize,
}

/// Most bytes that the YAML aliases of a bundle may repeat; each file is read a few times.
const REPEATED_BYTES: usize = 32 << 20;

impl Tree {
    pub(crate) fn gather<P: AsRef<str>, B: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (P, B)>,
        limits: Limits,
    ) -> Result<Self, ReadError> {
        let mut tree = Self { files: BTreeMap::new(), limits, repeated: AtomicUsize::default() };
        let mut total = 0;
        for (path, bytes) in files {
            let (path, bytes) = (path.as_ref(), bytes.as_ref());
            let clean = clean(path).ok_or_else(|| ReadError::Path { path: path.to_owned() })?;
            total += bytes.len();
            for (what, found, limit) in [
                ("number of files".to_owned(), tree.files.len() + 1, limits.files),
                (format!("size of {clean:?} in bytes"), bytes.len(), limits.file_bytes),
                ("size of all files in bytes".to_owned(), total, limits.total_bytes),
            ] {
                if found > limit {
                    return Err(ReadError::Limit { what, found, limit });
                }
            }
            tree.files.insert(clean, bytes.to_vec());
        }
        Ok(tree)
    }

    /// The files directly or indirectly below a directory, with their paths below it.
    pub(crate) fn below<'a>(&'a self, directory: &'a str) -> impl Iterator<Item = (&'a str, &'a str, &'a [u8])> {
        self.files.iter().filter_map(move |(path, bytes)| {
            let rest = path.strip_prefix(directory)?.strip_prefix('/')?;
            Some((path.as_str(), rest, bytes.as_slice()))
        })
    }

    /// The first object of every manifest file that can be read; of several CSVs only the first.
    fn catalog_objects(&self, warnings: &mut Vec<String>) -> Vec<Value> {
        let mut objects: Vec<Value> = Vec::new();
        let mut csv_found = false;
        for (path, name, bytes) in self.below("manifests") {
            if name.contains('/') || name.starts_with('.') {
                continue;
            }
            let mut documents = match self.documents(bytes) {
                Ok(documents) => documents.into_iter().filter(|value| !value.is_null()),
                Err(problem) => {
                    warnings.push(format!("{path}: passed over: {problem}"));
                    continue;
                }
            };
            let Some(object) = documents.next() else { continue };
            if documents.next().is_some() {
                warnings.push(format!("{path}: holds several documents; a catalog takes the first only"));
            }
            match object["kind"].as_str() {
                None | Some("") => warnings.push(format!("{path}: passed over: the object has no kind")),
                Some("ClusterServiceVersion") if csv_found => warnings.push(format!("{path}: passed over: a second ClusterServiceVersion")),
                Some(kind) => {
                    csv_found |= kind == "ClusterServiceVersion";
                    objects.push(object);
                }
            }
        }
        objects
    }

    /// The first metadata file with an `annotations` mapping that names a package or channels.
    fn catalog_annotations(&self) -> Option<BTreeMap<String, String>> {
        self.below("metadata").filter(|(_, name, _)| !name.contains('/')).find_map(|(path, _, bytes)| {
            let annotations = annotations(path, &self.first_document(bytes).ok()?).ok()?;
            let known = [PACKAGE, CHANNELS, DEFAULT_CHANNEL];
            known.iter().any(|key| annotations.get(*key).is_some_and(|value| !value.is_empty())).then_some(annotations)
        })
    }

    pub(crate) fn documents(&self, bytes: &[u8]) -> Result<Vec<Value>, InvalidDocument> {
        let text =
            std::str::from_utf8(bytes).map_err(|error| InvalidDocument(format!("not UTF-8 text at byte {}", error.valid_up_to())))?;
        let options = mainstay_yaml::Options { max_depth: self.limits.depth, max_bytes: self.limits.file_bytes, ..Default::default() };
        let mut values = Vec::new();
        let mut documents = mainstay_yaml::stream_with(text, options);
        let mut counted = 0;
        while let Some(document) = documents.next() {
            let more = documents.repeated() - std::mem::replace(&mut counted, documents.repeated());
            if self.repeated.fetch_add(more, Ordering::Relaxed) + more > REPEATED_BYTES {
                return Err(InvalidDocument(format!("YAML aliases of the bundle repeat more than {REPEATED_BYTES} bytes")));
            }
            if values.len() >= self.limits.objects {
                return Err(InvalidDocument(format!("more than {} documents", self.limits.objects)));
            }
            values.push(document.map_err(|error| InvalidDocument(error.to_string()))?.value);
        }
        Ok(values)
    }

    pub(crate) fn first_document(&self, bytes: &[u8]) -> Result<Value, InvalidDocument> {
        Ok(self.documents(bytes)?.into_iter().find(|value| !value.is_null()).unwrap_or_default())
    }

    pub(crate) fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }
}

/// The objects to install.
struct Contents {
    csv: Csv,
    crds: Vec<Value>,
    others: Vec<Value>,
}

impl Contents {
    fn strict(tree: &Tree) -> Result<Self, ReadError> {
        let mut any = false;
        let (mut csvs, mut crds, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (path, name, bytes) in tree.below("manifests") {
            any = true;
            if let Some((directory, _)) = name.split_once('/') {
                return Err(ReadError::Subdirectory { path: format!("manifests/{directory}") });
            }
            let objects = |problem: InvalidDocument| ReadError::Objects { path: path.to_owned(), problem };
            let documents = tree.documents(bytes).map_err(objects)?;
            for object in flatten(documents, tree.limits.objects).map_err(objects)? {
                match object["kind"].as_str().unwrap_or_default() {
                    "ClusterServiceVersion" => csvs.push(Csv::parse(&object).map_err(|mismatch| field(path, &object, mismatch))?),
                    "CustomResourceDefinition" => {
                        let mut crd = go::conform("apiextensions.CustomResourceDefinition", &object)
                            .map_err(|mismatch| field(path, &object, mismatch))?;
                        // The status belongs to the API server and is not applied.
                        if let Some(fields) = crd.as_object_mut() {
                            fields.remove("status");
                        }
                        crds.push(crd);
                    }
                    _ => others.push(object),
                }
            }
        }
        if !any {
            return Err(ReadError::NoManifests);
        }
        let csv = csvs.pop().ok_or(ReadError::NoCsv)?;
        if !csvs.is_empty() {
            let names = csvs.into_iter().map(|csv| csv.name).chain([csv.name]).collect();
            return Err(ReadError::SeveralCsvs { names });
        }
        Ok(Self { csv, crds, others })
    }

    fn into_bundle(self, annotations: BTreeMap<String, String>) -> Bundle {
        Bundle {
            package: annotations.get(PACKAGE).cloned().unwrap_or_default(),
            annotations,
            csv: self.csv,
            crds: self.crds,
            others: self.others,
            objects: Vec::new(),
            dependencies: Vec::new(),
            properties: Vec::new(),
            csv_properties: Vec::new(),
            warnings: Vec::new(),
            refusal: None,
        }
    }
}

/// The objects of a file: empty documents are dropped, lists are split into their items, and anything without a kind is refused.
fn flatten(documents: Vec<Value>, limit: usize) -> Result<Vec<Value>, InvalidDocument> {
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        if document.is_null() {
            continue;
        }
        let kind = document["kind"].as_str().unwrap_or_default();
        if kind.is_empty() {
            return Err(InvalidDocument(format!("document {}: Object 'Kind' is missing", index + 1)));
        }
        match document {
            Value::Object(mut fields) if kind_is_list(&fields) => match fields.remove("items") {
                Some(Value::Array(items)) => objects.extend(flatten(items, limit)?),
                _ => objects.push(Value::Object(fields)),
            },
            other => objects.push(other),
        }
        if objects.len() > limit {
            return Err(InvalidDocument(format!("more than {limit} objects")));
        }
    }
    Ok(objects)
}

fn kind_is_list(fields: &serde_json::Map<String, Value>) -> bool {
    fields.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"))
        && fields.get("items").is_some_and(Value::is_array)
}

fn field(path: &str, object: &Value, mismatch: go::Mismatch) -> ReadError {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ReadError::Field {
        path: path.to_owned(),
        kind: text(&object["kind"]),
        name: text(&object["metadata"]["name"]),
        mismatch: Box::new(mismatch),
    }
}

fn installed_annotations(tree: &Tree) -> Result<BTreeMap<String, String>, ReadError> {
    const PATH: &str = "metadata/annotations.yaml";
    let bytes = tree.get(PATH).ok_or_else(|| ReadError::NoFile { path: PATH.to_owned() })?;
    let refuse = |problem| ReadError::Metadata { path: PATH.to_owned(), problem };
    annotations(PATH, &tree.first_document(bytes).map_err(refuse)?)
}

/// The mapping `annotations`. The keys that the reader uses must be text; for the others a boolean or number is taken as written.
fn annotations(path: &str, document: &Value) -> Result<BTreeMap<String, String>, ReadError> {
    let refuse = |problem| Err(ReadError::Metadata { path: path.to_owned(), problem });
    let entries = match document.get("annotations") {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(entries)) => entries,
        Some(_) => return refuse(InvalidDocument("annotations: expected a mapping".to_owned())),
    };
    let mut annotations = BTreeMap::new();
    for (key, value) in entries {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other if ![PACKAGE, CHANNELS, DEFAULT_CHANNEL].contains(&key.as_str()) => other.to_string(),
            other => return refuse(InvalidDocument(format!("annotations[{key}]: expected text, found {other}; put it in quotes"))),
        };
        annotations.insert(key.clone(), text);
    }
    Ok(annotations)
}

fn installed_properties(tree: &Tree) -> Result<Vec<Property>, ReadError> {
    const PATH: &str = PROPERTIES;
    let Some(bytes) = tree.get(PATH).filter(|bytes| !bytes.is_empty()) else { return Ok(Vec::new()) };
    let refuse = |problem: InvalidDocument| ReadError::Metadata { path: format!("failed to unmarshal {PATH}"), problem };
    let document = tree.first_document(bytes).map_err(refuse)?;
    entries(&document["properties"], "properties").map_err(refuse)
}

/// The list under a top-level key, from the first metadata file that has it: authors name the files differently, and a file that is not YAML
/// counts as absent upstream.
fn listed(tree: &Tree, key: &str, warnings: &mut Vec<String>) -> Vec<Property> {
    for (path, name, bytes) in tree.below("metadata") {
        if name.contains('/') {
            continue;
        }
        let found = tree.first_document(bytes).and_then(|document| entries(&document[key], key));
        match found {
            Ok(list) if !list.is_empty() => return list,
            Ok(_) => {}
            Err(problem) => {
                let warning = format!("{path}: passed over: {problem}");
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
    }
    Vec::new()
}

/// Entries `{type, value}`, also in the older spelling `{property: {type, value}}`.
fn entries(list: &Value, key: &str) -> Result<Vec<Property>, InvalidDocument> {
    let items = match list {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items,
        _ => return Err(InvalidDocument(format!("{key}: expected a list"))),
    };
    let entry = |(index, item): (usize, &Value)| {
        let item = item.get("property").filter(|inner| inner.is_object()).unwrap_or(item);
        let kind = go::member(item, "type").as_str().ok_or_else(|| InvalidDocument(format!("{key}[{index}].type: expected text")))?;
        let value = RawValue::from_string(go::to_string(go::member(item, "value")))
            .map_err(|error| InvalidDocument(format!("{key}[{index}].value: {error}")))?;
        Ok(Property { kind: kind.to_owned(), value })
    };
    items.iter().enumerate().map(entry).collect()
}

/// The properties in the CSV's annotation, with the keys of their values in the written order.
fn csv_properties(csv: &Csv) -> Result<Vec<Property>, ReadError> {
    #[derive(Deserialize)]
    struct Entry {
        #[serde(default)]
        r#type: String,
        value: Option<Box<RawValue>>,
    }
    let Some(text) = csv.annotations.get("olm.properties") else { return Ok(Vec::new()) };
    let refuse = |error: serde_json::Error| ReadError::CsvProperties { problem: error.to_string() };
    let entries: Option<Vec<Entry>> = serde_json::from_str(text).map_err(refuse)?;
    let property = |entry: Entry| {
        let text = entry.value.map_or_else(|| "null".to_owned(), |value| go::compact_raw(value.get()));
        Ok(Property { kind: entry.r#type, value: RawValue::from_string(text).map_err(refuse)? })
    };
    entries.unwrap_or_default().into_iter().map(property).collect()
}

/// Joins the properties of the file to those of the CSV's annotation, since pods are annotated with it. A file without any is still joined, as
/// Go writes an unset list.
fn join_properties(bundle: &mut Bundle, tree: &Tree) {
    if tree.get(PROPERTIES).is_none_or(<[u8]>::is_empty) && bundle.properties.is_empty() {
        return;
    }
    let list: Vec<String> = bundle
        .csv_properties
        .iter()
        .chain(&bundle.properties)
        .map(|property| format!("{{\"type\":{},\"value\":{}}}", go::to_string(&Value::from(property.kind.as_str())), property.value.get()))
        .collect();
    let text = if list.is_empty() { "null".to_owned() } else { format!("[{}]", list.join(",")) };
    bundle.csv.annotations.insert("olm.properties".to_owned(), text);
}

/// The path with single slashes and without `.`; `None` if it leads out of the bundle.
fn clean(path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains(['\0', '\\']) {
        return None;
    }
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| parts.join("/"))
}
