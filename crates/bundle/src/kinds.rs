//! The object kinds that a bundle may hold (the one table, OLM0-BUNDLE-06), and the resources under which they are served.

/// One kind of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The kind's name; upstream looks at nothing else.
    pub name: &'static str,
    /// The resource under which it is served.
    pub resource: &'static str,
    /// True if the renderer gives it the install namespace.
    pub namespaced: bool,
}

const fn kind(name: &'static str, resource: &'static str, namespaced: bool) -> Kind {
    Kind { name, resource, namespaced }
}

/// Every kind that a bundle may hold. `VerticalPodAutoscaler` counts as cluster-scoped, as in upstream's table.
pub const SUPPORTED: [Kind; 23] = [
    kind("ClusterRole", "clusterroles", false),
    kind("ClusterRoleBinding", "clusterrolebindings", false),
    kind("ClusterServiceVersion", "clusterserviceversions", true),
    kind("ConfigMap", "configmaps", true),
    kind("ConsoleCLIDownload", "consoleclidownloads", false),
    kind("ConsoleLink", "consolelinks", false),
    kind("ConsolePlugin", "consoleplugins", false),
    kind("ConsoleQuickStart", "consolequickstarts", false),
    kind("ConsoleYAMLSample", "consoleyamlsamples", false),
    kind("CustomResourceDefinition", "customresourcedefinitions", false),
    kind("NetworkPolicy", "networkpolicies", true),
    kind("PodDisruptionBudget", "poddisruptionbudgets", true),
    kind("PodMonitor", "podmonitors", true),
    kind("PriorityClass", "priorityclasses", false),
    kind("PrometheusRule", "prometheusrules", true),
    kind("Role", "roles", true),
    kind("RoleBinding", "rolebindings", true),
    kind("Secret", "secrets", true),
    kind("Service", "services", true),
    kind("ServiceAccount", "serviceaccounts", true),
    kind("ServiceMonitor", "servicemonitors", true),
    kind("VerticalPodAutoscaler", "verticalpodautoscalers", false),
    // The seeds' spelling of the same console kind.
    kind("ConsoleYamlSample", "consoleyamlsamples", false),
];

/// Kinds that the renderer adds.
const GENERATED: [Kind; 5] = [
    kind("Deployment", "deployments", true),
    kind("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false),
    kind("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false),
    kind("Issuer", "issuers", true),
    kind("Certificate", "certificates", true),
];

/// The table's row of a kind that a bundle may hold.
pub fn supported(name: &str) -> Option<Kind> {
    SUPPORTED.into_iter().find(|kind| kind.name == name)
}

/// The row of a kind that a rendered bundle may hold.
pub fn rendered(name: &str) -> Option<Kind> {
    supported(name).or_else(|| GENERATED.into_iter().find(|kind| kind.name == name))
}
