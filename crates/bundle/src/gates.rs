//! The bundles that the ClusterExtension controller refuses before it renders, and its request for an install mode.

use serde_json::Value;

use crate::bundle::Bundle;
use crate::check::dns1123_label;
use crate::error::Refusal;

/// Properties that declare a bundle's dependencies.
const DEPENDENCIES: [&str; 3] = ["olm.gvk.required", "olm.package.required", "olm.constraint"];

/// The feature gates that allow more bundles to be installed (OLM1-GEN-08).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gates {
    /// A provider of webhook certificates is enabled.
    pub webhooks: bool,
    /// `SingleOwnNamespaceInstallSupport`.
    pub single_own_namespace: bool,
    /// `DeploymentConfig`.
    pub deployment_config: bool,
}

/// Refuses a bundle that the controller does not install, for the first reason that applies (OLM1-INST-03).
pub fn check(bundle: &Bundle, gates: &Gates) -> Result<(), Refusal> {
    if !bundle.csv.owned_api_services.is_empty() {
        return Err(Refusal::ApiServices);
    }
    if !bundle.csv.webhooks.is_empty() && !gates.webhooks {
        return Err(Refusal::Webhooks);
    }
    if !gates.single_own_namespace && !bundle.csv.supports("AllNamespaces") {
        return Err(Refusal::NotAllNamespaces);
    }
    if !["AllNamespaces", "SingleNamespace", "OwnNamespace"].iter().any(|mode| bundle.csv.supports(mode)) {
        return Err(Refusal::NoInstallMode);
    }
    Ok(())
}

/// Refuses a resolved bundle that needs other packages or APIs (OLM1-INST-04). Properties are those of its catalog entry.
pub fn check_dependencies<'a>(bundle: &str, properties: impl IntoIterator<Item = &'a Value>) -> Result<(), Refusal> {
    for property in properties {
        if let Some(kind) = property["type"].as_str().filter(|kind| DEPENDENCIES.contains(kind)) {
            return Err(Refusal::Dependency { bundle: bundle.to_owned(), property: kind.to_owned() });
        }
    }
    Ok(())
}

/// The target namespaces that a watch namespace asks for (OLM1-INST-11); `None` stands for the bundle's default.
pub fn target_namespaces(watch_namespace: Option<&str>) -> Result<Option<Vec<String>>, Refusal> {
    let Some(namespace) = watch_namespace.filter(|namespace| !namespace.is_empty()) else { return Ok(None) };
    let reasons = dns1123_label(namespace);
    if reasons.is_empty() {
        return Ok(Some(vec![namespace.to_owned()]));
    }
    Err(Refusal::WatchNamespace { namespace: namespace.to_owned(), reasons: reasons.join(", ") })
}
