//! The server's answers to what admission asks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mainstay_rbac::{Decision, UserInfo};
use mainstay_store::{Expect, Revision};
use serde_json::Value;

use crate::access::Gate;
use crate::admission::Lookup;
use crate::cache::{Begin, Scope};
use crate::entry::Entry;
use crate::error::Result;
use crate::object_store::ObjectStore;
use crate::request::RequestInfo;
use crate::served::{Served, Snapshot};
use crate::stored::Loaded;

/// The objects and the authorizer of one server.
pub struct ServerLookup {
    /// The objects.
    pub objects: Arc<ObjectStore>,
    /// The authorizer.
    pub access: Arc<Gate>,
}

#[async_trait]
impl Lookup for ServerLookup {
    fn served(&self) -> Arc<Snapshot> {
        self.objects.served()
    }

    fn built_in(&self, group: &str, plural: &str) -> Result<Arc<Served>> {
        self.objects.built_in(group, plural)
    }

    fn cached(&self, served: &Served, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        self.objects.cached(served, namespace, name)
    }

    fn list(&self, storage: &str, namespace: &str) -> Vec<Arc<Entry>> {
        let scope = Scope { namespace: namespace.to_owned(), name: String::new() };
        self.objects.cache.resource(storage).list(&scope)
    }

    async fn load(&self, served: &Served, namespace: &str, name: &str) -> Result<Option<Loaded>> {
        self.objects.load(served, namespace, name).await
    }

    async fn appearance(&self, served: &Served, namespace: &str, name: &str, patience: Duration) -> Option<Arc<Entry>> {
        let cache = &self.objects.cache;
        let scope = Scope { namespace: namespace.to_owned(), name: name.to_owned() };
        let mut following = cache.resource(&served.storage).subscribe(scope, Begin::Now, cache).ok()?;
        if let Some(entry) = following.entries.first() {
            return Some(entry.clone());
        }
        let change = tokio::time::timeout(patience, following.changes.recv()).await.ok().flatten()?;
        change.now.clone()
    }

    fn decide(&self, user: &UserInfo, info: &RequestInfo) -> Decision {
        self.access.decide(user, info)
    }

    async fn save_status(&self, served: &Served, object: &mut Value, revision: Revision) -> Result<()> {
        self.objects.save(served, object, Expect::Revision(revision)).await.map(drop)
    }
}
