//! The cluster's roles and bindings, as the preflight needs them (OLM1-PERM-09).

use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_rbac::PolicyIndex;
use mainstay_runtime::metrics::Metrics;
use mainstay_runtime::{Cache, Change, Scope};
use tokio_util::sync::CancellationToken;

use super::observe::PolicySource;

const GROUP: &str = "rbac.authorization.k8s.io";
const KINDS: [(&str, &str); 4] =
    [("Role", "roles"), ("ClusterRole", "clusterroles"), ("RoleBinding", "rolebindings"), ("ClusterRoleBinding", "clusterrolebindings")];

/// Four caches and the index over them, which follows every change. A plan takes a snapshot of the index, which later changes do not affect.
#[derive(Clone)]
pub struct Policy {
    /// Roles, ClusterRoles, RoleBindings, ClusterRoleBindings.
    pub caches: [Cache; 4],
    index: Arc<RwLock<Arc<PolicyIndex>>>,
}

impl Policy {
    /// Follows roles and bindings until `stop`.
    pub fn start(client: &Client, stop: &CancellationToken) -> Self {
        let index: Arc<RwLock<Arc<PolicyIndex>>> = Arc::default();
        let caches = KINDS.map(|(kind, plural)| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", kind), plural);
            let cache = Cache::start(client, &resource, &Scope::default(), stop);
            let index = index.clone();
            cache.on_change(move |change| take_in(&mut index.write().unwrap_or_else(PoisonError::into_inner), kind, change));
            cache
        });
        Self { caches, index }
    }

    /// Adds the number of objects to the page of metrics (MS-OPS-01).
    #[must_use]
    pub fn shown(self, metrics: &Metrics) -> Self {
        Self { caches: self.caches.map(|cache| cache.shown(metrics)), ..self }
    }
}

#[async_trait]
impl PolicySource for Policy {
    async fn index(&self) -> Arc<PolicyIndex> {
        for cache in &self.caches {
            cache.ready().await;
        }
        self.index.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn take_in(index: &mut Arc<PolicyIndex>, kind: &str, change: &Change) {
    // The index is copied only while a plan still uses it.
    let index = Arc::make_mut(index);
    match &change.now {
        None => {
            if let Some(before) = &change.before {
                let meta = &before.metadata;
                index.delete(kind, meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
            }
        }
        Some(now) => {
            let applied = serde_json::to_value(&**now).map_err(|error| error.to_string());
            if let Err(error) = applied.and_then(|object| index.apply(&object).map_err(|error| error.to_string())) {
                tracing::warn!(%error, "a role or binding cannot be read; the preflight goes on without it");
            }
        }
    }
}
