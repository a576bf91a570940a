//! Questions with answers as upstream's programs give them, one JSON line each (MS-CLI-09).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::capability::{Capabilities, implied};
use crate::graph::{Cut, Mode, Reconcile, TaskGraph};
use crate::include::{Filter, Gates, Override};
use crate::manifest::{Manifest, ManifestId, Short};
use crate::payload::fingerprint;

/// A line that is not of the form of the recorded ones.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A field is missing or has another type.
    #[error("field {0} is missing or has another type")]
    Field(&'static str),
    /// A field cannot be read.
    #[error("field {field}: {error}")]
    Json {
        /// The field.
        field: &'static str,
        /// The reason.
        error: serde_json::Error,
    },
    /// A number that no manifest has.
    #[error("there is no manifest {0}")]
    Manifest(u64),
    /// A graph of tasks that no line before it gave.
    #[error("no line before gave the tasks of {0}")]
    Tasks(String),
    /// A way of making a graph that does not exist.
    #[error("unknown mode {0:?}; known are split-only, initializing, updating, reconciling and shift-only")]
    Mode(String),
    /// A baseline set that does not exist.
    #[error(transparent)]
    Baseline(#[from] crate::UnknownBaseline),
}

/// Answers a line of the recorded form `include`: `manifests` are those of its payload, in load order and without any filter.
pub fn include(line: &Value, manifests: &[Manifest]) -> Result<Value, CaseError> {
    let mut answer = line.as_object().cloned().ok_or(CaseError::Field("type"))?;
    if line["type"] == "payload" {
        answer.insert("manifests".to_owned(), manifests.iter().map(place).collect());
        return Ok(answer.into());
    }
    let config = Config::read(&line["config"])?;
    let mut changed = BTreeMap::new();
    for change in line["config"]["annotate"].as_array().into_iter().flatten() {
        let at = change["i"].as_u64().ok_or(CaseError::Field("config.annotate"))?;
        let index = usize::try_from(at).ok().filter(|index| *index < manifests.len()).ok_or(CaseError::Manifest(at))?;
        let manifest = changed.entry(index).or_insert_with(|| manifests[index].clone());
        for (key, value) in change["set"].as_object().into_iter().flatten() {
            annotate(manifest, key, value);
        }
    }
    let filter = config.filter();
    let (mut included, mut hash) = (0, Sha256::new());
    let mut excluded = BTreeMap::<String, Vec<usize>>::new();
    for (index, manifest) in manifests.iter().enumerate() {
        let manifest = changed.get(&index).unwrap_or(manifest);
        if let Some(exclusion) = filter.exclusion(manifest) {
            excluded.entry(exclusion.to_string()).or_default().push(index);
            continue;
        }
        included += 1;
        let ManifestId { group, kind, namespace, name } = manifest.id();
        hash.update(format!("{}#{}|{group}|{kind}|{namespace}|{name}\n", manifest.file(), manifest.document()));
    }
    let digest = hash.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _written = write!(text, "{byte:02x}");
        text
    });
    answer.insert("included".to_owned(), json!(included));
    answer.insert("includedSha256".to_owned(), json!(digest));
    answer.insert("excluded".to_owned(), json!(excluded));
    Ok(answer.into())
}

/// Sets or removes an annotation; the key `*` stands for all.
fn annotate(manifest: &mut Manifest, key: &str, value: &Value) {
    manifest.edit(|object| {
        if key == "*" {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("annotations");
            }
        } else if !value.is_null() {
            object["metadata"]["annotations"][key] = value.clone();
        } else if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(key);
        }
    });
}

/// The arguments of a filter, owned.
struct Config {
    exclude_identifier: Option<String>,
    feature_set: Option<String>,
    profile: Option<String>,
    capabilities: Option<Capabilities>,
    allow_unknown: bool,
    overrides: Vec<Override>,
    gates: Option<BTreeSet<String>>,
    major_version: Option<u64>,
}

