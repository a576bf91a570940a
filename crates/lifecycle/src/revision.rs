//! Revisions of installed content: the objects that were applied, the progress, and the outcome. Each installer decides where it keeps them.

use std::collections::BTreeMap;
use std::sync::Arc;

mod changes;
mod history;
mod notes;
mod outcome;

use mainstay_objects::{ObjectRef, phase};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::object;

pub use changes::Changes;
pub use history::History;
pub use notes::{Notes, NotesError, RolledBack, brief};
pub use outcome::{Attempted, Ended, HealthClock, RevisionChange};

/// Number of revisions that are kept.
pub const KEPT: usize = 10;

/// The progress of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being applied, or was left half-way by a crash.
    Pending,
    /// It was applied completely; the newest such revision is the installed one.
    Deployed,
    /// It was given up half-way; it is tried again as a whole.
    Failed,
    /// It was replaced by a newer one: deployed once, or overtaken half-way ([`Notes::overtaken_by`]).
    Superseded,
}

impl State {
    /// Returns the label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Deployed => "deployed",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
        }
    }

    /// Returns the state for a label's value.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Deployed, Self::Failed, Self::Superseded].into_iter().find(|state| state.as_str() == text)
    }
}

/// The bundle that a revision applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "named by what they are")]
pub struct InstalledBundle {
    pub package: String,
    pub name: String,
    pub version: String,
    pub reference: String,
}

/// The content of a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The bundle.
    pub bundle: InstalledBundle,
    /// The content's metadata: for a bundle, the annotations of its CSV, including `olm.properties`.
    #[serde(rename = "csvAnnotations")]
    pub annotations: BTreeMap<String, String>,
    /// All applied objects, in order.
    pub objects: Vec<Value>,
}

/// A numbered record, with its progress and outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// The number, counted from 1.
    pub number: u32,
    /// The progress.
    pub state: State,
    /// The content.
    pub record: Arc<Record>,
    /// The outcome.
    pub notes: Notes,
}

impl Record {
    /// Returns the digest of the applied objects; equal manifests have equal digests.
    pub fn digest(&self) -> String {
        digest(&self.objects)
    }

    /// Returns true if an object is among the applied ones.
    pub fn holds(&self, target: &ObjectRef) -> bool {
        self.objects.iter().any(|object| object::place(object).same(target))
    }

    /// Returns the phases in which it is applied, in order, each with its number of objects.
    pub fn phases(&self) -> Vec<(&'static str, usize)> {
        let mut phases: Vec<(&'static str, usize)> = Vec::new();
        for object in &self.objects {
            let name = phase(object["kind"].as_str().unwrap_or_default());
            match phases.last_mut() {
                Some((last, count)) if *last == name => *count += 1,
                _ => phases.push((name, 1)),
            }
        }
        phases
    }
}

/// Returns the digest of objects in their order, as canonical JSON.
pub fn digest(objects: &[Value]) -> String {
    let mut hash = Sha256::new();
    for object in objects {
        hash.update(object.to_string().as_bytes());
        hash.update(b"\n");
    }
    hash.finalize().iter().fold(String::from("sha256:"), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn example(number: u32, state: State, text: &str) -> Revision {
        let bundle =
            InstalledBundle { package: "p".into(), name: "p.v1".into(), version: "1.0.0".into(), reference: "r/p@sha256:1".into() };
        let objects = vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"text": text}})];
        Revision { number, state, record: Record { bundle, annotations: BTreeMap::new(), objects }.into(), notes: Notes::default() }
    }
}
