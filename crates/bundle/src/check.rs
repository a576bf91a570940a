//! The checks of a bundle, in upstream's order and words (OLM1-INST-16).

use std::collections::{BTreeMap, BTreeSet};

use mainstay_golang::quote;

use crate::bundle::Bundle;
use crate::csv::{WebhookDefinition, WebhookKind};
use crate::kinds;

/// Groups that no admission rule may name.
const FORBIDDEN_GROUPS: [&str; 2] = ["olm.operatorframework.io", "*"];
const ADMISSION_GROUP: &str = "admissionregistration.k8s.io";
const FORBIDDEN_ADMISSION_RESOURCES: [&str; 5] = [
    "*",
    "mutatingwebhookconfiguration",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfiguration",
    "validatingwebhookconfigurations",
];

impl Bundle {
    /// Every finding that keeps the bundle from being installed; none for a good bundle.
    pub fn check(&self) -> Vec<String> {
        [
            deployment_twice,
            deployment_name,
            crd_twice,
            owned_crd_missing,
            package_name,
            conversion_modes,
            webhook_deployment,
            webhook_twice,
            webhook_name,
            conversion_shared,
            conversion_owned,
            webhook_rules,
            kinds_supported,
        ]
        .iter()
        .flat_map(|check| check(self))
        .collect()
    }
}

fn deployment_names(bundle: &Bundle) -> impl Iterator<Item = &str> {
    bundle.csv.deployments.iter().map(|deployment| deployment.name.as_str())
}

fn deployment_twice(bundle: &Bundle) -> Vec<String> {
    let message = |name| format!("cluster service version contains duplicate strategy deployment spec '{name}'");
    repeated(deployment_names(bundle)).into_iter().map(message).collect()
}

fn deployment_name(bundle: &Bundle) -> Vec<String> {
    let names: BTreeSet<_> = deployment_names(bundle).collect();
    let refuse = |name: &str| {
        let reasons = dns1123_subdomain(name);
        (!reasons.is_empty()).then(|| format!("invalid cluster service version strategy deployment name '{name}': {}", reasons.join(", ")))
    };
    names.into_iter().filter_map(refuse).collect()
}

fn crd_twice(bundle: &Bundle) -> Vec<String> {
    repeated(bundle.crd_names()).into_iter().map(|name| format!("bundle contains duplicate custom resource definition '{name}'")).collect()
}

fn owned_crd_missing(bundle: &Bundle) -> Vec<String> {
    let shipped: BTreeSet<_> = bundle.crd_names().collect();
    let owned: BTreeSet<_> = bundle.csv.owned_crds.iter().map(|crd| crd.name.as_str()).collect();
    let message =
        |name: &&str| format!("cluster service definition references owned custom resource definition '{name}' not found in bundle");
    owned.difference(&shipped).map(message).collect()
}

fn package_name(bundle: &Bundle) -> Vec<String> {
    if bundle.package.is_empty() { vec!["package name is empty".to_owned()] } else { Vec::new() }
}

fn conversion_modes(bundle: &Bundle) -> Vec<String> {
    let modes = bundle.csv.supported_modes();
    if modes == ["AllNamespaces"] {
        return Vec::new();
    }
    let message = |name: &str| {
        format!(
            "bundle contains conversion webhook {} and supports install modes [{}] - conversion webhooks are only supported for bundles that only support AllNamespaces install mode",
            quote(name),
            modes.join(" ")
        )
    };
    let names: BTreeSet<_> = conversions(bundle).map(|webhook| webhook.name.as_str()).collect();
    names.into_iter().map(message).collect()
}

fn webhook_deployment(bundle: &Bundle) -> Vec<String> {
    let known: BTreeSet<_> = deployment_names(bundle).collect();
    let mut lost: Vec<_> = bundle.csv.webhooks.iter().filter(|webhook| !known.contains(webhook.deployment.as_str())).collect();
    lost.sort_by_key(|webhook| (&webhook.deployment, webhook.kind.as_str(), &webhook.name));
    let message = |webhook: &WebhookDefinition| {
        format!(
            "webhook of type '{}' with name '{}' references non-existent deployment '{}'",
            webhook.kind.as_str(),
            webhook.name,
            webhook.deployment
        )
    };
    lost.into_iter().map(message).collect()
}

fn webhook_twice(bundle: &Bundle) -> Vec<String> {
    repeated(bundle.csv.webhooks.iter().map(|webhook| (webhook.kind.as_str(), webhook.name.as_str())))
        .into_iter()
        .map(|(kind, name)| format!("duplicate webhook '{name}' of type '{kind}'"))
        .collect()
}

