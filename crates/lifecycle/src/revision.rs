//! Revisions of what is installed: what was applied, how far it came, and what became of it. An installer keeps them where it likes.

use std::collections::BTreeMap;

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

/// Revisions that are kept.
pub const KEPT: usize = 10;

/// How far a revision has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Being applied, or left half-way by a crash.
    Pending,
    /// Applied wholly; the newest such one is what is installed.
    Deployed,
    /// Given up half-way; tried again as a whole.
    Failed,
    /// Replaced by a newer one: deployed once, or overtaken half-way ([`Notes::overtaken_by`]).
    Superseded,
}

impl State {
    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Deployed => "deployed",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
        }
    }

    /// The state of a label's value.
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

/// What a revision holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The bundle.
    pub bundle: InstalledBundle,
    /// What the content says of itself: of a bundle the annotations of its CSV, `olm.properties` among them.
    #[serde(rename = "csvAnnotations")]
    pub annotations: BTreeMap<String, String>,
    /// Everything that was applied, in order.
    pub objects: Vec<Value>,
}

/// One revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Counted from 1.
    pub number: u32,
    /// How far it has come.
    pub state: State,
    /// What it holds.
    pub record: Record,
    /// What became of it.
    pub notes: Notes,
}

impl Record {
    /// The digest of what is applied; equal manifests have equal digests.
    pub fn digest(&self) -> String {
        digest(&self.objects)
    }

    /// Whether an object is among those that are applied.
    pub fn holds(&self, target: &ObjectRef) -> bool {
        self.objects.iter().any(|object| object::place(object).same(target))
    }

    /// The phases in which it is applied, in order, with how many objects each has.
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

/// The digest of objects in their order, as canonical JSON.
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
        Revision { number, state, record: Record { bundle, annotations: BTreeMap::new(), objects }, notes: Notes::default() }
    }
}
