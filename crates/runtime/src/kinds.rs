//! Discovery of the kinds that the server serves, and of their APIs.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::discovery::{self, Scope};

/// A kind as the server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// True if its objects live in namespaces.
    pub namespaced: bool,
}

/// An error in the lookup of a kind.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// The server does not serve the kind.
    #[error("the server does not serve {kind} of {api_version}")]
    NotServed {
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// The discovery request failed.
    #[error("discovery of {api_version} failed")]
    Discovery {
        /// The group and version.
        api_version: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
}

/// The lookup of kinds, which remembers its results.
#[derive(Clone)]
pub struct Kinds {
    client: Client,
    known: Arc<RwLock<HashMap<GroupVersionKind, Served>>>,
}

impl Kinds {
    /// Creates a lookup that uses `client`.
    pub fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// Returns the kind as served. Asks the server unless it is known.
    pub async fn served(&self, gvk: &GroupVersionKind) -> Result<Served, KindError> {
        if let Some(found) = self.known.read().ok().and_then(|known| known.get(gvk).cloned()) {
            return Ok(found);
        }
        let api_version = gvk.api_version();
        let not_served = || KindError::NotServed { kind: gvk.kind.clone(), api_version: api_version.clone() };
        let (resource, capabilities) = match discovery::pinned_kind(&self.client, gvk).await {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(not_served()),
            Err(kube::Error::Discovery(_)) => return Err(not_served()),
            Err(source) => return Err(KindError::Discovery { api_version, source: Box::new(source) }),
        };
        let served = Served { resource, namespaced: capabilities.scope == Scope::Namespaced };
        if let Ok(mut known) = self.known.write() {
            known.insert(gvk.clone(), served.clone());
        }
        Ok(served)
    }

    /// Forgets a kind after its CRD changed or was deleted.
    pub fn forget(&self, gvk: &GroupVersionKind) {
        if let Ok(mut known) = self.known.write() {
            known.remove(gvk);
        }
    }

    /// Returns the API of an object: in its namespace, in `default_namespace` if it names none, or cluster-wide.
    pub async fn api(
        &self,
        client: &Client,
        gvk: &GroupVersionKind,
        namespace: Option<&str>,
        default_namespace: &str,
    ) -> Result<Api<DynamicObject>, KindError> {
        let served = self.served(gvk).await?;
        Ok(if served.namespaced {
            Api::namespaced_with(client.clone(), namespace.unwrap_or(default_namespace), &served.resource)
        } else {
            Api::all_with(client.clone(), &served.resource)
        })
    }
}
