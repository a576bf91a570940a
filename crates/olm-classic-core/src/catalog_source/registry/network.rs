//! The NetworkPolicies of a source: who may call its server, and whom unpack Jobs may call.

use serde_json::{Value, json};

use super::{MANAGED, SOURCE, is_config_map, owner, pod_labels, text};
use crate::catalog_source::PORT;
use crate::unpack;

/// The two policies of a source.
pub fn policies(source: &Value) -> [Value; 2] {
    let mut server = json!({
        "podSelector": {"matchLabels": pod_labels(source)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": PORT}]}],
    });
    if is_config_map(source) {
        server["egress"] = outwards();
    }
    let unpacking = json!({
        "podSelector": {"matchExpressions": [
            {"key": unpack::LABEL, "operator": "Exists"},
            {"key": MANAGED, "operator": "In", "values": ["true"]},
        ]},
        "policyTypes": ["Ingress", "Egress"],
        "egress": outwards(),
    });
    [policy(source, "grpc-server", server), policy(source, "unpack-bundles", unpacking)]
}

/// The API server, wherever it is, and name servers.
fn outwards() -> Value {
    let port = |protocol: &str, port: u16| json!({"protocol": protocol, "port": port});
    json!([{}, {"ports": [port("TCP", 53), port("UDP", 53), port("TCP", 5353), port("UDP", 5353)]}])
}

#[allow(clippy::needless_pass_by_value, reason = "it becomes part of the object")]
fn policy(source: &Value, suffix: &str, spec: Value) -> Value {
    let name = text(source, "name");
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {
            "name": format!("{name}-{suffix}"), "namespace": text(source, "namespace"),
            "labels": {MANAGED: "true", SOURCE: name}, "ownerReferences": owner(source, false, false),
        },
        "spec": spec,
    })
}
