//! The facts that a plan rests on, with the revision of each, so that a saved plan knows whether the cluster changed since (MS-PLAN-02).

use std::collections::BTreeMap;

use mainstay_objects::ObjectRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::live::Live;
use crate::revision::Record;

/// One fact, and what it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactRevision {
    /// `Deployment work/widgets`, `catalog main`, `install records`.
    pub fact: String,
    /// What it was, comparable.
    pub was: String,
    /// The resourceVersion, where there was one. It is told and not compared: a status that changes is no reason to refuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl FactRevision {
    /// A fact that is no object.
    pub fn of(fact: impl Into<String>, was: impl Into<String>) -> Self {
        Self { fact: fact.into(), was: was.into(), resource_version: None }
    }

    /// An object as it is, without its status and what the server counts in it.
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
                // The controller's own counter, which follows each roll-out.
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

    /// A live object as it was read.
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

/// What a bundle's content comes to on this cluster.
pub fn rendering(record: &Record) -> FactRevision {
    let bundle = &record.bundle;
    FactRevision::of(format!("bundle {}", bundle.name), format!("{} {}, {}", bundle.version, bundle.reference, record.digest()))
}

/// What is otherwise than it was, one line a fact.
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
            None => lines.push(format!("{fact}: was {}, and the plan does not look at it any more", told(before))),
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
