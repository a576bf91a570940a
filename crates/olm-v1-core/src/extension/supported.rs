//! Bundles that the controller refuses before it renders, and the install mode that an extension requests.

use mainstay_bundle::{Bundle, CertificateProvider, dns1123_label};
use serde_json::Value;

use crate::gates::FeatureGates;

/// Properties that declare a bundle's dependencies.
const DEPENDENCIES: [&str; 3] = ["olm.gvk.required", "olm.package.required", "olm.constraint"];

/// A bundle that the ClusterExtension controller does not install. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The bundle owns API services.
    #[error("unsupported bundle: apiServiceDefintions are not supported")]
    ApiServices,
    /// The bundle has webhooks, and no provider of certificates is enabled.
    #[error("unsupported bundle: webhookDefinitions are not supported")]
    Webhooks,
    /// The bundle needs a narrower install mode than the gates allow.
    #[error("unsupported bundle: bundle does not support AllNamespaces install mode")]
    NotAllNamespaces,
    /// The bundle supports no install mode that a ClusterExtension can ask for.
    #[error("unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes")]
    NoInstallMode,
    /// The bundle needs other packages or APIs.
    #[error(
        "validating bundle {bundle:?}: bundle {bundle:?} has a dependency declared via property {property:?} which is currently not supported"
    )]
    Dependency {
        /// The bundle's name.
        bundle: String,
        /// The property's type.
        property: String,
    },
    /// The watch namespace is not a valid name of a namespace.
    #[error("invalid watch namespace '{namespace}': {reasons}")]
    WatchNamespace {
        /// The namespace asked for.
        namespace: String,
        /// Kubernetes' reasons.
        reasons: String,
    },
}

/// Refuses a bundle that the controller does not install, for the first reason that applies (OLM1-INST-03).
pub fn check(bundle: &Bundle, gates: &FeatureGates) -> Result<(), Refusal> {
    if !bundle.csv.owned_api_services.is_empty() {
        return Err(Refusal::ApiServices);
    }
    if !bundle.csv.webhooks.is_empty() && gates.certificates() == CertificateProvider::None {
        return Err(Refusal::Webhooks);
    }
    if !gates.on("SingleOwnNamespaceInstallSupport") && !bundle.csv.supports("AllNamespaces") {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mainstay_testing::widgets::{Content, files};
    use serde_json::json;

    use super::*;
    use crate::gates::Profile;

    const OFF: &str = "SingleOwnNamespaceInstallSupport=false,WebhookProviderCertManager=false,WebhookProviderOpenshiftServiceCA=false";

    /// OLM1-INST-03, OLM1-INST-04: the refusals of the controller; the first one that applies.
    #[test]
    fn refused_in_order() {
        let off = FeatureGates::parse(Profile::Run, OFF).unwrap();
        let on = FeatureGates::parse(Profile::Run, "SingleOwnNamespaceInstallSupport=true,WebhookProviderCertManager=true").unwrap();
        let says = |content: Content, gates: &FeatureGates| {
            let bundle = Bundle::read(files("1.0.0", &content)).unwrap();
            check(&bundle, gates).map_or_else(|refusal| refusal.to_string(), |()| "supported".to_owned())
        };
        let hooks = || Content { webhook: true, ..Content::default() };
        let modes = |mode: &'static str| Content { modes: vec![mode], ..Content::default() };
        let all = Content { api_service: true, ..hooks() };
        assert_eq!(says(all, &on), "unsupported bundle: apiServiceDefintions are not supported");
        assert_eq!(says(hooks(), &off), "unsupported bundle: webhookDefinitions are not supported");
        assert_eq!(says(hooks(), &on), "supported");
        assert_eq!(says(modes("OwnNamespace"), &off), "unsupported bundle: bundle does not support AllNamespaces install mode");
        assert_eq!(says(modes("OwnNamespace"), &on), "supported");
        assert_eq!(
            says(modes("MultiNamespace"), &on),
            "unsupported bundle: bundle must support at least one of [AllNamespaces SingleNamespace OwnNamespace] install modes"
        );
        let needs = json!({"type": "olm.gvk.required", "value": {}});
        assert_eq!(
            check_dependencies("widget.v1.0.0", [&needs]).unwrap_err().to_string(),
            r#"validating bundle "widget.v1.0.0": bundle "widget.v1.0.0" has a dependency declared via property "olm.gvk.required" which is currently not supported"#
        );
    }

    /// OLM1-INST-11: the requested watch namespace.
    #[test]
    fn watch_namespaces() {
        assert_eq!(target_namespaces(None), Ok(None));
        assert_eq!(target_namespaces(Some("")), Ok(None));
        assert_eq!(target_namespaces(Some("ops")), Ok(Some(vec!["ops".to_owned()])));
        let error = target_namespaces(Some("Ops!")).unwrap_err().to_string();
        assert!(error.starts_with("invalid watch namespace 'Ops!': a lowercase RFC 1123 label must"), "{error}");
    }
}
