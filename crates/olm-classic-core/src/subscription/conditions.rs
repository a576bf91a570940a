//! Conditions of Subscriptions, which have times of their own and no generation (OLM0-API-18).

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::catalog_source::time;

/// The conditions that end with a resolution that succeeded.
pub const CLEARED_BY_SUCCESS: [&str; 3] = ["ResolutionFailed", "BundleUnpacking", "BundleUnpackFailed"];

/// A condition to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition<'a> {
    /// Its type.
    pub kind: &'a str,
    /// Its reason; empty for none.
    pub reason: &'a str,
    /// Its message; empty for none.
    pub message: &'a str,
    /// Its status: true or false.
    pub holds: bool,
}

/// The condition of a type.
pub(super) fn find<'v>(status: &'v Value, kind: &str) -> Option<&'v Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == *kind)
}

/// Sets a condition in its place, or at the end. One that says the same keeps its time.
pub fn set_condition(status: &mut Value, wanted: &Condition<'_>, now: Timestamp) {
    let mut next = json!({
        "type": wanted.kind, "status": if wanted.holds { "True" } else { "False" }, "lastTransitionTime": time(now),
    });
    for (field, text) in [("reason", wanted.reason), ("message", wanted.message)] {
        if !text.is_empty() {
            next[field] = json!(text);
        }
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == wanted.kind) {
        None => conditions.push(next),
        Some(present) if ["status", "reason", "message"].into_iter().all(|field| present[field] == next[field]) => {}
        Some(present) => *present = next,
    }
}

/// Removes a condition.
pub fn remove_condition(status: &mut Value, kind: &str) {
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != *kind);
    }
}