impl Config {
    fn read(config: &Value) -> Result<Self, CaseError> {
        let text = |field: &str| config[field].as_str().map(str::to_owned);
        let capabilities = match &config["capabilities"] {
            Value::Null => None,
            given => Some(Capabilities {
                known: names(&given["known"], "config.capabilities.known")?,
                enabled: names(&given["enabled"], "config.capabilities.enabled")?,
                implicitly_enabled: BTreeSet::new(),
            }),
        };
        let overrides = Option::<Vec<Override>>::deserialize_from(&config["overrides"], "config.overrides")?.unwrap_or_default();
        let gates = match &config["featureGates"] {
            Value::Null => None,
            given => Some(names(given, "config.featureGates")?),
        };
        Ok(Self {
            exclude_identifier: text("excludeIdentifier"),
            feature_set: text("featureSet"),
            profile: text("profile"),
            capabilities,
            allow_unknown: config["allowUnknownCapabilities"].as_bool().unwrap_or_default(),
            overrides,
            gates,
            major_version: config["majorVersion"].as_u64(),
        })
    }

    fn filter(&self) -> Filter<'_> {
        Filter {
            exclude_identifier: self.exclude_identifier.as_deref(),
            feature_set: self.feature_set.as_deref(),
            profile: self.profile.as_deref(),
            capabilities: self.capabilities.as_ref(),
            allow_unknown_capabilities: self.allow_unknown,
            overrides: &self.overrides,
            gates: Gates { enabled: self.gates.as_ref(), major_version: self.major_version },
        }
    }
}

/// Reading a field with its name in the error.
trait DeserializeFrom: Sized {
    fn deserialize_from(value: &Value, field: &'static str) -> Result<Self, CaseError>;
}

impl<T: serde::de::DeserializeOwned> DeserializeFrom for T {
    fn deserialize_from(value: &Value, field: &'static str) -> Result<Self, CaseError> {
        T::deserialize(value).map_err(|error| CaseError::Json { field, error })
    }
}

fn names(value: &Value, field: &'static str) -> Result<BTreeSet<String>, CaseError> {
    Ok(Option::<BTreeSet<String>>::deserialize_from(value, field)?.unwrap_or_default())
}

/// A manifest by its place, as the recorded lists have it.
fn place(manifest: &Manifest) -> Value {
    let ManifestId { group, kind, namespace, name } = manifest.id();
    let mut place = json!({"file": manifest.file(), "doc": manifest.document(), "group": group, "kind": kind, "name": name});
    if !namespace.is_empty() {
        place["namespace"] = json!(namespace);
    }
    place
}

/// The tasks that lines gave, for the graphs that later lines ask for.
#[derive(Debug, Default)]
pub struct Orders {
    tasks: BTreeMap<String, Vec<(String, bool)>>,
}

impl Orders {
    /// Answers a line of the recorded form `order`: a list of tasks, or the graph of one. `manifests` are those of the line's payload, if it
    /// names one.
    pub fn answer(&mut self, line: &Value, manifests: &[Manifest]) -> Result<Value, CaseError> {
        let mut answer = line.as_object().cloned().ok_or(CaseError::Field("type"))?;
        let id = line["id"].as_str().ok_or(CaseError::Field("id"))?;
        if line["type"] == "tasks" {
            self.list(id, &mut answer, manifests)?;
            return Ok(answer.into());
        }
        let tasks = self.tasks.get(id).ok_or_else(|| CaseError::Tasks(id.to_owned()))?;
        let attempt = u32::try_from(line["attempt"].as_u64().unwrap_or_default()).map_err(|_| CaseError::Field("attempt"))?;
        let mode = line["mode"].as_str().ok_or(CaseError::Field("mode"))?;
        let (split, cut) = match mode {
            "split-only" => (true, None),
            "initializing" => (true, Some(Mode::Initializing.into())),
            "updating" => (true, Some(Mode::Updating.into())),
            "reconciling" => (true, Some(Mode::Reconciling(Reconcile { attempt }).into())),
            "shift-only" => (true, Some(Cut::Flat { seed: None, rotated: attempt })),
            other => return Err(CaseError::Mode(other.to_owned())),
        };
        let files: Vec<&str> = tasks.iter().map(|(file, _)| file.as_str()).collect();
        let graph = TaskGraph::of(&files, |task| split && tasks[task].1, cut);
        let nodes = graph.nodes().iter().map(|node| json!({"t": node.tasks, "in": node.before, "out": node.after}));
        answer.insert("nodes".to_owned(), nodes.collect());
        Ok(answer.into())
    }

