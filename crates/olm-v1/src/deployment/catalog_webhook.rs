//! The configuration of the webhook of catalogs for the API server (OLM1-CAT-03).
//!
//! Its failure policy rejects catalogs without their label while no replica runs. A client that must write one then sets the label itself, and the
//! webhook is not called: the default catalogs have the label, and so have those of `mainstay catalog add`.

use serde_json::{Value, json};

use super::{Frame, Serving, port, service};
use crate::catalog::webhook::{MISSING_OR_WRONG, NAME, PATH};

/// The name of the configuration; upstream's, so that there is only one configuration for the webhook.
pub const CONFIGURATION: &str = "catalogd-mutating-webhook-configuration";
/// The Service that leads to every replica of catalogd; the Service for catalogs leads to the leader alone.
pub const SERVICE: &str = "catalogd-webhook";
/// The port of the webhook.
pub(super) const PORT: u16 = 9443;

/// Returns the certificate of the webhook: its own Service needs its own certificate.
pub(super) fn serving() -> Serving {
    Serving { secret: "catalogd-webhook-cert", services: vec![SERVICE] }
}

pub(super) fn leads_to(namespace: &str, program: &str) -> Value {
    service(namespace, SERVICE, Some(program), &json!([port("webhook", 443, PORT)]))
}

/// Returns the webhook configuration.
pub(super) fn configuration(frame: &Frame) -> Value {
    let mut configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": CONFIGURATION},
        "webhooks": [{
            "name": NAME, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 10,
            "clientConfig": {"service": {"namespace": frame.namespace, "name": SERVICE, "port": 443, "path": PATH}},
            "rules": [{
                "apiGroups": ["olm.operatorframework.io"], "apiVersions": ["v1"], "resources": ["clustercatalogs"], "scope": "Cluster",
                "operations": ["CREATE", "UPDATE"],
            }],
            "matchConditions": [{"name": "label-missing-or-wrong", "expression": MISSING_OR_WRONG}],
        }],
    });
    frame.certificates.trusted(&frame.namespace, &serving(), &mut configuration);
    configuration
}
