//! The outcome of a revision, in annotations: they change while the record stays as it was written.

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
/// Maximum length of an explanation in bytes; the condition has the full text.
const WHY_BYTES: usize = 4_096;

/// The outcome of a revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// The time when it was begun.
    pub begun: Option<Timestamp>,
    /// The time when its objects were applied, all or up to the phase that waits.
    pub applied: Option<Timestamp>,
    /// The phase that has not begun because the objects that it needs are not healthy; all earlier phases were applied.
    pub waits_before: Option<String>,
    /// The time by which its Deployments have to be available; none if no limit is set, and once they were available.
    pub healthy_by: Option<Timestamp>,
    /// The reason for its failure.
    pub why: Option<String>,
    /// The revision that was rolled back, if this revision leads back to an earlier one.
    pub rolled_back: Option<RolledBack>,
    /// The number of the revision that replaced this attempt before it was completed.
    pub overtaken_by: Option<u32>,
}

/// A revision that was rolled back, so that it is not tried again before its settings change.
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
    /// The time that it had, as written in the annotation.
    pub within: String,
    /// The condition's message since then.
    pub message: String,
}

/// Annotations that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// An annotation is not a valid time.
    #[error("annotation {key} is no time: {source}")]
    Time {
        /// The annotation.
        key: &'static str,
        /// The parse error.
        source: jiff::Error,
    },
    /// The annotation about the revision that was rolled back cannot be parsed.
    #[error("annotation {ROLLED_BACK} cannot be read: {0}")]
    RolledBack(serde_json::Error),
    /// The annotation about the revision that replaced this one is not a number.
    #[error("annotation {OVERTAKEN_BY} is no revision: {0}")]
    OvertakenBy(std::num::ParseIntError),
}

impl Notes {
    /// Reads the notes from the annotations of the object that keeps the revision. That object was created at `begun`.
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

    /// Returns the annotations that represent the notes.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let all = [
            (APPLIED, self.applied.map(|time| time.to_string())),
            (WAITS, self.waits_before.clone()),
            (HEALTHY_BY, self.healthy_by.map(|time| time.to_string())),
            (WHY, self.why.clone()),
            // Texts and numbers only: serialization cannot fail.
            (ROLLED_BACK, self.rolled_back.as_ref().and_then(|back| serde_json::to_string(back).ok())),
            (OVERTAKEN_BY, self.overtaken_by.map(|number| number.to_string())),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// Returns all annotations for a merge patch: those without a value are removed.
    pub fn patch(&self) -> Value {
        let mut all: Map<String, Value> =
            [APPLIED, WAITS, HEALTHY_BY, WHY, ROLLED_BACK, OVERTAKEN_BY].into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
        all.extend(self.annotations().into_iter().map(|(key, value)| (key, Value::String(value))));
        Value::Object(all)
    }
}

/// Returns the beginning of an explanation, up to the maximum length.
pub fn brief(text: &str) -> String {
    let mut end = text.len().min(WHY_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}
