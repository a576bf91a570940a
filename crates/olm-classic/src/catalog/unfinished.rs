//! InstallPlans that are not over: the plans themselves are held packed, and few of them are at work at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::api::DynamicObject;
use mainstay_runtime::{Cache, Key};
use serde_json::Value;

/// The plans that are under way, and those that may be tried again. Clones share them.
#[derive(Clone, Default)]
pub struct Unfinished {
    plans: Arc<Mutex<BTreeMap<Key, Entry>>>,
}

/// A plan that is not over for good.
struct Entry {
    /// The images of bundles that it still needs; none once it failed.
    images: BTreeSet<String>,
    /// True if more permissions of its account may let it go on.
    waits: bool,
}

impl Unfinished {
    /// Follows a copy of InstallPlans.
    pub fn follow(plans: &Cache) -> Self {
        let unfinished = Self::default();
        let told = unfinished.clone();
        plans.on_change(move |change| {
            let Some(last) = change.object() else { return };
            match change.now.as_deref().and_then(Entry::of) {
                Some(entry) => drop(told.lock().insert(Key::of(last), entry)),
                None => drop(told.lock().remove(&Key::of(last))),
            }
        });
        unfinished
    }

    /// Returns the plans of a namespace that more permissions may let go on.
    pub fn waiting(&self, namespace: &str) -> Vec<Key> {
        let plans = self.lock();
        let all = plans.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        all.filter(|(_, entry)| entry.waits).map(|(key, _)| key.clone()).collect()
    }

    /// Returns whether a plan other than `but` needs the image.
    pub fn needs(&self, image: &str, but: &Key) -> bool {
        self.lock().iter().any(|(key, entry)| key != but && entry.images.contains(image))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn of(plan: &DynamicObject) -> Option<Self> {
        let status = &plan.data["status"];
        let waits = match status["phase"].as_str() {
            Some("Complete") => return None,
            Some("Failed") => {
                return status["attenuatedServiceAccountRef"].is_object().then(|| Self { images: BTreeSet::new(), waits: true });
            }
            phase => phase.is_some(),
        };
        Some(Self { images: images(status).collect(), waits })
    }
}

/// Returns the images of the bundles that a plan's status names.
pub fn images(status: &Value) -> impl Iterator<Item = String> {
    status["bundleLookups"].as_array().into_iter().flatten().filter_map(|lookup| lookup["path"].as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    /// OLM0-IP-08, OLM0-CAT-30: which plans go on with more permissions, and which need what was unpacked.
    #[test]
    fn entries() {
        let entry = |status: Value| {
            let object: DynamicObject = serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap();
            Entry::of(&object).map(|entry| (entry.images.into_iter().collect::<Vec<_>>().join(" "), entry.waits))
        };
        let lookups = json!([{"path": "i"}, {"path": "h"}, {"identifier": "none"}]);
        for (status, expected) in [
            (json!({}), Some(("", false))),
            (json!({"phase": "Installing", "bundleLookups": lookups}), Some(("h i", true))),
            (json!({"phase": "RequiresApproval"}), Some(("", true))),
            (json!({"phase": "Complete", "bundleLookups": lookups}), None),
            (json!({"phase": "Failed", "bundleLookups": lookups}), None),
            (json!({"phase": "Failed", "bundleLookups": lookups, "attenuatedServiceAccountRef": {"name": "a"}}), Some(("", true))),
        ] {
            let found = entry(status.clone());
            assert_eq!(found.as_ref().map(|(images, waits)| (images.as_str(), *waits)), expected, "{status}");
        }
    }
}
