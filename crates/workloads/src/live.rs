//! A live copy of one kind, together with the writes to it. A write returns once the copy shows it, so that the next decision does not
//! rest on a state without it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Cache, Key, Scope, Served};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, Delete, Patch};
use crate::{Error, Result};

/// The time that a write waits until the copy shows it. The copy never shows an object that another client deleted at once. Nothing is lost
/// then, because the deletion wakes the controllers that it concerns.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// The live copy of one kind, and the writes to it. Clones share it.
#[derive(Clone)]
pub struct Live {
    inner: Arc<Inner>,
    api: Api,
}

struct Inner {
    served: Served,
    cache: Cache,
    changed: watch::Sender<()>,
}

impl Deref for Live {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        &self.inner.cache
    }
}

impl Live {
    /// Starts to follow a kind.
    pub fn start(api: &Api, served: Served, scope: &Scope, stop: &CancellationToken) -> Self {
        let cache = Cache::start(api.client(), &served.resource, scope, stop);
        let changed = watch::Sender::new(());
        let told = changed.clone();
        cache.on_change(move |_| {
            told.send_replace(());
        });
        Self { inner: Arc::new(Inner { served, cache, changed }), api: api.clone() }
    }

    /// Returns the same copy with writes by another component.
    #[must_use]
    pub fn written_by(&self, api: &Api) -> Self {
        Self { inner: self.inner.clone(), api: api.clone() }
    }

    /// Returns the kind.
    pub fn served(&self) -> &Served {
        &self.inner.served
    }

    /// Returns the requests of any kind.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Creates an object.
    pub async fn create(&self, namespace: &str, body: &Value) -> Result<DynamicObject> {
        let mut body = body.clone();
        self.name_kind(&mut body);
        let made = self.api.create(&self.inner.served, namespace, &body).await?;
        self.seen(made).await
    }

    /// Patches an object or its subresource (empty for none).
    pub async fn patch(&self, key: &Key, subresource: &str, patch: &Patch) -> Result<DynamicObject> {
        let written = self.api.patch(&self.inner.served, key, subresource, patch).await?;
        self.seen(written).await
    }

    /// Writes the status of an object, which must be unchanged since it was read.
    pub async fn write_status(&self, object: &DynamicObject, status: &Value) -> Result<DynamicObject> {
        let mut body = self.value(object);
        body["status"] = status.clone();
        let written = self.api.replace(&self.inner.served, &Key::of(object), "status", &body).await?;
        self.seen(written).await
    }

    /// Replaces an object, which must be unchanged since it was read.
    pub async fn replace(&self, body: &Value, key: &Key) -> Result<DynamicObject> {
        let mut body = body.clone();
        self.name_kind(&mut body);
        let written = self.api.replace(&self.inner.served, key, "", &body).await?;
        self.seen(written).await
    }

    /// Deletes an object; `false` if it was not found.
    pub async fn delete(&self, key: &Key, options: &Delete) -> Result<bool> {
        let there = self.api.delete(&self.inner.served, key, options).await?;
        let uid = options.uid.clone();
        self.until(|cache| {
            cache.get(key).is_none_or(|object| {
                let other = uid.is_some() && object.metadata.uid != uid;
                other || object.metadata.deletion_timestamp.is_some()
            })
        })
        .await;
        Ok(there)
    }

    /// Returns the object as JSON, with its kind.
    pub fn value(&self, object: &DynamicObject) -> Value {
        // An object that was read from JSON can be written as JSON.
        let mut value = serde_json::to_value(object).unwrap_or_default();
        self.name_kind(&mut value);
        value
    }

    fn name_kind(&self, value: &mut Value) {
        value["apiVersion"] = json!(self.inner.served.resource.api_version);
        value["kind"] = json!(self.inner.served.resource.kind);
    }

    async fn seen(&self, written: Value) -> Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(written).map_err(|error| Error::Object {
            kind: self.inner.served.resource.kind.clone(),
            key: Key::new("", ""),
            problem: error.to_string(),
        })?;
        let key = Key::of(&object);
        let version = revision(&object);
        self.until(|cache| cache.get(&key).is_some_and(|seen| revision(&seen) >= version)).await;
        Ok(object)
    }

    async fn until(&self, shown: impl Fn(&Cache) -> bool) {
        let mut changed = self.inner.changed.subscribe();
        let wait = async {
            while !shown(&self.inner.cache) {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(SEEN_WITHIN, wait).await.is_err() {
            tracing::debug!(kind = self.inner.served.resource.kind, "a write was not seen in time");
        }
    }
}

/// Returns the resource version as a number. Versions of one kind are comparable (Kubernetes API concepts, resource versions).
fn revision(object: &DynamicObject) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}
