//! Manifests: the objects in the files of a payload.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use mainstay_golang::json::{self, Html};
use mainstay_objects::Packed;
use serde_json::Value;

/// The most documents of one file.
const MAX_DOCUMENTS: usize = 10_000;

/// One object of a payload, and the place where it stands.
#[derive(Clone, Debug)]
pub struct Manifest {
    file: Arc<str>,
    document: usize,
    id: ManifestId,
    version: String,
    object: Held,
    /// The document as the file has it; none for YAML, whose JSON is made of the object.
    raw: Option<Box<str>>,
}

/// An object as it is held.
#[derive(Clone, Debug)]
enum Held {
    Tree(Value),
    /// For releases that stay in memory: the object is needed once a pass, its annotations are asked for often.
    Packed {
        object: Packed<Value>,
        annotations: Value,
    },
}

/// The identity of an object: two manifests with the same one are about the same object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the fields are those of the object")]
pub struct ManifestId {
    pub group: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// A file that holds no manifests that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is not UTF-8.
    #[error("error parsing: the file is not UTF-8")]
    Encoding,
    /// It is neither YAML nor JSON.
    #[error("error parsing: {0}")]
    Syntax(#[from] mainstay_yaml::Error),
    /// A document is no object.
    #[error("error parsing: line {0}: a document is not an object")]
    NoObject(usize),
    /// A document lacks its identity.
    #[error("error parsing: Resource with fields {id} must contain kubernetes required fields kind and name (line {line})")]
    NoIdentity {
        /// The fields.
        id: Box<ManifestId>,
        /// The line on which the document begins.
        line: usize,
    },
    /// The same object stands in the file twice.
    #[error("duplicate resource: ({0})")]
    Duplicate(Box<ManifestId>),
    /// More documents than are read.
    #[error("error parsing: more than {MAX_DOCUMENTS} documents")]
    Documents,
    /// A Job selects its pods by itself (CVO-APPLY-05).
    #[error("error parsing: Job {0} has spec.selector, which Kubernetes sets itself")]
    JobSelector(Box<ManifestId>),
}

/// Reads the manifests of one file (CVO-REL-04): empty documents are skipped, lists are expanded.
pub fn parse(file: &str, content: &[u8]) -> Result<Vec<Manifest>, ManifestError> {
    let text = std::str::from_utf8(content).map_err(|_| ManifestError::Encoding)?;
    let file: Arc<str> = file.into();
    let is_json = text.trim_start().starts_with('{');
    let mut manifests = Vec::new();
    let mut seen = BTreeSet::new();
    for document in mainstay_yaml::stream(text) {
        let document = document?;
        let (objects, raw) = match document.value {
            Value::Null => continue,
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") && list.contains_key("items") => {
                match list.remove("items") {
                    Some(Value::Array(items)) => (items, None),
                    _ => (Vec::new(), None),
                }
            }
            object @ Value::Object(_) => (vec![object], is_json.then(|| raw(text)).flatten()),
            _ => return Err(ManifestError::NoObject(document.line)),
        };
        for object in objects {
            let manifest = Manifest::new(&file, manifests.len(), object, raw.clone(), document.line)?;
            if !seen.insert(manifest.id.clone()) {
                return Err(ManifestError::Duplicate(Box::new(manifest.id)));
            }
            manifests.push(manifest);
            if manifests.len() > MAX_DOCUMENTS {
                return Err(ManifestError::Documents);
            }
        }
    }
    Ok(manifests)
}

/// The text of a file that is a single JSON document.
fn raw(text: &str) -> Option<Box<str>> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok().then(|| text.trim().into())
}

