//! The watch cache as authentication and authorization use it: accounts and bound objects, roles and bindings.

use std::sync::Arc;

use jiff::Timestamp;
use mainstay_rbac::PolicyIndex;
use serde_json::Value;

use super::policy::Policy;
use super::tokens::{LiveObject, LivePod, TokenObjects};
use crate::cache::{Cache, Change, Scope};
use crate::entry::Entry;

/// Objects of tokens, as the watch cache shows them.
pub struct CachedObjects(pub Arc<Cache>);

impl CachedObjects {
    fn find(&self, resource: &str, key: &str) -> Option<Value> {
        Some(self.0.resource(resource).get(key)?.value())
    }
}

impl TokenObjects for CachedObjects {
    fn service_account(&self, namespace: &str, name: &str) -> Option<LiveObject> {
        self.find("core/serviceaccounts", &format!("{namespace}/{name}")).map(|object| live(&object))
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<LivePod> {
        let pod = self.find("core/pods", &format!("{namespace}/{name}"))?;
        Some(LivePod {
            object: live(&pod),
            service_account: text(&pod, "/spec/serviceAccountName").to_owned(),
            node: text(&pod, "/spec/nodeName").to_owned(),
        })
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<LiveObject> {
        self.find("core/secrets", &format!("{namespace}/{name}")).map(|object| live(&object))
    }

    fn node(&self, name: &str) -> Option<LiveObject> {
        self.find("core/nodes", name).map(|object| live(&object))
    }
}

fn live(object: &Value) -> LiveObject {
    LiveObject {
        uid: text(object, "/metadata/uid").to_owned(),
        deletion_timestamp: text(object, "/metadata/deletionTimestamp").parse::<Timestamp>().ok(),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The resources of the policy and their kinds.
const POLICY: [(&str, &str); 4] = [
    ("rbac.authorization.k8s.io/clusterroles", "ClusterRole"),
    ("rbac.authorization.k8s.io/clusterrolebindings", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/roles", "Role"),
    ("rbac.authorization.k8s.io/rolebindings", "RoleBinding"),
];

impl Policy {
    /// Takes in every role and binding that the cache shows now.
    pub fn fill(&self, cache: &Cache) {
        let mut index = PolicyIndex::default();
        for (resource, _) in POLICY {
            for entry in cache.resource(resource).list(&Scope::default()) {
                take(&mut index, &entry);
            }
        }
        self.replace(index);
    }

    /// Keeps the policy at what the cache shows: to be called with each of its changes.
    pub fn observe(&self, resource: &str, change: &Change) {
        let Some((_, kind)) = POLICY.iter().find(|(known, _)| *known == resource) else { return };
        let Some(entry) = change.shown() else { return };
        let applied = change.now.as_ref().map(|now| self.apply(&now.value()));
        if let Some(Err(error)) = &applied {
            tracing::error!(%error, "role or binding without effect");
        }
        // What is gone, or cannot be read, gives no permission.
        if !matches!(applied, Some(Ok(()))) {
            self.delete(kind, entry.namespace(), entry.name());
        }
    }
}

fn take(index: &mut PolicyIndex, entry: &Entry) {
    if let Err(error) = index.apply(&entry.value()) {
        tracing::error!(%error, "role or binding without effect");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use mainstay_rbac::{Attributes, UserInfo};
    use mainstay_store::{Embedded, Expect, Options, Store};
    use serde_json::json;

    use super::*;
    use crate::object;

    /// KAPI-AUTHZ-01: bindings hold soon after they are written, and no longer than they exist.
    #[tokio::test]
    async fn policy_follows_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(Embedded::open(&dir.path().join("store"), &Options::default()).unwrap());
        let cache = Cache::fill(store.clone()).await.unwrap();
        let policy = Arc::new(Policy::default());
        let observer = policy.clone();
        cache.observe(Box::new(move |resource, change| observer.observe(resource, change)));
        let feeding = tokio::spawn(cache.clone().run());

        let write = async |resource: &str, kind: &str, body: Value| {
            let mut value = body;
            value["metadata"] = json!({ "name": "x", "uid": "1" });
            let bytes = object::encode("rbac.authorization.k8s.io/v1", kind, &value);
            store.put(&format!("/registry/rbac.authorization.k8s.io/{resource}/x"), bytes, Expect::Absent).await.unwrap()
        };
        write("clusterroles", "ClusterRole", json!({ "rules": [{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }] })).await;
        let subjects = json!([{ "kind": "User", "name": "ann" }]);
        let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x" });
        let bound = write("clusterrolebindings", "ClusterRoleBinding", json!({ "roleRef": reference, "subjects": subjects })).await;

        let question = Attributes::resource(UserInfo::new("ann", &[]), "get", "", "", "pods", "p");
        let settled = async |allowed: bool| {
            let patience = std::time::Duration::from_secs(10);
            tokio::time::timeout(patience, async {
                while policy.decide(&question).allowed != allowed {
                    tokio::task::yield_now().await;
                }
            })
            .await
            .unwrap();
        };
        settled(true).await;
        let fresh = Policy::default();
        fresh.fill(&cache);
        assert!(fresh.decide(&question).allowed);
        store.delete("/registry/rbac.authorization.k8s.io/clusterrolebindings/x", Expect::Revision(bound.modified)).await.unwrap();
        settled(false).await;

        store.close().await;
        feeding.await.unwrap().unwrap();
    }
}
