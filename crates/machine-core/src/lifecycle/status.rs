//! The status of a machine.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::UNKNOWN_STATE;
use crate::condition::{self, Condition};
use crate::hooks::LifecycleHooks;
use crate::machine::{Address, phase};

/// A terminal error (MACH-API-07).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason, if it is one of the known ones.
    pub reason: Option<&'static str>,
    /// The message.
    pub message: String,
}

/// A provider's account of an instance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instance {
    /// Its name at the provider.
    pub provider_id: Option<String>,
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// Its state, in the provider's words.
    pub state: Option<String>,
    /// Its size.
    pub instance_type: Option<String>,
    /// Its region.
    pub region: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Further details from the provider.
    pub provider_status: Option<Value>,
    /// True if it is simulated.
    pub simulated: bool,
}

/// A change of a machine's status.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusChange<'a> {
    /// The phase; `None` leaves it.
    pub phase: Option<&'a str>,
    /// Conditions to set, besides those of hooks.
    pub conditions: Vec<Condition>,
    /// The terminal error of a machine that fails; any other machine has none.
    pub failure: Option<&'a Failure>,
    /// The provider's account.
    pub instance: Option<&'a Instance>,
}

/// Returns the status that a machine is to have. The conditions of its hooks are always brought up to date; `lastUpdated` is a new time only
/// if something else changes.
pub fn status(object: &Value, change: &StatusChange<'_>, now: Timestamp) -> Value {
    let before = object.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut status = before.clone();
    let hooks = object.pointer("/spec/lifecycleHooks").map(LifecycleHooks::of).unwrap_or_default();
    let mut conditions = Condition::all_of(object);
    for wanted in hooks.conditions().into_iter().chain(change.conditions.iter().cloned()) {
        condition::set(&mut conditions, wanted, now);
    }
    status.insert("conditions".into(), conditions.iter().map(Condition::to_value).collect());
    if let Some(phase) = change.phase {
        status.insert("phase".into(), json!(phase));
    }
    if let Some(instance) = change.instance {
        tell(&mut status, instance);
    }
    status.remove("errorReason");
    status.remove("errorMessage");
    if let Some(failure) = change.failure {
        if let Some(reason) = failure.reason {
            status.insert("errorReason".into(), json!(reason));
        }
        status.insert("errorMessage".into(), json!(failure.message));
    }
    if change.phase == Some(phase::FAILED) {
        lose_state(&mut status);
    }
    if status != before {
        status.insert("lastUpdated".into(), json!(format!("{now:.0}")));
    }
    Value::Object(status)
}

/// Writes what the provider told.
fn tell(status: &mut Map<String, Value>, instance: &Instance) {
    if !instance.addresses.is_empty() {
        let addresses = instance.addresses.iter().map(|address| json!({"type": address.kind, "address": address.address}));
        status.insert("addresses".into(), addresses.collect());
    }
    if let Some(told) = &instance.provider_status {
        status.insert("providerStatus".into(), told.clone());
    }
}

/// Of a machine that failed, nothing is known of its instance any more.
fn lose_state(status: &mut Map<String, Value>) {
    let Some(Value::Object(told)) = status.get_mut("providerStatus") else { return };
    for field in ["instanceState", "vmState"] {
        if told.get(field).is_some_and(Value::is_string) {
            told.insert(field.to_owned(), json!(UNKNOWN_STATE));
        }
    }
}
