//! The configuration of a built image: the base's values with the builder's changes, by the rules of Dockerfiles.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::digest::Digest;
use crate::error::Error;
use crate::manifest::Platform;

/// Fields of a configuration about the container that a base was made in.
const OF_THE_BASE: [&str; 4] = ["id", "parent", "container", "container_config"];

/// Values that a builder sets; the others stay as the base has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub labels: BTreeMap<String, String>,
    pub entrypoint: Option<Vec<String>>,
    pub command: Option<Vec<String>>,
    pub environment: Vec<(String, String)>,
    pub user: Option<String>,
    pub working_directory: Option<String>,
    pub ports: BTreeSet<String>,
    pub origin: Option<Origin>,
}

/// When and how an image was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub created: String,
    pub comment: String,
}

impl Origin {
    /// Replaces what a base says of its own making. Labels are the builder's alone.
    pub(super) fn replace(&self, config: &mut Value, labels: &BTreeMap<String, String>) {
        let Some(fields) = config.as_object_mut() else { return };
        for field in OF_THE_BASE {
            fields.remove(field);
        }
        fields.insert("created".to_owned(), self.created.as_str().into());
        fields.insert("history".to_owned(), json!([{"created": self.created, "comment": self.comment}]));
        config["config"]["Labels"] = json!(labels);
    }
}

/// The configuration of an image from nothing.
pub(super) fn fresh(settings: &Settings, platform: &Platform) -> Value {
    let mut config = json!({
        "architecture": platform.architecture,
        "os": platform.os,
        "config": {"Labels": {}},
        "rootfs": {"type": "layers", "diff_ids": []},
    });
    if let Some(variant) = &platform.variant {
        config["variant"] = variant.as_str().into();
    }
    config.get_mut("config").and_then(Value::as_object_mut).into_iter().for_each(|run| settings.apply(run));
    config
}

/// The configuration of an image on a base, whose own configuration is `text`.
pub(super) fn inherited(subject: &str, text: &[u8], settings: &Settings, layers: usize) -> Result<Value, Error> {
    let refuse = |problem: String| Error::content(subject, format!("image configuration {problem}"));
    let mut config: Value = serde_json::from_slice(text).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let diffs = config["rootfs"]["diff_ids"].as_array().map_or(0, Vec::len);
    if diffs != layers {
        return Err(refuse(format!("lists {diffs} layers, and the manifest {layers}")));
    }
    let root = config.as_object_mut().ok_or_else(|| refuse("is no object".to_owned()))?;
    // Some builders write null where nothing is set.
    let run = root.entry("config").or_insert(Value::Null);
    if run.is_null() {
        *run = json!({});
    }
    settings.apply(run.as_object_mut().ok_or_else(|| refuse("has a config that is no object".to_owned()))?);
    Ok(config)
}

/// Adds a layer on top.
pub(super) fn add_layer(config: &mut Value, diff: &Digest) {
    if let Some(diffs) = config["rootfs"]["diff_ids"].as_array_mut() {
        diffs.push(diff.as_str().into());
    }
    if let Some(history) = config.get_mut("history").and_then(Value::as_array_mut) {
        history.push(json!({"created_by": "mainstay", "comment": "files"}));
    }
}

impl Settings {
    fn apply(&self, run: &mut Map<String, Value>) {
        merge(run, "Labels", self.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
        if let Some(entrypoint) = &self.entrypoint {
            run.insert("Entrypoint".to_owned(), entrypoint.clone().into());
            // As in a Dockerfile, the base's command was meant for the base's entry point.
            run.remove("Cmd");
        }
        if let Some(command) = &self.command {
            run.insert("Cmd".to_owned(), command.clone().into());
        }
        if !self.environment.is_empty() {
            let known = run.get("Env").and_then(Value::as_array).cloned().unwrap_or_default();
            let mut variables: Vec<String> = known.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            for (name, value) in &self.environment {
                let line = format!("{name}={value}");
                match variables.iter_mut().find(|variable| variable.split('=').next() == Some(name)) {
                    Some(variable) => *variable = line,
                    None => variables.push(line),
                }
            }
            run.insert("Env".to_owned(), variables.into());
        }
        if let Some(user) = &self.user {
            run.insert("User".to_owned(), user.as_str().into());
        }
        if let Some(directory) = &self.working_directory {
            run.insert("WorkingDir".to_owned(), directory.as_str().into());
        }
        merge(run, "ExposedPorts", self.ports.iter().map(|port| (port.clone(), json!({}))));
    }
}

fn merge(run: &mut Map<String, Value>, key: &str, entries: impl Iterator<Item = (String, Value)>) {
    let mut entries = entries.peekable();
    if entries.peek().is_none() {
        return;
    }
    let object = run.entry(key).or_insert(Value::Null);
    if !object.is_object() {
        *object = json!({});
    }
    if let Some(object) = object.as_object_mut() {
        object.extend(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVO-RELN-03: nothing of how a base was made is left, so that the image says only what its builder says.
    #[test]
    fn origins() {
        let mut config = json!({"created": "2020-01-01T00:00:00Z", "container": "x", "container_config": {}, "parent": "y", "os": "linux",
            "config": {"Labels": {"of": "base"}, "User": "1"}, "history": [{"created_by": "base"}, {"created_by": "base"}]});
        let origin = Origin { created: "2026-01-01T00:00:00Z".to_owned(), comment: "made".to_owned() };
        origin.replace(&mut config, &BTreeMap::from([("own".to_owned(), "1".to_owned())]));
        let expected = json!({"created": "2026-01-01T00:00:00Z", "os": "linux", "config": {"Labels": {"own": "1"}, "User": "1"},
            "history": [{"created": "2026-01-01T00:00:00Z", "comment": "made"}]});
        assert_eq!(config, expected);
    }
}