    fn list(&mut self, id: &str, answer: &mut Map<String, Value>, manifests: &[Manifest]) -> Result<(), CaseError> {
        let given = answer.get("tasks").and_then(Value::as_array).ok_or(CaseError::Field("tasks"))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (mut tasks, mut listed) = (Vec::new(), Vec::new());
        let mut chosen = Vec::new();
        for (index, task) in (1..).zip(given) {
            let id = ManifestId {
                group: text(&task["group"]),
                kind: text(&task["kind"]),
                namespace: text(&task["namespace"]),
                name: text(&task["name"]),
            };
            listed.push((text(&task["file"]), id.group == "batch" && id.kind == "Job" && task["version"] == "v1"));
            let mut task = task.clone();
            task["text"] = json!(format!("{} ({index} of {})", Short::of(&id), given.len()));
            tasks.push(task);
            // The recorded numbers count the documents that passed the filters.
            chosen.extend(manifests.iter().find(|manifest| manifest.file() == listed[index - 1].0 && *manifest.id() == id));
        }
        if !manifests.is_empty() {
            answer.insert("versionHash".to_owned(), json!(fingerprint(chosen)));
        }
        answer.insert("tasks".to_owned(), tasks.into());
        self.tasks.insert(id.to_owned(), listed);
        Ok(())
    }
}

/// Answers a line of the recorded form `capability.set`.
pub fn capabilities(line: &Value) -> Result<Value, CaseError> {
    let mut answer = line.as_object().cloned().ok_or(CaseError::Field("type"))?;
    let capabilities = Capabilities::of(&line["input"]["spec"], names(&line["input"]["prior"], "input.prior")?)?;
    // A Go list without members.
    answer.insert("enabled".to_owned(), if capabilities.enabled.is_empty() { Value::Null } else { json!(capabilities.enabled) });
    answer.insert("known".to_owned(), json!(capabilities.known));
    answer.insert("implicitlyEnabled".to_owned(), json!(capabilities.implicitly_enabled));
    Ok(answer.into())
}

/// Answers a line of the recorded form `capability.implicit`: `current` and `update` are the manifests of both payloads that passed loading.
pub fn implicit(line: &Value, current: &[Manifest], update: &[Manifest]) -> Result<Value, CaseError> {
    let mut answer = line.as_object().cloned().ok_or(CaseError::Field("type"))?;
    let spec = json!({"baselineCapabilitySet": line["baseline"], "additionalEnabledCapabilities": line["additional"]});
    let capabilities = Capabilities::of(&spec, names(&line["prior"], "prior")?)?;
    let mut update = update.to_vec();
    for change in line["changedInUpdate"].as_array().into_iter().flatten() {
        let changed = |manifest: &&mut Manifest| {
            let id = manifest.id();
            change["File"] == manifest.file()
                && change["Kind"] == *id.kind
                && change["Namespace"] == *id.namespace
                && change["Name"] == *id.name
        };
        for manifest in update.iter_mut().filter(changed) {
            annotate(manifest, crate::include::CAPABILITY, &change["Set"]);
        }
    }
    let implied = implied(&update, current, &capabilities);
    answer.insert("implicitlyEnabled".to_owned(), json!(implied));
    Ok(answer.into())
}