fn webhook_name(bundle: &Bundle) -> Vec<String> {
    let names: BTreeSet<_> = bundle.csv.webhooks.iter().map(|webhook| (webhook.kind.as_str(), webhook.name.as_str())).collect();
    let refuse = |(kind, name): (&str, &str)| {
        let reasons = dns1123_subdomain(name);
        (!reasons.is_empty()).then(|| format!("webhook of type '{kind}' has invalid name '{name}': {}", reasons.join(",")))
    };
    names.into_iter().filter_map(refuse).collect()
}

fn conversion_shared(bundle: &Bundle) -> Vec<String> {
    let mut claims: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for webhook in conversions(bundle) {
        for crd in &webhook.conversion_crds {
            claims.entry(crd).or_default().push(&webhook.name);
        }
    }
    let message = |(crd, mut names): (&str, Vec<&str>)| {
        names.sort_unstable();
        (names.len() > 1).then(|| format!("conversion webhooks [{}] reference same custom resource definition '{crd}'", names.join(",")))
    };
    claims.into_iter().filter_map(message).collect()
}

fn conversion_owned(bundle: &Bundle) -> Vec<String> {
    let owned: BTreeSet<_> = bundle.csv.owned_crds.iter().map(|crd| crd.name.as_str()).collect();
    let mut lost: Vec<_> = conversions(bundle)
        .flat_map(|webhook| webhook.conversion_crds.iter().map(|crd| (webhook.name.as_str(), crd.as_str())))
        .filter(|(_, crd)| !owned.contains(crd))
        .collect();
    lost.sort_unstable();
    let message = |(name, crd)| format!("conversion webhook '{name}' references custom resource definition '{crd}' not owned bundle");
    lost.into_iter().map(message).collect()
}

fn webhook_rules(bundle: &Bundle) -> Vec<String> {
    let mut findings = Vec::new();
    for webhook in bundle.csv.webhooks.iter().filter(|webhook| webhook.kind != WebhookKind::Conversion) {
        let forbid = |what: String| {
            format!("webhook {} contains forbidden rule: admission webhook rules cannot reference {what}", quote(&webhook.name))
        };
        for rule in webhook.entry["rules"].as_array().into_iter().flatten() {
            let texts = |key: &str| rule[key].as_array().into_iter().flatten().filter_map(|value| value.as_str());
            for group in texts("apiGroups") {
                if FORBIDDEN_GROUPS.contains(&group) {
                    findings.push(forbid(format!("API group {}", quote(group))));
                }
                if group == ADMISSION_GROUP {
                    for resource in texts("resources").filter(|name| FORBIDDEN_ADMISSION_RESOURCES.contains(&name.to_lowercase().as_str()))
                    {
                        findings.push(forbid(format!("resource {} for API group {}", quote(resource), quote(group))));
                    }
                }
            }
        }
    }
    findings
}

fn kinds_supported(bundle: &Bundle) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut refused: Vec<_> = bundle
        .others
        .iter()
        .map(|object| (text(&object["metadata"]["name"]), text(&object["kind"])))
        .filter(|(_, kind)| kinds::supported(kind).is_none())
        .collect();
    refused.sort_unstable();
    refused.into_iter().map(|(name, kind)| format!("unsupported resource {} with kind {}", quote(&name), quote(&kind))).collect()
}

fn conversions(bundle: &Bundle) -> impl Iterator<Item = &WebhookDefinition> {
    bundle.csv.webhooks.iter().filter(|webhook| webhook.kind == WebhookKind::Conversion)
}

/// The items that occur more than once, sorted.
fn repeated<T: Ord + Copy>(items: impl Iterator<Item = T>) -> BTreeSet<T> {
    let mut seen = BTreeSet::new();
    items.filter(|item| !seen.insert(*item)).collect()
}

/// The reasons why a name is not an RFC 1123 subdomain, sorted; empty if it is one.
pub(crate) fn dns1123_subdomain(name: &str) -> Vec<&'static str> {
    let mut reasons = Vec::new();
    if !name.split('.').all(dns1123) {
        reasons.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        );
    }
    if name.len() > 253 {
        reasons.push("must be no more than 253 characters");
    }
    reasons
}

/// The reasons why a name is not an RFC 1123 label, in Kubernetes' order; empty if it is one.
pub fn dns1123_label(name: &str) -> Vec<&'static str> {
    let mut reasons = Vec::new();
    if name.len() > 63 {
        reasons.push("must be no more than 63 characters");
    }
    if !dns1123(name) {
        reasons.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    reasons
}

fn dns1123(label: &str) -> bool {
    let plain = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(plain) && bytes.last().is_some_and(plain) && bytes.iter().all(|c| plain(c) || *c == b'-')
}
