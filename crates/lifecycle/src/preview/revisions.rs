//! The facts that a plan rests on, each with its revision, so that a saved plan detects that the cluster changed (MS-PLAN-02).

use std::collections::BTreeMap;

use mainstay_objects::ObjectRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::live::Live;
use crate::revision::Record;

/// A fact, and its state when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactRevision {
    /// The fact's name: `Deployment work/widgets`, `catalog main`, `install records`.
    pub fact: String,
    /// Its state, in a form that can be compared.
    pub was: String,
    /// The resourceVersion, if there was one. It is shown and not compared: a changed status is no reason to refuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl FactRevision {
    /// Creates a fact that is not an object.
    pub fn of(fact: impl Into<String>, was: impl Into<String>) -> Self {
        Self { fact: fact.into(), was: was.into(), resource_version: None }
    }

    /// Creates a fact from an object, without its status and the counters that the server keeps in it.
    pub fn object(fact: impl Into<String>, object: Option<&Value>) -> Self {
        let Some(object) = object else { return Self::of(fact, "absent") };
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let mut content = object.clone();
        if let Some(map) = content.as_object_mut() {
            map.remove("status");
            if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
                for key in ["managedFields", "resourceVersion", "generation"] {
                    metadata.remove(key);
                }
                // The controller's own counter, which changes with each rollout.
                if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                    annotations.remove("deployment.kubernetes.io/revision");
                }
            }
        }
        let uid = text("/metadata/uid").unwrap_or_default();
        Self {
            fact: fact.into(),
            was: format!("uid {uid}, content {}", digest(&content.to_string())),
            resource_version: text("/metadata/resourceVersion"),
        }
    }

    /// Creates a fact from a live object as it was read.
    pub fn live(target: &ObjectRef, live: &Live) -> Self {
        let fact = target.to_string();
        match live {
            Live::Absent => Self::object(fact, None),
            Live::Present(found) => Self::object(fact, Some(found)),
            Live::NotServed => Self::of(fact, "its kind is not served"),
            Live::Unreadable(problem) => Self::of(fact, format!("not readable: {problem}")),
        }
    }
}

/// Returns the result of rendering a bundle's content on this cluster.
pub fn rendering(record: &Record) -> FactRevision {
    let bundle = &record.bundle;
    FactRevision::of(format!("bundle {}", bundle.name), format!("{} {}, {}", bundle.version, bundle.reference, record.digest()))
}

/// Returns the facts that changed, one per line.
pub fn moved(then: &[FactRevision], now: &[FactRevision]) -> Vec<String> {
    let index = |all: &[FactRevision]| all.iter().map(|one| (one.fact.clone(), one.clone())).collect::<BTreeMap<_, _>>();
    let (then, now) = (index(then), index(now));
    let mut lines = Vec::new();
    let told = |one: &FactRevision| match &one.resource_version {
        Some(version) => format!("{} (resourceVersion {version})", one.was),
        None => one.was.clone(),
    };
    for (fact, before) in &then {
        match now.get(fact) {
            None => lines.push(format!("{fact}: was {}, and the plan no longer looks at it", told(before))),
            Some(after) if after.was != before.was => lines.push(format!("{fact}: was {}, is {}", told(before), told(after))),
            Some(_) => {}
        }
    }
    lines.extend(
        now.iter()
            .filter(|(fact, _)| !then.contains_key(*fact))
            .map(|(fact, after)| format!("{fact}: was not looked at, is {}", told(after))),
    );
    lines
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).fold(String::from("sha256:"), |text, byte| text + &format!("{byte:02x}"))
}
