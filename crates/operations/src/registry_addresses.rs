//! Addresses at which `mainstay up` answers for the registry servers of CatalogSources, published in a ConfigMap (OLM0-CAT-36).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use mainstay_diagnostics::{Failure, FailureKind};
use serde_json::{Value, json};

use crate::failure::refused;
use crate::session::Session;

/// The ConfigMap: namespace and name.
const PUBLISHED: (&str, &str) = ("kube-system", "mainstay-up-catalogs");

/// The key of a CatalogSource. No namespace has a dot.
fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}.{name}")
}

/// Returns the ConfigMap in which `mainstay up` publishes the addresses, by namespace and name of the CatalogSource.
pub fn published(addresses: &BTreeMap<(String, String), String>) -> Value {
    let data: BTreeMap<String, &String> = addresses.iter().map(|((namespace, name), address)| (key(namespace, name), address)).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PUBLISHED.1, "namespace": PUBLISHED.0}, "data": data})
}

/// Returns the address at which a CatalogSource is answered for.
pub async fn of(session: &Session, namespace: &str, name: &str) -> Result<String, Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(session.client.clone(), PUBLISHED.0);
    let found = maps.get_opt(PUBLISHED.1).await.map_err(|error| refused(format!("configmap {}/{}", PUBLISHED.0, PUBLISHED.1), &error))?;
    let subject = format!("catalogsource {namespace}/{name}");
    let Some(found) = found else {
        let why = "this is no cluster of mainstay up, whose process answers for the servers of catalogs";
        let forward = format!("kubectl port-forward -n {namespace} service/{} 50051", name.replace('.', "-"));
        return Err(Failure::new(FailureKind::Impossible, subject, why).hint(forward));
    };
    let address = found.data.as_ref().and_then(|data| data.get(&key(namespace, name))).cloned();
    let missing = || Failure::new(FailureKind::NotFound, subject, "has no content that could be served");
    address.ok_or_else(|| missing().hint(format!("mainstay explain catalogsource {name} -n {namespace}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-CAT-36: addresses are published by namespace and name.
    #[test]
    fn addresses_are_published() {
        let addresses = BTreeMap::from([(("market".to_owned(), "team.catalog".to_owned()), "127.0.0.1:1".to_owned())]);
        assert_eq!(published(&addresses)["data"], json!({"market.team.catalog": "127.0.0.1:1"}));
    }
}
