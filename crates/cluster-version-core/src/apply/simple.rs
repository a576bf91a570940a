//! Services, roles, bindings, webhooks and definitions.

use serde_json::{Map, Value, json};

use super::value::{Merge, assign, equal, get, get_map, is_nothing, list, part, with_defaults};

/// The annotation by which an object's CA bundle is filled in by another.
const INJECT_CA_BUNDLE: &str = "service.beta.openshift.io/inject-cabundle";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn service(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let (live, wanted) = (part(live, "spec"), get_map(wanted, "spec"));
    merge.items(live, wanted, "ports", "name", |merge, live, wanted| {
        let wanted = with_defaults(wanted.clone(), &[("protocol", json!("TCP")), ("targetPort", wanted["port"].clone())]);
        if !equal(live, &wanted) {
            merge.modified = true;
            *live = wanted;
        }
    });
    let default = json!("ClusterIP");
    let kind = get(wanted, "type");
    merge.put(live, "type", if is_nothing(kind) { &default } else { kind });
    merge.set(live, wanted, "selector");
}

/// The rules of an aggregated role belong to the control plane.
pub(super) fn cluster_role(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    merge.set(live, wanted, "aggregationRule");
    if get(wanted, "aggregationRule").is_null() {
        merge.set(live, wanted, "rules");
    }
}

pub(super) fn binding(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    merge.set(live, wanted, "subjects");
    let role = with_defaults(get(wanted, "roleRef").clone(), &[("apiGroup", json!(RBAC_GROUP))]);
    merge.put(live, "roleRef", &role);
}

fn injects_ca_bundle(live: &Map<String, Value>) -> bool {
    get(get_map(get_map(live, "metadata"), "annotations"), INJECT_CA_BUNDLE) == "true"
}

pub(super) fn definition(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    const CLIENT: &str = "/conversion/webhook/clientConfig";
    let mut spec = get(wanted, "spec").clone();
    if injects_ca_bundle(live) && spec["conversion"]["strategy"] == "Webhook" {
        let bundle = get(live, "spec").pointer(CLIENT).map(|client| client["caBundle"].clone());
        if let (Some(bundle), Some(client)) = (bundle, spec.pointer_mut(CLIENT).and_then(Value::as_object_mut)) {
            assign(client, "caBundle", &bundle);
        }
    }
    merge.put(live, "spec", &spec);
}

pub(super) fn webhooks(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let mut webhooks: Vec<Value> = list(wanted, "webhooks").iter().cloned().map(webhook).collect();
    if injects_ca_bundle(live)
        && let Some(first) = list(live, "webhooks").first()
    {
        // One bundle is filled into all of them.
        let bundle = first["clientConfig"]["caBundle"].clone();
        for client in webhooks.iter_mut().filter_map(|webhook| webhook["clientConfig"].as_object_mut()) {
            assign(client, "caBundle", &bundle);
        }
    }
    merge.put(live, "webhooks", &Value::Array(webhooks));
}

fn webhook(mut webhook: Value) -> Value {
    let Some(map) = webhook.as_object_mut() else { return webhook };
    let defaults = [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("timeoutSeconds", json!(10)),
    ];
    for (field, default) in defaults {
        map.entry(field).or_insert(default);
    }
    for rule in map.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        rule.entry("scope").or_insert(json!("*"));
    }
    webhook
}
