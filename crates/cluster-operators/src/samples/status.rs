//! The status of `Config/cluster`: what of the configuration was processed, and the conditions by name (COP-13).

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The fields of the spec that the status repeats once they are processed.
const PROCESSED: [&str; 4] = ["samplesRegistry", "architectures", "skippedImagestreams", "skippedTemplates"];

/// The state of the samples.
#[allow(clippy::struct_excessive_bools, reason = "each is a condition of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The version that the samples are at once all is done; `None` keeps the one that is there.
    pub version: Option<String>,
    /// The management state that is in force.
    pub management: String,
    /// True if the configuration was processed.
    pub is_processed: bool,
    /// True if all samples exist.
    pub exist: bool,
    /// Why the configuration is not valid.
    pub invalid: Option<String>,
    /// True if the credentials of the registry exist.
    pub has_credentials: bool,
    /// True if samples are being written.
    pub is_writing: bool,
    /// True if samples are being removed.
    pub is_removing: bool,
    /// True if the samples go to another release.
    pub is_migrating: bool,
}

/// Returns the status that `config` is to have. Times move with the state of a condition alone.
pub fn status(config: &Value, state: &State, now: Timestamp) -> Value {
    let mut status = config.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    status.insert("managementState".to_owned(), json!(state.management));
    if let Some(version) = &state.version {
        status.insert("version".to_owned(), json!(version));
    }
    if state.is_processed {
        for field in PROCESSED {
            match config["spec"].get(field) {
                Some(value) => status.insert(field.to_owned(), value.clone()),
                None => status.remove(field),
            };
        }
    }
    let mut conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let no_import = "simulated: images are not imported, so that no import can fail";
    let wanted = [
        ("ConfigurationValid", state.invalid.is_none(), state.invalid.as_deref().map_or(("", ""), |why| ("InvalidConfiguration", why))),
        ("ImportCredentialsExist", state.has_credentials, ("", "")),
        ("SamplesExist", state.exist, ("", "")),
        ("ImageChangesInProgress", state.is_writing, ("", "")),
        ("RemovePending", state.is_removing, ("", "")),
        ("MigrationInProgress", state.is_migrating, ("", "")),
        ("ImportImageErrorsExist", false, ("Simulated", no_import)),
    ];
    for (kind, holds, (reason, message)) in wanted {
        set(&mut conditions, kind, holds, reason, message, now);
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
    Value::Object(status)
}

fn set(conditions: &mut Vec<Value>, kind: &str, holds: bool, reason: &str, message: &str, now: Timestamp) {
    let state = if holds { "True" } else { "False" };
    let old = conditions.iter().position(|each| each["type"] == kind);
    let kept = old.map(|at| &conditions[at]).filter(|old| old["status"] == state);
    let time = |field: &str| kept.and_then(|old| old[field].as_str()).map_or_else(|| now.to_string(), str::to_owned);
    let mut condition = Map::from_iter([
        ("type".to_owned(), json!(kind)),
        ("status".to_owned(), json!(state)),
        ("lastTransitionTime".to_owned(), json!(time("lastTransitionTime"))),
        ("lastUpdateTime".to_owned(), json!(time("lastUpdateTime"))),
    ]);
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition.insert(field.to_owned(), json!(text));
        }
    }
    match old {
        Some(at) => conditions[at] = Value::Object(condition),
        None => conditions.push(Value::Object(condition)),
    }
}
