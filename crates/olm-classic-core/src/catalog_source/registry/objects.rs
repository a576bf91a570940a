//! The objects of a source besides its pod.

use mainstay_bundle::go::to_string;
use serde_json::{Value, json};

use super::{MANAGED, SERVICE_HASH, SOURCE, is_config_map, network, owner, text};
use crate::catalog_source::{PORT, service_name};
use crate::hash;

const RBAC: &str = "rbac.authorization.k8s.io";

/// The ServiceAccount of a source's pod.
pub fn account_name(source: &Value) -> String {
    let name = text(source, "name");
    if is_config_map(source) { format!("{name}-configmap-server") } else { name.to_owned() }
}

/// The Service of a source, with the hash of its spec (OLM0-CAT-16).
pub fn service(source: &Value) -> Value {
    let name = text(source, "name");
    let mut selector = json!({SOURCE: name});
    // The Service of a ConfigMap source is named as the source is, and selects by one label.
    let service = if is_config_map(source) {
        name.to_owned()
    } else {
        selector[MANAGED] = json!("true");
        service_name(name)
    };
    // The order of the fields is that of the struct, which the hash goes by.
    let hashed =
        format!("{{\"ports\":[{{\"name\":\"grpc\",\"port\":{PORT},\"targetPort\":{PORT}}}],\"selector\":{}}}", to_string(&selector));
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": service, "namespace": text(source, "namespace"),
            "labels": {MANAGED: "true", SERVICE_HASH: hash::of_encoded(&hashed)},
            "ownerReferences": owner(source, false, false),
        },
        "spec": {"ports": [{"name": "grpc", "port": PORT, "targetPort": PORT}], "selector": selector},
    })
}

/// The objects of a source that stay as they are while it exists: ServiceAccount and NetworkPolicies, and with a ConfigMap the Role and
/// RoleBinding by which its server reads it.
pub fn fixed(source: &Value) -> Vec<Value> {
    let (name, namespace) = (text(source, "name"), text(source, "namespace"));
    let mut account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": account_name(source), "namespace": namespace, "labels": {MANAGED: "true"}},
    });
    if !is_config_map(source) {
        account["metadata"]["ownerReferences"] = owner(source, true, true);
        let secrets: Vec<Value> = secrets(source).map(|name| json!({"name": name})).collect();
        if !secrets.is_empty() {
            account["imagePullSecrets"] = json!(secrets);
        }
        return network::policies(source).into_iter().chain([account]).collect();
    }
    account["metadata"]["ownerReferences"] = owner(source, false, false);
    let role = format!("{name}-configmap-reader");
    let meta = |name: &str| json!({"name": name, "namespace": namespace, "labels": {MANAGED: "true"}, "ownerReferences": owner(source, false, false)});
    let reader = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": meta(&role),
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [source["spec"]["configMap"]]}],
    });
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": meta(&format!("{name}-server-configmap-reader")),
        "subjects": [{"kind": "ServiceAccount", "name": account_name(source), "namespace": namespace}],
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
    });
    network::policies(source).into_iter().chain([account, reader, binding]).collect()
}

/// The Secrets for pulling the image of a source (OLM0-CAT-10).
pub(crate) fn secrets(source: &Value) -> impl Iterator<Item = &str> {
    let names = source["spec"]["secrets"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.filter(|name| !name.is_empty())
}
