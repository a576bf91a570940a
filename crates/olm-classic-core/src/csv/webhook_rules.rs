//! Rules that no webhook of an operator may have (OLM0-WEBHOOK-03).

use std::collections::BTreeSet;

use mainstay_bundle::WebhookDefinition;
use serde_json::Value;

/// Why the webhooks of a CSV are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWebhook {
    /// Two have one name.
    #[error("CSV contains repeated WebhookDescription name")]
    Repeated,
    /// It would be asked about every group.
    #[error("webhook rules cannot include all groups")]
    AllGroups,
    /// It would be asked about OLM's own objects.
    #[error("webhook rules cannot include the OLM group")]
    OlmGroup,
    /// It would be asked about the configurations of webhooks.
    #[error("webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources")]
    Webhooks,
}

/// Checks the names and rules of webhooks.
pub(crate) fn check(webhooks: &[WebhookDefinition]) -> Result<(), InvalidWebhook> {
    let mut names = BTreeSet::new();
    for webhook in webhooks {
        if !names.insert(&webhook.name) {
            return Err(InvalidWebhook::Repeated);
        }
        for rule in webhook.entry["rules"].as_array().into_iter().flatten() {
            check_rule(rule)?;
        }
    }
    Ok(())
}

fn check_rule(rule: &Value) -> Result<(), InvalidWebhook> {
    let has = |list: &str, text: &str| rule[list].as_array().is_some_and(|all| all.iter().any(|each| each == text));
    if has("apiGroups", "*") {
        return Err(InvalidWebhook::AllGroups);
    }
    if has("apiGroups", "operators.coreos.com") {
        return Err(InvalidWebhook::OlmGroup);
    }
    let webhooks = ["*", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    if has("apiGroups", "admissionregistration.k8s.io") && webhooks.iter().any(|resource| has("resources", resource)) {
        return Err(InvalidWebhook::Webhooks);
    }
    Ok(())
}
