//! The next step of a machine.

use std::time::Duration;

use mainstay_schema::field::{Error, Path};
use serde_json::{Value, json};

use super::FINALIZER;
use crate::condition;
use crate::machine::{CLUSTER_LABEL, DRAINED, Machine, phase};

/// The wait until a machine is looked at again while something outside is awaited.
pub const REQUEUE: Duration = Duration::from_secs(30);

/// The step before the provider is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Begin {
    /// The machine cannot be worked on.
    Invalid(Vec<Error>),
    /// The finalizer is added; nothing is made before.
    AddFinalizer,
    /// The machine is being deleted.
    Delete(Deletion),
    /// Nothing, ever: it failed.
    Failed,
    /// The provider is asked whether the instance exists.
    Ask,
}

/// The step of a machine that is being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// Nothing is left to do.
    Released,
    /// The node is not drained yet; the drain controller works on it, or hooks hold it up.
    WaitForDrain,
    /// Hooks hold up the removal of the instance.
    WaitForHooks,
    /// The instance is removed, then the node, then the finalizer.
    Remove,
}

/// The step once it is known whether the instance exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It exists: the provider brings it up to date and tells what is known of it.
    Update,
    /// It existed once: the machine fails, and nothing is made again.
    Lost,
    /// It is to be made, which the machine says first.
    Announce,
    /// It is made.
    Create,
}

/// Decides what is done before the provider is asked. `object` is the machine itself.
pub fn begin(machine: &Machine, object: &Value) -> Begin {
    let errors = validate(machine, object);
    if !errors.is_empty() {
        return Begin::Invalid(errors);
    }
    let has_finalizer = machine.finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    if machine.deleting {
        return Begin::Delete(match has_finalizer {
            false => Deletion::Released,
            true if !condition::is_true(&machine.conditions, DRAINED) => Deletion::WaitForDrain,
            true if !machine.hooks.pre_terminate.is_empty() => Deletion::WaitForHooks,
            true => Deletion::Remove,
        });
    }
    if !has_finalizer {
        return Begin::AddFinalizer;
    }
    if machine.is_in(phase::FAILED) { Begin::Failed } else { Begin::Ask }
}

/// Decides with the provider's answer.
pub fn next(machine: &Machine, exists: bool) -> Next {
    match (exists, machine.is_provisioned(), machine.phase.as_deref().unwrap_or_default()) {
        (true, _, _) => Next::Update,
        (false, true, _) => Next::Lost,
        (false, false, "") => Next::Announce,
        (false, false, _) => Next::Create,
    }
}

/// Returns the phase of a machine whose instance exists, and when it is looked at again. Without a name or an address of the instance the
/// phase stays.
pub fn after(machine: &Machine) -> (Option<&'static str>, Option<Duration>) {
    match (machine.is_provisioned(), machine.node.is_some()) {
        (false, _) => (None, Some(REQUEUE)),
        (true, false) => (Some(phase::PROVISIONED), Some(REQUEUE)),
        (true, true) => (Some(phase::RUNNING), None),
    }
}

/// The rules that every machine must keep (MACH-API-08).
fn validate(machine: &Machine, object: &Value) -> Vec<Error> {
    let spec = Path::new("spec");
    let mut errors = Vec::new();
    if machine.labels.get(CLUSTER_LABEL).is_none_or(String::is_empty) {
        let detail = format!("missing {CLUSTER_LABEL} label.");
        errors.push(Error::invalid(&spec.child("labels"), json!(machine.labels), detail));
    }
    let provider_spec = object.pointer("/spec/providerSpec").cloned().unwrap_or_else(|| json!({}));
    if provider_spec.get("value").is_none_or(Value::is_null) {
        errors.push(Error::invalid(&spec.children(&["spec", "providerspec"]), provider_spec, "value field must be set"));
    }
    errors
}
