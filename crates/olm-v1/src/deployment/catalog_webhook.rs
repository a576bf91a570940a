//! The webhook of catalogs, as the API server is told of it (OLM1-CAT-03).
//!
//! Its failure policy keeps catalogs without their label out while no replica runs. Whoever must write one then sets the label himself, and the
//! webhook is not asked: the default catalogs have it, and so has `mainstay catalog add`.

use serde_json::{Value, json};

use super::{Frame, Serving, port, service};
use crate::catalog::webhook::{MISSING_OR_WRONG, NAME, PATH};

/// The name of the configuration; upstream's, so that two of them do not both claim the webhook.
pub const CONFIGURATION: &str = "catalogd-mutating-webhook-configuration";
/// The Service that leads to every replica of catalogd, where that of its catalogs leads to the leader.
pub const SERVICE: &str = "catalogd-webhook";
/// Where it is served.
pub(super) const PORT: u16 = 9443;

/// Its certificate: a Service of its own needs one of its own.
pub(super) fn serving() -> Serving {
    Serving { secret: "catalogd-webhook-cert", services: vec![SERVICE] }
}

pub(super) fn leads_to(namespace: &str, program: &str) -> Value {
    service(namespace, SERVICE, Some(program), &json!([port("webhook", 443, PORT)]))
}

/// The configuration.
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
