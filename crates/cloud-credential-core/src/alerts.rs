//! The alerting rules (COP-CRED-07).

use serde_json::{Value, json};

use crate::NAMESPACE;

/// Name of the alert, condition, summary and description.
const ALERTS: [(&str, &str, &str, &str); 5] = [
    (
        "CloudCredentialOperatorTargetNamespaceMissing",
        "MissingTargetNamespace",
        "CredentialsRequests ask for Secrets in a namespace that does not exist",
        "The namespace in spec.secretRef of at least one CredentialsRequest does not exist, so its credentials cannot be written.",
    ),
    (
        "CloudCredentialOperatorProvisioningFailed",
        "CredentialsProvisionFailure",
        "CredentialsRequests cannot be granted",
        "The credentials of at least one CredentialsRequest could not be made or written.",
    ),
    (
        "CloudCredentialOperatorDeprovisioningFailed",
        "CredentialsDeprovisionFailure",
        "CredentialsRequests cannot be deleted",
        "The credentials of at least one CredentialsRequest that is being deleted could not be removed.",
    ),
    (
        "CloudCredentialOperatorInsufficientCloudCreds",
        "InsufficientCloudCreds",
        "The root credentials do not suffice",
        "The root credentials of the platform lack permissions that at least one CredentialsRequest needs.",
    ),
    (
        "CloudCredentialOperatorStaleCredentials",
        "StaleCredentials",
        "CredentialsRequests are stale and should be deleted",
        "At least one CredentialsRequest is no longer needed. In mode Manual nothing deletes it: remove what was made for it in the cloud, then the CredentialsRequest.",
    ),
];

/// Returns the PrometheusRule.
pub fn rule() -> Value {
    let rules: Vec<Value> = ALERTS
        .iter()
        .map(|(name, condition, summary, description)| {
            let description = format!(
                "{description} kubectl get credentialsrequests -A -o yaml shows it by condition {condition}; mainstay explain credentialsrequest NAME says what to do."
            );
            json!({
                "alert": name, "expr": format!("cco_credentials_requests_conditions{{condition=\"{condition}\"}} > 0"), "for": "5m",
                "labels": {"severity": "warning"}, "annotations": {"summary": summary, "description": description},
            })
        })
        .collect();
    json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": {"name": "cloud-credential-operator-alerts", "namespace": NAMESPACE, "labels": {"prometheus": "alert-rules", "role": "alert-rules"}},
        "spec": {"groups": [{"name": "CloudCredentialOperator", "rules": rules}]},
    })
}
