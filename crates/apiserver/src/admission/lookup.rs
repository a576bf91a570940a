//! The rest of the server, as admission asks it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mainstay_rbac::{Decision, UserInfo};
use mainstay_store::Revision;
use serde_json::Value;

use crate::entry::Entry;
use crate::error::Result;
use crate::request::RequestInfo;
use crate::served::{Served, Snapshot};
use crate::stored::Loaded;

/// Objects, resources and permissions: all that steps of admission may know of the server they belong to.
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// The resources that are served at this moment.
    fn served(&self) -> Arc<Snapshot>;

    /// A built-in resource that is known to exist.
    fn built_in(&self, group: &str, plural: &str) -> Result<Arc<Served>>;

    /// An object as the cache shows it.
    fn cached(&self, served: &Served, namespace: &str, name: &str) -> Option<Arc<Entry>>;

    /// The objects of a resource (`GROUP/RESOURCE`) as the cache shows them, in key order; of all namespaces if none is named.
    fn list(&self, storage: &str, namespace: &str) -> Vec<Arc<Entry>>;

    /// An object as the store has it.
    async fn load(&self, served: &Served, namespace: &str, name: &str) -> Result<Option<Loaded>>;

    /// Waits until the cache shows an object; `None` when that takes too long.
    async fn appearance(&self, served: &Served, namespace: &str, name: &str, patience: Duration) -> Option<Arc<Entry>>;

    /// The decision whether a user may send such a request.
    fn decide(&self, user: &UserInfo, info: &RequestInfo) -> Decision;

    /// Writes an object whose status alone has changed, if it still has this revision: quotas are charged so.
    async fn save_status(&self, served: &Served, object: &mut Value, revision: Revision) -> Result<()>;
}
