//! The versions of objects that were written, which the copies may not show yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mainstay_objects::{ObjectRef, meta};
use mainstay_runtime::Key;
use serde_json::Value;

/// The versions that were written, by object of one kind.
#[derive(Default)]
pub struct Versions(Mutex<HashMap<Key, u64>>);

impl Versions {
    /// Notes the version of an object that was written.
    pub fn note(&self, object: &Value) {
        if let (Some(version), Ok(place)) = (version(object), ObjectRef::of(object)) {
            self.known().insert(Key::new(place.namespace, place.name), version);
        }
    }

    /// Returns whether a copy is older than what was written: a decision on it would be made twice.
    pub fn lag(&self, objects: &[Value]) -> bool {
        let mut known = self.known();
        let mut lags = false;
        for object in objects {
            let Ok(place) = ObjectRef::of(object) else { continue };
            let key = Key::new(place.namespace, place.name);
            match (known.get(&key), version(object)) {
                (Some(written), Some(version)) if version < *written => lags = true,
                (Some(_), _) => drop(known.remove(&key)),
                (None, _) => {}
            }
        }
        lags
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &Key) {
        self.known().remove(key);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version(object: &Value) -> Option<u64> {
    meta(object, "resourceVersion")?.parse().ok()
}
