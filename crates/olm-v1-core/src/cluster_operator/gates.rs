//! OpenShift's feature gates mapped to those of the two controllers (OLM1-GEN-08).

use std::collections::BTreeSet;

use serde_json::Value;

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Installs extensions.
    OperatorController,
    /// Serves catalogs.
    Catalogd,
    /// Both in one process, which takes the gates of both.
    Both,
}

/// A gate of a controller: its name, the OpenShift gate that turns it on, and whether it is on by default.
struct Mapped {
    component: Component,
    gate: &'static str,
    openshift: Option<&'static str>,
    default: bool,
}

const fn mapped(component: Component, gate: &'static str, openshift: Option<&'static str>, default: bool) -> Mapped {
    Mapped { component, gate, openshift, default }
}

const GATES: [Mapped; 5] = [
    mapped(Component::OperatorController, "PreflightPermissions", Some("NewOLMPreflightPermissionChecks"), false),
    mapped(Component::OperatorController, "SingleOwnNamespaceInstallSupport", Some("NewOLMOwnSingleNamespace"), false),
    mapped(Component::OperatorController, "WebhookProviderCertManager", None, true),
    mapped(Component::OperatorController, "WebhookProviderOpenshiftServiceCA", Some("NewOLMWebhookProviderOpenshiftServiceCA"), true),
    mapped(Component::Catalogd, "APIV1MetasHandler", Some("NewOLMCatalogdAPIV1Metas"), false),
];

/// The gates that a FeatureGate has on; for this version of the platform, if the FeatureGate lists them by version.
pub fn enabled(feature_gate: &Value, version: Option<&str>) -> BTreeSet<String> {
    let all = feature_gate.pointer("/status/featureGates").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let of = |wanted: &str| all.iter().find(|each| each["version"] == wanted);
    let found = version.and_then(of).or_else(|| all.first());
    let gates = found.and_then(|each| each["enabled"].as_array()).into_iter().flatten();
    gates.filter_map(|gate| gate["name"].as_str()).map(str::to_owned).collect()
}

/// The `--feature-gates` argument of a controller, its gates in order: on for those that OpenShift has on, off for those that are on by
/// default and that OpenShift has off. `None` if the defaults are right.
pub fn argument(component: Component, enabled: &BTreeSet<String>) -> Option<String> {
    let state = |gate: &Mapped| {
        let on = gate.openshift.is_some_and(|name| enabled.contains(name));
        (on || gate.default).then(|| format!("{}={on}", gate.gate))
    };
    let mut states: Vec<String> =
        GATES.iter().filter(|gate| [gate.component, Component::Both].contains(&component)).filter_map(state).collect();
    states.sort();
    (!states.is_empty()).then(|| format!("--feature-gates={}", states.join(",")))
}
