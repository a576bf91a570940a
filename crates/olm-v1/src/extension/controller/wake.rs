//! Which changes wake an extension (OLM1-CTRL-08).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use mainstay_runtime::{Cache, Change, Key};
use serde_json::Value;

/// A change of the status alone is the controller's own, and wakes nobody.
pub(super) fn wakes(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return true };
    let (old, new) = (&before.metadata, &now.metadata);
    old.generation != new.generation
        || old.annotations != new.annotations
        || old.labels != new.labels
        || old.finalizers != new.finalizers
        || old.deletion_timestamp != new.deletion_timestamp
}

/// What extensions that resolve together look at in each other: what is wanted, and what is installed.
pub(super) fn peers_wake(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return true };
    let installed = |object: &kube::api::DynamicObject| object.data.pointer("/status/install").cloned();
    wakes(change) || installed(before) != installed(now)
}

/// The extensions that say that they try again. Roles change often, and thousands of extensions wait for none of them.
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

/// OLM1-CTRL-08: every change of a catalog but one between two equal resolved images. Labels and priority decide the choice too, and so
/// does whether the catalog serves.
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
