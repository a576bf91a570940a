//! Pull secrets of single catalogs (OLM1-CAT-20): for a catalog's own image, and for the bundle images that are chosen from it.
//!
//! ```text
//!   ClusterCatalog ── annotation pull-secret: NAME ──► Secret of the controllers' namespace ──► credentials of its registries
//!        ▲                                                    │
//!        └──────────────────── woken ◄──── changed ───────────┘
//! ```
//!
//! The Secret is read anew for each pull. One that is missing or makes no sense is an error: nothing is pulled anonymously instead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource};
use kube::{Client, ResourceExt};
use mainstay_api::lifecycle::PULL_SECRET;
use mainstay_api::olm_v1::ClusterCatalog;
use mainstay_oci::Credentials;
use mainstay_runtime::{Cache, Scope};
use tokio_util::sync::{CancellationToken, DropGuard};

use mainstay_diagnostics::chain;

const TYPE: &str = "kubernetes.io/dockerconfigjson";
const KEY: &str = ".dockerconfigjson";

/// Why a catalog's pull secret cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("secret {namespace}/{name}, which annotation {PULL_SECRET} names, {problem}")]
pub struct CatalogSecretError {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Who is told the name of a Secret that changed.
type Wake = Box<dyn Fn(&str) + Send + Sync>;

/// The pull secrets of all catalogs.
pub struct CatalogSecrets {
    client: Client,
    namespace: String,
    /// The Secrets that are followed, by name.
    followed: Mutex<HashMap<String, Cache>>,
    wake: Arc<OnceLock<Wake>>,
    stop: CancellationToken,
    _ended: DropGuard,
}

/// The pull secret that a catalog names.
pub fn pull_secret(catalog: &ClusterCatalog) -> Option<String> {
    catalog.metadata.annotations.as_ref()?.get(PULL_SECRET).filter(|name| !name.is_empty()).cloned()
}

impl CatalogSecrets {
    /// Those of this namespace, read by this client.
    pub fn new(client: Client, namespace: String) -> Self {
        let stop = CancellationToken::new();
        Self { client, namespace, followed: Mutex::default(), wake: Arc::default(), _ended: stop.clone().drop_guard(), stop }
    }

    /// Says who is told the name of a Secret that came, changed or went; the first to say it counts.
    pub fn wake_by(&self, wake: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// The credentials of a Secret, which is followed from then on where somebody wants to be woken.
    pub async fn credentials(&self, name: &str) -> Result<Credentials, CatalogSecretError> {
        self.follow(name);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let wrong = |problem: String| CatalogSecretError { namespace: self.namespace.clone(), name: name.to_owned(), problem };
        match api.get_opt(name).await {
            Ok(Some(secret)) => read(&secret).map_err(wrong),
            Ok(None) => Err(wrong("does not exist".to_owned())),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let grant = format!("mainstay deploy --catalog-pull-secret {name} lets catalogd read it");
                Err(wrong(format!("may not be read: {}; {grant}", status.message)))
            }
            Err(error) => Err(wrong(format!("cannot be read: {}", chain(&error)))),
        }
    }

    fn follow(&self, name: &str) {
        if self.wake.get().is_none() {
            return;
        }
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.entry(name.to_owned()).or_insert_with(|| {
            let resource = ApiResource::erase::<Secret>(&());
            let scope =
                Scope { namespace: Some(self.namespace.clone()), fields: Some(format!("metadata.name={name}")), ..Scope::default() };
            let cache = Cache::start(&self.client, &resource, &scope, &self.stop);
            let wake = self.wake.clone();
            cache.on_change(move |change| {
                if let (Some(object), Some(wake)) = (change.object(), wake.get()) {
                    wake(&object.name_any());
                }
            });
            cache
        });
    }
}

/// What a Secret says.
fn read(secret: &Secret) -> Result<Credentials, String> {
    let kind = secret.type_.as_deref().unwrap_or_default();
    if kind != TYPE {
        return Err(format!("is of type {kind:?}; expected {TYPE}"));
    }
    let Some(content) = secret.data.as_ref().and_then(|data| data.get(KEY)) else { return Err(format!("has no key {KEY}")) };
    Credentials::parse(KEY, &String::from_utf8_lossy(&content.0)).map_err(|error| format!("cannot be used: {}", chain(&error)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    /// OLM1-CAT-20: what is wrong with a Secret is told, and no part of it is used.
    #[test]
    fn secrets_are_read_or_refused() {
        let secret = |kind: &str, content: &str| {
            let data = json!({KEY: STANDARD.encode(content), "other": ""});
            read(&serde_json::from_value(json!({"metadata": {"name": "pull"}, "type": kind, "data": data})).unwrap())
        };
        let found = secret(TYPE, r#"{"auths": {"quay.example": {"auth": "YTpi"}}, "credsStore": "program"}"#).unwrap();
        assert!(found.find("quay.example", "a/b").is_some());
        assert_eq!(secret("Opaque", "{}").unwrap_err(), "is of type \"Opaque\"; expected kubernetes.io/dockerconfigjson");
        let odd = secret(TYPE, "no JSON").unwrap_err();
        assert!(odd.starts_with("cannot be used: "), "{odd}");
        let empty = read(&serde_json::from_value(json!({"metadata": {"name": "pull"}, "type": TYPE})).unwrap()).unwrap_err();
        assert_eq!(empty, "has no key .dockerconfigjson");
    }
}
