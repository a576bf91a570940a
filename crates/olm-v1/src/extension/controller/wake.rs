//! The changes that wake an extension (OLM1-CTRL-08).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use mainstay_runtime::{Cache, Change, Key};
use serde_json::Value;

/// Returns true if a change wakes the extension. A change of the status alone is the controller's own and does not.
pub(super) fn wakes(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return true };
    let (old, new) = (&before.metadata, &now.metadata);
    old.generation != new.generation
        || old.annotations != new.annotations
        || old.labels != new.labels
        || old.finalizers != new.finalizers
        || old.deletion_timestamp != new.deletion_timestamp
}

/// Returns true if a change concerns extensions that resolve together: a change of the request or of what is installed.
pub(super) fn peers_wake(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return true };
    let installed = |object: &kube::api::DynamicObject| object.data.pointer("/status/install").cloned();
    wakes(change) || installed(before) != installed(now)
}

/// The extensions that report a retry. Roles change often, and most extensions wait for none of them.
#[derive(Clone, Default)]
pub(super) struct Retrying(Arc<Mutex<BTreeSet<Key>>>);

impl Retrying {
    pub(super) fn follow(cache: &Cache) -> Self {
        let retrying = Self::default();
        let known = retrying.clone();
        cache.on_change(move |change| {
            let Some(object) = change.object() else { return };
            let (key, mut keys) = (Key::of(object), known.0.lock().unwrap_or_else(PoisonError::into_inner));
            if change.now.as_deref().is_some_and(retries) {
                keys.insert(key);
            } else {
                keys.remove(&key);
            }
        });
        retrying
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

fn retries(extension: &kube::api::DynamicObject) -> bool {
    let conditions = extension.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| all.iter().any(|each| each["type"] == "Progressing" && each["reason"] == "Retrying"))
}

/// Returns true if a change of a catalog wakes extensions (OLM1-CTRL-08): every change but one between two equal resolved images. Labels and priority
/// affect the choice too, and so does the serving state.
pub(super) fn catalog_wakes(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return true };
    let facts = |object: &kube::api::DynamicObject| {
        let part = |pointer: &str| object.data.pointer(pointer).cloned().unwrap_or_default();
        let serving = part("/status/conditions")
            .as_array()
            .and_then(|all| all.iter().find(|each| each["type"] == "Serving").map(|each| each["status"].clone()));
        (part("/status/resolvedSource/image/ref"), part("/spec"), object.metadata.labels.clone(), serving)
    };
    facts(before) != facts(now)
}