impl Manifest {
    fn new(file: &Arc<str>, document: usize, object: Value, raw: Option<Box<str>>, line: usize) -> Result<Self, ManifestError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&object["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let id = ManifestId {
            group: group.to_owned(),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        };
        if id.kind.is_empty() || id.name.is_empty() {
            return Err(ManifestError::NoIdentity { id: Box::new(id), line });
        }
        if id.group == "batch" && id.kind == "Job" && !object["spec"]["selector"].is_null() {
            return Err(ManifestError::JobSelector(Box::new(id)));
        }
        Ok(Self { file: file.clone(), document, version: version.to_owned(), id, object: Held::Tree(object), raw })
    }

    /// The name of the file that it stands in, without folders.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Its number in the file, counted from 0; empty documents do not count.
    pub fn document(&self) -> usize {
        self.document
    }

    /// Its identity.
    pub fn id(&self) -> &ManifestId {
        &self.id
    }

    /// The version of its group.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The group and version as objects write them.
    pub fn api_version(&self) -> String {
        if self.id.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.id.group, self.version) }
    }

    /// The object.
    pub fn object(&self) -> Cow<'_, Value> {
        match &self.object {
            Held::Tree(object) => Cow::Borrowed(object),
            Held::Packed { object, .. } => Cow::Owned(object.unpack()),
        }
    }

    /// Holds the object compressed from here on: [`Manifest::object`] unpacks it each time.
    pub(crate) fn pack(&mut self) {
        if let Held::Tree(object) = &self.object
            && let Some(packed) = Packed::new(object)
        {
            let annotations = object["metadata"]["annotations"].clone();
            self.object = Held::Packed { object: packed, annotations };
            self.raw = None;
        }
    }

    /// Changes the object in place; its identity stays.
    pub fn edit(&mut self, edit: impl FnOnce(&mut Value)) {
        let mut object = self.object().into_owned();
        edit(&mut object);
        self.object = Held::Tree(object);
        self.raw = None;
    }

    /// Returns whether it has annotations that can be read; values other than texts make all of them unreadable.
    pub fn has_annotations(&self) -> bool {
        self.annotations().as_object().is_some_and(|all| all.values().all(Value::is_string))
    }

    /// Returns an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        if self.has_annotations() { self.annotations()[key].as_str() } else { None }
    }

    /// The annotations as they stand in the object; null where it has none.
    pub fn annotations(&self) -> &Value {
        match &self.object {
            Held::Tree(object) => &object["metadata"]["annotations"],
            Held::Packed { annotations, .. } => annotations,
        }
    }

    /// Returns whether nothing may be applied beside it (CVO-GRAPH-04).
    pub fn is_barrier(&self) -> bool {
        self.id.group == "batch" && self.version == "v1" && self.id.kind == "Job"
    }

    /// Returns its bytes as the release's fingerprint counts them (CVO-REL-06).
    pub(crate) fn raw(&self) -> Cow<'_, str> {
        match &self.raw {
            Some(raw) => raw.as_ref().into(),
            None => json::to_string(&self.object(), Html::Escaped).into(),
        }
    }

    /// Returns the name by which messages call it: `deployment "demo-system/demo"`.
    pub fn short(&self) -> Short<'_> {
        Short(&self.id)
    }
}

/// An identity as messages write it.
#[derive(Clone, Copy, Debug)]
pub struct Short<'a>(&'a ManifestId);

impl<'a> Short<'a> {
    pub(crate) fn of(id: &'a ManifestId) -> Self {
        Self(id)
    }
}

impl fmt::Display for Short<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ManifestId { kind, namespace, name, .. } = self.0;
        let kind = kind.to_lowercase();
        if namespace.is_empty() {
            write!(out, "{kind} {}", mainstay_golang::quote(name))
        } else {
            write!(out, "{kind} \"{namespace}/{name}\"")
        }
    }
}

impl fmt::Display for ManifestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = mainstay_golang::quote;
        write!(out, "Group: {} Kind: {}", quote(&self.group), quote(&self.kind))?;
        if !self.namespace.is_empty() {
            write!(out, " Namespace: {}", quote(&self.namespace))?;
        }
        write!(out, " Name: {}", quote(&self.name))
    }
}
