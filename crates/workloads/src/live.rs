//! A kind's live copy together with the writes to it. A write returns when the copy shows it, so that the next decision does not
//! rest on a world in which the last one was not carried out yet.

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

/// How long a write waits to be seen. An object that was deleted at once by somebody else never is; nothing is lost then, since
/// its deletion wakes whoever it concerns.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// One kind: what is there, and writes. Cloning shares it.
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

    /// The same copy, written to by another component.
    #[must_use]
    pub fn written_by(&self, api: &Api) -> Self {
        Self { inner: self.inner.clone(), api: api.clone() }
    }

    /// The kind.
    pub fn served(&self) -> &Served {
        &self.inner.served
    }

    /// Requests of any kind.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Makes an object.
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

    /// Writes the status of an object, which must be as it was read.
    pub async fn write_status(&self, object: &DynamicObject, status: &Value) -> Result<DynamicObject> {
        let mut body = self.value(object);
        body["status"] = status.clone();
        let written = self.api.replace(&self.inner.served, &Key::of(object), "status", &body).await?;
        self.seen(written).await
    }

    /// Replaces an object, which must be as it was read.
    pub async fn replace(&self, body: &Value, key: &Key) -> Result<DynamicObject> {
        let mut body = body.clone();
        self.name_kind(&mut body);
        let written = self.api.replace(&self.inner.served, key, "", &body).await?;
        self.seen(written).await
    }

    /// Deletes an object; `false` where there was none.
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

    /// The object as JSON, with its kind.
    pub fn value(&self, object: &DynamicObject) -> Value {
        // An object that came as JSON goes back to it.
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

/// Revisions of one kind are comparable numbers (Kubernetes API concepts, resource versions).
fn revision(object: &DynamicObject) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}
