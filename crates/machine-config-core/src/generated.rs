//! MachineConfigs that controllers make: names, content, and what their sources report (MACH-MC-06).

use mainstay_objects::Labels;
use serde_json::{Value, json};

use crate::machine_config::ROLE;

/// The annotation with the controller that made a MachineConfig.
pub const CONTROLLER_VERSION: &str = "machineconfiguration.openshift.io/generated-by-controller-version";
/// The annotation with the release that a rendered MachineConfig is of.
pub const RELEASE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";
/// The annotation of a source with the end of its MachineConfig's name.
pub const SUFFIX: &str = "machineconfiguration.openshift.io/mc-name-suffix";
/// The version of generated Ignition configs.
const IGNITION: &str = "3.4.0";
/// The largest end of a name.
const MOST: u32 = 9;
/// The conditions that a source keeps.
const CONDITIONS: usize = 3;

/// A file of a generated MachineConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub path: String,
    /// Its mode.
    pub mode: u32,
    /// Its content.
    pub text: String,
}

impl File {
    /// A file with the usual mode.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), mode: 0o644, text: text.into() }
    }
}

/// A unit of a generated MachineConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its name.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// Returns a MachineConfig with these files and units.
pub fn machine_config(name: &str, role: &str, files: &[File], units: &[Unit], version: &str) -> Value {
    let files: Vec<Value> = files
        .iter()
        .map(|file| {
            let plain = mainstay_ignition::data_url::base64_url(file.text.as_bytes());
            let source = plain.replacen("data:", "data:text/plain;charset=utf-8", 1);
            json!({"path": file.path, "mode": file.mode, "overwrite": true, "contents": {"source": source, "compression": ""}})
        })
        .collect();
    let units: Vec<Value> = units.iter().map(|unit| json!({"name": unit.name, "enabled": true, "contents": unit.text})).collect();
    let mut config = json!({"ignition": {"version": IGNITION}});
    if !files.is_empty() {
        config["storage"] = json!({ "files": files });
    }
    if !units.is_empty() {
        config["systemd"] = json!({ "units": units });
    }
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {ROLE: role}, "annotations": {CONTROLLER_VERSION: version}},
        "spec": {"config": config},
    })
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// KubeletConfig.
    Kubelet,
    /// ContainerRuntimeConfig.
    Runtime,
}

impl Source {
    /// The kind's name.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Kubelet => "KubeletConfig",
            Self::Runtime => "ContainerRuntimeConfig",
        }
    }

    /// The first name of a pool's MachineConfig of this kind.
    pub fn first(self, pool: &str) -> String {
        let part = match self {
            Self::Kubelet => "kubelet",
            Self::Runtime => "containerruntime",
        };
        format!("99-{pool}-generated-{part}")
    }
}

/// An object that a MachineConfig is generated from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// The end of its MachineConfig's name, once it is chosen.
    pub suffix: Option<String>,
}

impl Known {
    /// Reads an object.
    pub fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let name = object.pointer("/metadata/name").and_then(text).unwrap_or_default();
        let suffix = object["metadata"]["annotations"].get(SUFFIX).and_then(text);
        Self { name, suffix }
    }
}

/// A pool has as many sources of a kind as there are names, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No name is left.
    #[error("max number of supported {} (10) has been reached. Please delete old {} before retrying", .0, .1)]
    TooMany(&'static str, &'static str),
    /// The annotation of a source is no number.
    #[error("error converting {0} to int: not a number")]
    Suffix(String),
}

/// Chooses the end of the name of a source's MachineConfig: none for the first of a pool, then 1 to 9. A chosen one stays.
///
/// # Errors
/// No name is left, or an annotation is no number.
pub fn suffix(source: Source, name: &str, in_pool: &[Known]) -> Result<String, NameError> {
    if let Some(known) = in_pool.iter().find(|known| known.name == name).and_then(|known| known.suffix.clone()) {
        return Ok(known);
    }
    if in_pool.len() <= 1 {
        return Ok(String::new());
    }
    let mut last = 0;
    for suffix in in_pool.iter().filter_map(|known| known.suffix.as_deref()).filter(|suffix| !suffix.is_empty()) {
        last = last.max(suffix.parse::<u32>().map_err(|_| NameError::Suffix(suffix.to_owned()))?);
    }
    if last >= MOST {
        return Err(match source {
            Source::Kubelet => NameError::TooMany("kubelet config", "kubelet configs"),
            Source::Runtime => NameError::TooMany("ctrcfgs", "ctrcfgs"),
        });
    }
    Ok((last + 1).to_string())
}

/// Returns the name of a source's MachineConfig.
pub fn name(source: Source, pool: &str, suffix: &str) -> String {
    let first = source.first(pool);
    if suffix.is_empty() { first } else { format!("{first}-{suffix}") }
}

/// Returns the status of a source with the outcome of this look; none if it says the same already.
pub fn reported(live: &Value, outcome: Result<(), &str>, now: &str) -> Option<Value> {
    let (kind, status, message) = match outcome {
        Ok(()) => ("Success", "True", "Success".to_owned()),
        Err(text) => ("Failure", "False", text.to_owned()),
    };
    let mut conditions = live.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let generation = &live["metadata"]["generation"];
    let says_same = conditions.last().is_some_and(|last| last["message"] == message.as_str() && last["type"] == kind);
    if says_same && live["status"]["observedGeneration"] == *generation {
        return None;
    }
    if says_same {
        if let Some(last) = conditions.last_mut() {
            last["lastTransitionTime"] = json!(now);
        }
    } else {
        if conditions.len() >= CONDITIONS {
            conditions.drain(..=conditions.len() - CONDITIONS);
        }
        conditions.push(json!({"type": kind, "status": status, "message": message, "lastTransitionTime": now}));
    }
    Some(json!({"observedGeneration": generation, "conditions": conditions}))
}

/// Returns why a pool waits for a source: its newest generation was not looked at, or failed.
pub fn waits_for(source: Source, live: &Value) -> Option<String> {
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let (observed, generation) = (&live["status"]["observedGeneration"], &live["metadata"]["generation"]);
    if observed != generation {
        let observed = observed.as_i64().unwrap_or_default();
        return Some(format!("status for {} {name} is being reported for {observed}, expecting it for {generation}", source.kind()));
    }
    let last = live.pointer("/status/conditions").and_then(Value::as_array).and_then(|all| all.last());
    last.is_none_or(|last| last["type"] != "Success").then(|| format!("{} has not completed", source.kind()))
}

/// Returns whether the selector of a source, as it stands in the object, takes a pool with these labels. One that is empty takes none.
pub fn takes(object: &Value, pool: &Labels) -> bool {
    let selector = &object["spec"]["machineConfigPoolSelector"];
    serde_json::from_value::<mainstay_objects::LabelSelector>(selector.clone())
        .is_ok_and(|selector| !selector.is_empty() && selector.validate().is_ok() && selector.matches(pool))
}
