//! What became of a revision, in annotations: they change while the record stays as it was written.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const APPLIED: &str = "lifecycle.mainstay.dev/applied-at";
const WAITS: &str = "lifecycle.mainstay.dev/waits-before";
const HEALTHY_BY: &str = "lifecycle.mainstay.dev/healthy-by";
const WHY: &str = "lifecycle.mainstay.dev/why";
const ROLLED_BACK: &str = "lifecycle.mainstay.dev/rolled-back";
const OVERTAKEN_BY: &str = "lifecycle.mainstay.dev/overtaken-by";
/// The longest explanation that is kept; the condition has the whole.
const WHY_BYTES: usize = 4_096;

/// What became of a revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// When it was begun.
    pub begun: Option<Timestamp>,
    /// When its objects were applied, all or up to the phase that it waits before.
    pub applied: Option<Timestamp>,
    /// The phase that is not begun yet because what it needs is not healthy; all before it was applied.
    pub waits_before: Option<String>,
    /// Until when its Deployments have to be available; none where nobody asked for it, and once they were.
    pub healthy_by: Option<Timestamp>,
    /// Why it failed.
    pub why: Option<String>,
    /// On a revision that leads back to an earlier one: what it leads away from.
    pub rolled_back: Option<RolledBack>,
    /// On an attempt that was never finished since another one was made: the number of the revision that counts instead.
    pub overtaken_by: Option<u32>,
}

/// What was rolled back, so that it is not tried again before somebody changes something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RolledBack {
    /// The revision's number.
    pub from: u32,
    /// Its bundle.
    pub bundle: String,
    /// The digest of its manifests.
    pub digest: String,
    /// The extension's generation at that time.
    pub generation: i64,
    /// How long it was given, as the extension says it.
    pub within: String,
    /// What the condition says since then.
    pub message: String,
}

/// Annotations that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// A time.
    #[error("annotation {key} is no time: {source}")]
    Time {
        /// The annotation.
        key: &'static str,
        /// Why.
        source: jiff::Error,
    },
    /// The revision that was rolled back.
    #[error("annotation {ROLLED_BACK} cannot be read: {0}")]
    RolledBack(serde_json::Error),
    /// The revision that counts instead.
    #[error("annotation {OVERTAKEN_BY} is no revision: {0}")]
    OvertakenBy(std::num::ParseIntError),
}

impl Notes {
    /// Reads them from the annotations of the object that keeps the revision, which was made at `begun`.
    pub fn read(annotations: &BTreeMap<String, String>, begun: Option<Timestamp>) -> Result<Self, NotesError> {
        let text = |key: &str| annotations.get(key);
        let time = |key: &'static str| {
            text(key).map(|text| text.parse::<Timestamp>().map_err(|source| NotesError::Time { key, source })).transpose()
        };
        let rolled_back = text(ROLLED_BACK).map(|text| serde_json::from_str(text).map_err(NotesError::RolledBack)).transpose()?;
        let overtaken_by = text(OVERTAKEN_BY).map(|text| text.parse().map_err(NotesError::OvertakenBy)).transpose()?;
        Ok(Self {
            begun,
            applied: time(APPLIED)?,
            waits_before: text(WAITS).cloned(),
            healthy_by: time(HEALTHY_BY)?,
            why: text(WHY).cloned(),
            rolled_back,
            overtaken_by,
        })
    }

    /// The annotations that say them.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let all = [
            (APPLIED, self.applied.map(|time| time.to_string())),
            (WAITS, self.waits_before.clone()),
            (HEALTHY_BY, self.healthy_by.map(|time| time.to_string())),
            (WHY, self.why.clone()),
            // Texts and numbers: that cannot fail.
            (ROLLED_BACK, self.rolled_back.as_ref().and_then(|back| serde_json::to_string(back).ok())),
            (OVERTAKEN_BY, self.overtaken_by.map(|number| number.to_string())),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// All annotations, for a merge patch: those without a value are removed.
    pub fn patch(&self) -> Value {
        let mut all: Map<String, Value> =
            [APPLIED, WAITS, HEALTHY_BY, WHY, ROLLED_BACK, OVERTAKEN_BY].into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
        all.extend(self.annotations().into_iter().map(|(key, value)| (key, Value::String(value))));
        Value::Object(all)
    }
}

/// The beginning of an explanation, as long as is kept.
pub fn brief(text: &str) -> String {
    let mut end = text.len().min(WHY_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
