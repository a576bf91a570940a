//! A live copy of an optional kind, which comes and goes with its CRD.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::metrics::Metrics;
use crate::{Cache, Scope};

/// A follower of a CRD and, while its kind is served, of the kind's objects. Clones share it.
#[derive(Clone)]
pub struct Optional {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    resource: ApiResource,
    definition: Cache,
    objects: Mutex<Option<RunningCache>>,
    changed: Arc<dyn Fn() + Send + Sync>,
    metrics: OnceLock<Arc<Metrics>>,
    stop: CancellationToken,
}

struct RunningCache {
    cache: Cache,
    _stop: DropGuard,
}

impl fmt::Debug for Optional {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Optional").field("kind", &self.inner.resource.kind).finish_non_exhaustive()
    }
}

impl Optional {
    /// Starts to follow. `changed` is called for every change of the CRD and of the objects, and when either is first known. It must lead to a call
    /// of [`objects`](Self::objects) soon, since that call starts the copy of a new kind.
    pub fn start(client: &Client, resource: ApiResource, stop: &CancellationToken, changed: impl Fn() + Send + Sync + 'static) -> Self {
        let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let scope = Scope { fields: Some(format!("metadata.name={}.{}", resource.plural, resource.group)), ..Scope::default() };
        let changed: Arc<dyn Fn() + Send + Sync> = Arc::new(changed);
        let definition = Cache::start(client, &ApiResource::from_gvk_with_plural(&gvk, "customresourcedefinitions"), &scope, stop);
        tell(&definition, &changed, stop);
        let (client, stop) = (client.clone(), stop.clone());
        Self { inner: Arc::new(Inner { client, resource, definition, objects: Mutex::default(), changed, metrics: OnceLock::new(), stop }) }
    }

    /// Adds the number of objects to the page of metrics while there is a copy (MS-OPS-01).
    #[must_use]
    pub fn shown(self, metrics: &Arc<Metrics>) -> Self {
        let held = self.inner.objects.lock().unwrap_or_else(PoisonError::into_inner);
        // The metrics are set once: later calls have no effect.
        if self.inner.metrics.set(metrics.clone()).is_ok()
            && let Some(held) = &*held
        {
            held.cache.show(metrics);
        }
        drop(held);
        self
    }

    /// Returns the cache of the objects; `None` while the kind is not served or is unknown yet.
    pub fn objects(&self) -> Option<Cache> {
        let Inner { client, resource, definition, objects, changed, metrics, stop } = &*self.inner;
        let served = definition.all().iter().any(|definition| is_served_by(&definition.data, &resource.version));
        let mut held = objects.lock().unwrap_or_else(PoisonError::into_inner);
        if !served {
            *held = None;
            return None;
        }
        let start = || {
            let stop = stop.child_token();
            let cache = Cache::start(client, resource, &Scope::default(), &stop);
            tell(&cache, changed, &stop);
            if let Some(metrics) = metrics.get() {
                cache.show(metrics);
            }
            RunningCache { cache, _stop: stop.drop_guard() }
        };
        Some(held.get_or_insert_with(start).cache.clone())
    }

    /// Returns true if it is known that the kind is not served, or if the first list of its objects is complete.
    pub fn is_known(&self) -> bool {
        self.inner.definition.is_ready() && self.objects().is_none_or(|objects| objects.is_ready())
    }

    /// Returns the object of a name, for a kind without namespaces.
    pub fn named(&self, name: &str) -> Option<Arc<DynamicObject>> {
        self.objects()?.get(&crate::Key::new("", name))
    }
}

/// Returns true if a CRD is established and serves the version.
fn is_served_by(definition: &Value, version: &str) -> bool {
    let all = |pointer: &str| definition.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let established = all("/status/conditions").iter().any(|each| each["type"] == "Established" && each["status"] == "True");
    established && all("/spec/versions").iter().any(|each| each["name"] == version && each["served"] == true)
}

/// Calls `changed` when the first list is complete, even if it is empty, and for every change.
fn tell(cache: &Cache, changed: &Arc<dyn Fn() + Send + Sync>, stop: &CancellationToken) {
    let each = changed.clone();
    cache.on_change(move |_| each());
    let (cache, changed, stop) = (cache.clone(), changed.clone(), stop.clone());
    tokio::spawn(async move {
        if stop.run_until_cancelled(cache.ready()).await.is_some() {
            changed();
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_is_served_by_an_established_definition_in_the_version_that_is_read() {
        let definition = |status: &str, version: &str, served: bool| {
            json!({"spec": {"versions": [{"name": version, "served": served}]},
                "status": {"conditions": [{"type": "Established", "status": status}]}})
        };
        assert!(is_served_by(&definition("True", "v1", true), "v1"));
        for refused in [definition("False", "v1", true), definition("True", "v1", false), definition("True", "v2", true), json!({})] {
            assert!(!is_served_by(&refused, "v1"), "{refused}");
        }
    }
}
