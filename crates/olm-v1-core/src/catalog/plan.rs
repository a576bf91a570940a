//! The decision for a catalog, and the time of its next poll (OLM1-CAT-05).

use jiff::{SignedDuration, Timestamp};
use mainstay_api::olm_v1::{AvailabilityMode, ClusterCatalog};

/// The finalizer of OLM1-CAT-04.
pub const FINALIZER: &str = "olm.operatorframework.io/delete-server-cache";

/// The stored content of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The image by digest.
    pub resolved: String,
    /// The reference that was unpacked.
    pub reference: String,
    /// The generation that was unpacked.
    pub generation: i64,
    /// The time of the last successful poll of the tag.
    pub polled: Timestamp,
}

/// The decision for a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Add the finalizer, and nothing else.
    AddFinalizer,
    /// Delete the content, then remove the finalizer.
    Finalize,
    /// Delete the content because the user disabled the catalog, then remove the finalizer (OLM1-CAT-08).
    Disable,
    /// Resolve the reference, and unpack its image unless that is stored already.
    Unpack {
        /// The reference.
        reference: String,
        /// The reason for doing it now.
        reason: &'static str,
    },
    /// Update the address in the status: the stored content is right, but it is served under another address now.
    Readdress,
    /// Keep the content, and poll after this time; never if polling is off.
    Keep(Option<SignedDuration>),
}

/// Decides for a catalog. `stored` is `None` if nothing is served for it, `base` is the address under which it is served, and `jitter` a
/// random percentage of the poll interval, from 0 to 1.
pub fn plan(catalog: &ClusterCatalog, stored: Option<&Stored>, base: &str, now: Timestamp, jitter: f64) -> Plan {
    let finalized = catalog.metadata.finalizers.as_ref().is_some_and(|all| all.iter().any(|name| name == FINALIZER));
    if catalog.metadata.deletion_timestamp.is_some() {
        return Plan::Finalize;
    }
    if catalog.spec.availability_mode == AvailabilityMode::Unavailable {
        return Plan::Disable;
    }
    if !finalized {
        return Plan::AddFinalizer;
    }
    let Some(image) = &catalog.spec.source.image else { return Plan::Keep(None) };
    let unpack = |reason| Plan::Unpack { reference: image.reference.clone(), reason };
    let Some(stored) = stored else { return unpack("nothing is stored for it") };
    let resolved = catalog.status.as_ref().and_then(|status| status.resolved_source.as_ref()).map(|source| source.image.reference.as_str());
    if stored.reference != image.reference || Some(stored.generation) != catalog.metadata.generation {
        return unpack("its spec has changed");
    }
    if resolved != Some(stored.resolved.as_str()) {
        return unpack("its status is not that of what is stored");
    }
    let named = catalog.status.as_ref().and_then(|status| status.urls.as_ref()).map(|urls| urls.base.as_str());
    if named != Some(base) {
        return Plan::Readdress;
    }
    let Some(minutes) = image.poll_interval_minutes else { return Plan::Keep(None) };
    let interval = SignedDuration::from_mins(minutes);
    let due = stored.polled.checked_add(interval).unwrap_or(Timestamp::MAX);
    if due <= now {
        return unpack("the poll interval has passed");
    }
    // Otherwise it would not be polled before the clock has caught up.
    if stored.polled > now {
        return unpack("it was polled by a clock that was set back since");
    }
    Plan::Keep(Some(due.duration_since(now) + interval.mul_f64(jitter / 100.0)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn catalog(change: &serde_json::Value) -> ClusterCatalog {
        let mut object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog",
            "metadata": {"name": "c", "generation": 1, "finalizers": [FINALIZER]},
            "spec": {"source": {"type": "Image", "image": {"ref": "r.test/c:v1", "pollIntervalMinutes": 10}}},
            "status": {"resolvedSource": {"type": "Image", "image": {"ref": "r.test/c@sha256:1"}},
                "urls": {"base": "https://here/catalogs/c"}},
        });
        mainstay_merge::merge_patch(&mut object, change);
        serde_json::from_value(object).unwrap()
    }

    /// OLM1-CAT-04, OLM1-CAT-05, OLM1-CAT-09: when a catalog is unpacked, polled, disabled and cleaned up.
    #[test]
    fn a_catalog_is_unpacked_when_something_says_so() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let ago = |minutes| now - SignedDuration::from_mins(minutes);
        let stored = |polled| Stored { resolved: "r.test/c@sha256:1".into(), reference: "r.test/c:v1".into(), generation: 1, polled };
        let unpack = |reason| Plan::Unpack { reference: "r.test/c:v1".into(), reason };
        let ask = |change, stored: Option<Stored>| plan(&catalog(&change), stored.as_ref(), "https://here/catalogs/c", now, 1.0);
        assert_eq!(ask(json!({}), None), unpack("nothing is stored for it"));
        assert_eq!(ask(json!({}), Some(stored(ago(4)))), Plan::Keep(Some(SignedDuration::from_secs(6 * 60 + 6))));
        assert_eq!(ask(json!({}), Some(stored(ago(10)))), unpack("the poll interval has passed"));
        assert_eq!(ask(json!({}), Some(stored(ago(-9)))), unpack("it was polled by a clock that was set back since"));
        assert_eq!(ask(json!({"metadata": {"generation": 2}}), Some(stored(ago(1)))), unpack("its spec has changed"));
        assert_eq!(ask(json!({"status": null}), Some(stored(ago(1)))), unpack("its status is not that of what is stored"));
        assert_eq!(ask(json!({"spec": {"source": {"image": {"pollIntervalMinutes": null}}}}), Some(stored(ago(99)))), Plan::Keep(None));
        assert_eq!(ask(json!({"status": {"urls": {"base": "https://there/catalogs/c"}}}), Some(stored(ago(1)))), Plan::Readdress);
        assert_eq!(ask(json!({"metadata": {"finalizers": null}}), None), Plan::AddFinalizer);
        assert_eq!(ask(json!({"spec": {"availabilityMode": "Unavailable"}}), None), Plan::Disable);
        assert_eq!(ask(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), None), Plan::Finalize);
    }
}
