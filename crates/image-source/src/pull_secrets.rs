//! Pull secrets that single owners name: Secrets of one namespace, each with the credentials of some registries.
//!
//! ```text
//!   NAME ──► Secret of the namespace ──► Credentials
//!    ▲              │
//!    └─── woken ◄───┘ when it changes
//! ```
//!
//! A Secret is read again for each pull. One that is missing or malformed is an error: nothing is pulled anonymously instead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource};
use kube::{Client, ResourceExt};
use mainstay_oci::Credentials;
use mainstay_runtime::{Cache, Scope};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Type of a Secret with credentials of registries.
const TYPE: &str = "kubernetes.io/dockerconfigjson";
/// Key of the credentials in such a Secret.
const KEY: &str = ".dockerconfigjson";

/// Secret whose credentials cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("secret {namespace}/{name} {problem}")]
pub struct PullSecretError {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Reason why it cannot be used.
    #[source]
    pub problem: PullSecretProblem,
}

/// Reason why a Secret's credentials cannot be used; its text continues a sentence that begins with the Secret's name.
#[derive(Debug, thiserror::Error)]
pub enum PullSecretProblem {
    /// There is no such Secret.
    #[error("does not exist")]
    Missing,
    /// The API server does not let the caller read it.
    #[error("may not be read: {message}")]
    Forbidden {
        /// The API server's reason.
        message: String,
    },
    /// The API server did not answer, or answered with another error.
    #[error("cannot be read")]
    Unreadable(#[source] Box<kube::Error>),
    /// It is of another type.
    #[error("is of type {found:?}; expected {TYPE}")]
    Type {
        /// Its type; empty if it has none.
        found: String,
    },
    /// It has no key for credentials.
    #[error("has no key {KEY}")]
    NoKey,
    /// Its credentials are malformed.
    #[error("cannot be used")]
    Content(#[source] mainstay_oci::Error),
}

/// Callback that is given the name of a Secret that was created, changed or deleted.
type Wake = Box<dyn Fn(&str) + Send + Sync>;

/// Pull secrets of one namespace, by name.
pub struct PullSecrets {
    client: Client,
    namespace: String,
    /// The Secrets that are watched, by name.
    watched: Mutex<HashMap<String, Cache>>,
    wake: Arc<OnceLock<Wake>>,
    stop: CancellationToken,
    _stopped_at_drop: DropGuard,
}

impl PullSecrets {
    /// Makes the pull secrets of this namespace, read with `client`. Nothing is read yet.
    pub fn new(client: Client, namespace: String) -> Self {
        let stop = CancellationToken::new();
        Self { client, namespace, watched: Mutex::default(), wake: Arc::default(), _stopped_at_drop: stop.clone().drop_guard(), stop }
    }

    /// Sets the callback that is given the name of each Secret that was created, changed or deleted. The first call counts.
    pub fn wake_by(&self, wake: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// Reads the credentials of a Secret. If a callback is set, the Secret is watched from then on.
    pub async fn credentials(&self, name: &str) -> Result<Credentials, PullSecretError> {
        self.watch(name);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = match api.get_opt(name).await {
            Ok(Some(secret)) => credentials_of(&secret),
            Ok(None) => Err(PullSecretProblem::Missing),
            Err(kube::Error::Api(status)) if status.code == 403 => Err(PullSecretProblem::Forbidden { message: status.message.clone() }),
            Err(error) => Err(PullSecretProblem::Unreadable(Box::new(error))),
        };
        found.map_err(|problem| PullSecretError { namespace: self.namespace.clone(), name: name.to_owned(), problem })
    }

    fn watch(&self, name: &str) {
        if self.wake.get().is_none() {
            return;
        }
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.entry(name.to_owned()).or_insert_with(|| {
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

/// Reads the credentials in a Secret.
fn credentials_of(secret: &Secret) -> Result<Credentials, PullSecretProblem> {
    let found = secret.type_.as_deref().unwrap_or_default();
    if found != TYPE {
        return Err(PullSecretProblem::Type { found: found.to_owned() });
    }
    let content = secret.data.as_ref().and_then(|data| data.get(KEY)).ok_or(PullSecretProblem::NoKey)?;
    Credentials::parse(KEY, &String::from_utf8_lossy(&content.0)).map_err(PullSecretProblem::Content)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use mainstay_diagnostics::chain;
    use serde_json::json;

    use super::*;

    /// OLM1-CAT-20: what is wrong with a Secret is told, and no part of it is used.
    #[test]
    fn secrets_are_read_or_refused() {
        let secret = |kind: &str, content: &str| {
            let data = json!({KEY: STANDARD.encode(content), "other": ""});
            credentials_of(&serde_json::from_value(json!({"metadata": {"name": "pull"}, "type": kind, "data": data})).unwrap())
        };
        let found = secret(TYPE, r#"{"auths": {"quay.example": {"auth": "YTpi"}}, "credsStore": "program"}"#).unwrap();
        assert!(found.find("quay.example", "a/b").is_some());
        assert_eq!(chain(&secret("Opaque", "{}").unwrap_err()), "is of type \"Opaque\"; expected kubernetes.io/dockerconfigjson");
        let odd = secret(TYPE, "no JSON").unwrap_err();
        assert!(chain(&odd).starts_with("cannot be used: "), "{odd}");
        let empty = credentials_of(&serde_json::from_value(json!({"metadata": {"name": "pull"}, "type": TYPE})).unwrap()).unwrap_err();
        assert_eq!(chain(&empty), "has no key .dockerconfigjson");
    }

    /// A malformed Secret is named once, with its cause.
    #[test]
    fn errors_name_the_secret_and_the_cause() {
        let error = |problem| chain(&PullSecretError { namespace: "system".to_owned(), name: "pull".to_owned(), problem });
        assert_eq!(error(PullSecretProblem::Missing), "secret system/pull does not exist");
        let cause = Credentials::parse(KEY, "no JSON").unwrap_err();
        let expected = format!("secret system/pull cannot be used: {}", chain(&cause));
        assert_eq!(error(PullSecretProblem::Content(cause)), expected);
    }
}
