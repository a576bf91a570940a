//! What authentication and authorization need of the watch cache: accounts and bound objects, roles and bindings.

use std::sync::Arc;

use jiff::Timestamp;
use mainstay_rbac::PolicyIndex;
use serde_json::Value;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::policy::Policy;
use super::tokens::{LiveObject, LivePod, TokenObjects};
use crate::cache::{Begin, Cache, Change, Entry, Scope};

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

    /// Keeps the policy equal to the cache until cancelled.
    pub async fn follow(self: Arc<Self>, cache: Arc<Cache>, closing: CancellationToken) {
        while !closing.is_cancelled() {
            let Some(mut changes) = self.subscribe(&cache) else {
                tokio::task::yield_now().await;
                continue;
            };
            let [cluster_roles, cluster_bindings, roles, bindings] = &mut changes;
            loop {
                let (change, kind) = tokio::select! {
                    () = closing.cancelled() => return,
                    change = cluster_roles.recv() => (change, POLICY[0].1),
                    change = cluster_bindings.recv() => (change, POLICY[1].1),
                    change = roles.recv() => (change, POLICY[2].1),
                    change = bindings.recv() => (change, POLICY[3].1),
                };
                // A closed queue means that we were too slow: begin again with what there is.
                let Some(change) = change else { break };
                self.change(kind, &change);
            }
        }
    }

    /// Opens a watch of each resource and starts from what they hold.
    fn subscribe(&self, cache: &Cache) -> Option<[Receiver<Arc<Change>>; 4]> {
        let mut index = PolicyIndex::default();
        let mut changes = Vec::with_capacity(POLICY.len());
        for (resource, _) in POLICY {
            // `Begin::Now` never lies too far back.
            let subscription = cache.resource(resource).subscribe(Scope::default(), Begin::Now, cache).ok()?;
            for entry in &subscription.entries {
                take(&mut index, entry);
            }
            changes.push(subscription.changes);
        }
        self.replace(index);
        changes.try_into().ok()
    }

    fn change(&self, kind: &str, change: &Change) {
        match (&change.now, &change.before) {
            (Some(entry), _) => {
                if let Err(error) = self.apply(&entry.value()) {
                    // What can not be read gives no right: forget what it said before.
                    tracing::error!(%error, "role or binding without effect");
                    self.delete(kind, entry.namespace(), entry.name());
                }
            }
            (None, Some(gone)) => self.delete(kind, gone.namespace(), gone.name()),
            (None, None) => {}
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
        let closing = CancellationToken::new();
        let policy = Arc::new(Policy::default());
        let following = tokio::spawn(policy.clone().follow(cache.clone(), closing.clone()));
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

        closing.cancel();
        following.await.unwrap();
        store.close().await;
        feeding.await.unwrap().unwrap();
    }
}
