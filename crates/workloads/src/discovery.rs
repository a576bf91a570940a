//! The kinds that the server serves, each once, in its preferred version.

use std::sync::Arc;

use kube::api::ApiResource;
use mainstay_runtime::Served;
use serde_json::Value;
use tokio::sync::watch;

use crate::{Error, Result};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A kind and its capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The kind in its preferred version.
    pub served: Served,
    /// Its verbs.
    pub verbs: Vec<String>,
    /// All versions in which it is served.
    pub versions: Vec<String>,
}

impl Kind {
    /// Returns true if the kind supports the verb.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }
}

/// The served kinds as of the last discovery.
#[derive(Clone)]
pub struct Discovery {
    client: kube::Client,
    kinds: Arc<watch::Sender<Arc<[Kind]>>>,
}

impl Discovery {
    /// Returns an empty list of kinds, before the first discovery.
    pub fn new(client: kube::Client) -> Self {
        Self { client, kinds: Arc::new(watch::Sender::new(Arc::from([]))) }
    }

    /// Returns the known kinds.
    pub fn known(&self) -> Arc<[Kind]> {
        self.kinds.borrow().clone()
    }

    /// Returns a receiver that is notified whenever the known kinds change.
    pub fn changes(&self) -> watch::Receiver<Arc<[Kind]>> {
        self.kinds.subscribe()
    }

    /// Asks the server for its kinds.
    pub async fn refresh(&self) -> Result<Arc<[Kind]>> {
        let mut kinds = Vec::new();
        for root in ["/api", "/apis"] {
            let request = http::Request::get(root).header(http::header::ACCEPT, AGGREGATED).body(Vec::new());
            let request = request.map_err(|error| Error::Discovery(Box::new(kube::Error::HttpError(error))))?;
            let answer: Value = self.client.request(request).await.map_err(|error| Error::Discovery(Box::new(error)))?;
            kinds.extend(read(&answer));
        }
        let kinds: Arc<[Kind]> = kinds.into();
        self.kinds.send_if_modified(|known| {
            let other = *known != kinds;
            known.clone_from(&kinds);
            other
        });
        Ok(kinds)
    }

    /// Finds a kind, whichever version is served.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<Kind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let known = self.known();
        let found = known.iter().find(|one| {
            one.served.resource.group == group && one.served.resource.kind == kind && one.versions.iter().any(|served| served == version)
        });
        found.cloned()
    }
}

/// Reads an aggregated discovery document, whose versions are in order of preference.
fn read(document: &Value) -> Vec<Kind> {
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut kinds: Vec<Kind> = Vec::new();
    for group in list(document, "items") {
        let name = text(&group["metadata"]["name"]);
        let first = kinds.len();
        for version in list(&group, "versions") {
            let number = text(&version["version"]);
            for resource in list(&version, "resources") {
                let plural = text(&resource["resource"]);
                if let Some(known) = kinds.iter_mut().skip(first).find(|known| known.served.resource.plural == plural) {
                    known.versions.push(number.clone());
                    continue;
                }
                let resource_of = ApiResource {
                    group: name.clone(),
                    version: number.clone(),
                    api_version: if name.is_empty() { number.clone() } else { format!("{name}/{number}") },
                    kind: text(&resource["responseKind"]["kind"]),
                    plural,
                };
                kinds.push(Kind {
                    served: Served { resource: resource_of, namespaced: resource["scope"] == "Namespaced" },
                    verbs: list(&resource, "verbs").iter().map(text).collect(),
                    versions: vec![number.clone()],
                });
            }
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_is_known_once_in_the_first_version() {
        let resource =
            |verbs: Value| json!({"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Namespaced", "verbs": verbs});
        let document = json!({"items": [{"metadata": {"name": "example.com"}, "versions": [
            {"version": "v1", "resources": [resource(json!(["get", "list", "delete"]))]},
            {"version": "v1beta1", "resources": [resource(json!(["get"]))]},
        ]}]});
        let kinds = read(&document);
        assert_eq!(kinds.len(), 1);
        assert_eq!(kinds[0].served.resource.api_version, "example.com/v1");
        assert_eq!(kinds[0].versions, ["v1", "v1beta1"]);
        assert!(kinds[0].served.namespaced && kinds[0].can("delete") && !kinds[0].can("watch"));
    }
}
