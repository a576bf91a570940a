//! Objects in the form in which they are applied: their content, their marks, and the comparison with the live ones.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use mainstay_kinds::{Gvk, go_form, registry};
use mainstay_objects::{ObjectRef, Owner};
use mainstay_schema::quantity::written_in_milli;
use serde_json::Value;

/// Kinds whose objects have no namespace even if the rendering sets one (OLM1-INST-17).
const CLUSTER_SCOPED: [&str; 2] = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];

/// Metadata that the server decides; a manifest cannot set it.
const SERVER_SIDE: [&str; 7] =
    ["creationTimestamp", "managedFields", "resourceVersion", "uid", "generation", "selfLink", "ownerReferences"];

/// Returns the object as it is applied: with its owner, without the fields that the server decides.
pub fn owned(mut object: Value, owner: &Owner) -> Value {
    let cluster_scoped = object["kind"].as_str().is_some_and(|kind| CLUSTER_SCOPED.contains(&kind));
    if let Value::Object(map) = &mut object {
        map.remove("status");
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            metadata.retain(|key, _| !(SERVER_SIDE.contains(&key.as_str()) || cluster_scoped && key == "namespace"));
        }
    }
    owner.mark(&mut object);
    object
}

/// Returns true if an object of which `manager` wrote fields has no controller: only its marks were removed. An object that another party created
/// in its place has no marks either, but `manager` never wrote any of its fields (OLM1-OWN-01).
pub fn lost_its_marks(live: &Value, manager: &str) -> bool {
    let items = |pointer: &str| live.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    items("/metadata/ownerReferences").all(|owner| owner["controller"] != Value::Bool(true))
        && items("/metadata/managedFields").any(|entry| entry["manager"] == manager)
}

/// Returns a live object in the reduced form that is kept while a plan is made: only the names of its field managers remain, since the fields of
/// each are often larger than the object itself.
pub fn lean(mut live: Value) -> Value {
    for entry in live.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        let manager = entry["manager"].take();
        *entry = serde_json::json!({ "manager": manager });
    }
    live
}

/// Returns true if the request that creates the object has to name it. Escalation prevention asks for `escalate` on the very role that is
/// written. A POST names no object, so a permission to escalate this role alone would not count.
pub fn is_created_by_name(object: &Value) -> bool {
    object["apiVersion"].as_str().is_some_and(|version| version.starts_with("rbac.authorization.k8s.io/"))
        && matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"))
}

/// Returns the reference to an object. A rendered object always has its kind and name.
pub fn place(object: &Value) -> ObjectRef {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ObjectRef {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: text(&object["metadata"]["namespace"]),
        name: text(&object["metadata"]["name"]),
    }
}

/// Returns true if a live object is as it was applied: `live` holds everything in `wanted`, in the form in which the server stores it.
pub fn stands(wanted: &Value, live: &Value) -> bool {
    // Most objects are written in their stored form.
    holds(wanted, live) || holds(&as_stored(wanted), live)
}

/// Returns an object in the form in which the server stores it: quantities in canonical form, without fields that its type does not have, and
/// with shorthand such as `stringData` expanded.
fn as_stored(wanted: &Value) -> Value {
    let mut object = wanted.clone();
    let text = |key: &str| wanted[key].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if (version, kind) == ("v1", "Secret")
        && let Some(Value::Object(plain)) = object.as_object_mut().and_then(|secret| secret.remove("stringData"))
    {
        let encoded = |value: &Value| Value::from(BASE64.encode(value.as_str().unwrap_or_default()));
        for (key, value) in &plain {
            object["data"][key] = encoded(value);
        }
    }
    unbroken(&mut object, kind);
    let gvk = Gvk::of(version, kind);
    go_form(&gvk, &mut object);
    if (version, kind) == ("v1", "Service") {
        own_ports(&mut object);
    }
    // In custom resources it is unknown which fields are quantities.
    if registry().schema(&gvk).is_some() {
        in_thousandths(&mut object);
    }
    object
}

/// Sets the target of a Service port that has none to the port's own number.
fn own_ports(service: &mut Value) {
    for port in service.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if matches!(&port["targetPort"], Value::Null) || port["targetPort"] == 0 || port["targetPort"] == "" {
            port["targetPort"] = port["port"].clone();
        }
    }
}

/// Rounds resource quantities up to thousandths, as the server stores them.
fn in_thousandths(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), &mut *value) {
                    ("requests" | "limits", Value::Object(amounts)) => {
                        for amount in amounts.values_mut() {
                            if let Some(written) = amount.as_str().and_then(|text| written_in_milli(text).ok()) {
                                *amount = written.into();
                            }
                        }
                    }
                    (_, value) => in_thousandths(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(in_thousandths),
        _ => {}
    }
}

/// Removes line breaks from base64. Go accepts them and does not write them.
fn unbroken(value: &mut Value, kind: &str) {
    let join = |text: &mut Value| {
        if let Value::String(text) = text {
            text.retain(|one| one != '\n' && one != '\r');
        }
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), &mut *value) {
                    ("caBundle", value) if kind != "ConfigMap" => join(value),
                    // In a ConfigMap, `data` is plain text.
                    ("binaryData", Value::Object(data)) if kind == "ConfigMap" => data.values_mut().for_each(join),
                    ("data", Value::Object(data)) if kind == "Secret" => data.values_mut().for_each(join),
                    ("webhooks" | "clientConfig" | "spec" | "conversion" | "webhook", value) => unbroken(value, ""),
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| unbroken(item, "")),
        _ => {}
    }
}

/// Returns true if `live` holds everything in `wanted`, literally. Additions by the server do not count.
pub fn holds(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            wanted.iter().all(|(key, value)| live.get(key).map_or_else(|| is_empty(value), |live| holds(value, live)))
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len() && wanted.iter().zip(live).all(|(wanted, live)| holds(wanted, live))
        }
        // JSON has one kind of number.
        (Value::Number(wanted), Value::Number(live)) => wanted == live || wanted.as_f64() == live.as_f64(),
        (wanted, live) => wanted == live || (is_empty(wanted) && is_empty(live)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MANAGER: &str = "installer";

    fn widgets() -> Owner {
        let labels = vec![("example.com/owner".to_owned(), "widgets".to_owned())];
        Owner { api_version: "g/v1".into(), kind: "Widget".into(), name: "widgets".into(), uid: "u1".into(), labels, manager: "m".into() }
    }

    /// OLM1-CTRL-10: labels and the owner on every object; what the server decides is left to it.
    #[test]
    fn objects_carry_their_owner() {
        let object = owned(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "creationTimestamp": null}, "status": {}}),
            &widgets(),
        );
        assert_eq!(object["metadata"]["labels"]["example.com/owner"], "widgets");
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "u1");
        assert!(object.get("status").is_none() && object["metadata"].get("creationTimestamp").is_none());
        let webhook = json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "a", "namespace": "b"}});
        assert!(owned(webhook, &widgets())["metadata"].get("namespace").is_none());
    }

    /// OLM1-OWN-01: an object without marks is the extension's where this controller wrote it, and nobody's where it was made anew.
    #[test]
    fn who_wrote_an_object_tells_whose_it_is() {
        let managed = |managers: &[&str], owners: Value| {
            let fields: Vec<Value> = managers.iter().map(|one| json!({"manager": one, "fieldsV1": {"f:data": {}}})).collect();
            lean(json!({"metadata": {"name": "a", "managedFields": fields, "ownerReferences": owners}}))
        };
        let ours = managed(&["kubectl-edit", MANAGER], json!([]));
        assert_eq!(ours["metadata"]["managedFields"], json!([{"manager": "kubectl-edit"}, {"manager": MANAGER}]));
        assert!(lost_its_marks(&ours, MANAGER));
        assert!(lost_its_marks(&managed(&[MANAGER], json!([{"name": "x", "controller": false}])), MANAGER));
        assert!(!lost_its_marks(&managed(&[MANAGER], json!([{"name": "x", "controller": true}])), MANAGER));
        assert!(!lost_its_marks(&managed(&["kubectl-create"], json!([])), MANAGER));
        assert!(!lost_its_marks(&json!({"metadata": {"name": "a"}}), MANAGER));
    }

    #[test]
    fn what_the_server_adds_is_no_drift() {
        let wanted = json!({"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "a", "resources": {}}]}}}});
        let live = json!({"spec": {"replicas": 1, "paused": false, "template": {"spec": {"containers": [{"name": "a", "imagePullPolicy": "Always"}]}}}});
        assert!(holds(&wanted, &live));
        let changed = json!({"spec": {"replicas": 0, "template": {"spec": {"containers": [{"name": "a"}]}}}});
        assert!(!holds(&wanted, &changed));
        assert!(!holds(&json!([1, 2]), &json!([1])));
    }

    /// OLM1-INST-14: what the server stores in another form than it was written in is no drift.
    #[test]
    fn what_is_stored_in_another_form_is_no_drift() {
        let deployment = |quantities: [&str; 3], more: Value| {
            let [cpu, memory, size] = quantities;
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": size}}],
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, "more": more}]}}}})
        };
        let live = deployment(["1m", "128Mi", "1Gi"], Value::Null);
        for (cpu, memory, size) in [("100n", "131072Ki", "1024Mi"), ("0.001", "128Mi", "1Gi"), ("1m", "0.125Gi", "1Gi")] {
            assert!(stands(&deployment([cpu, memory, size], Value::Null), &live), "{cpu} {memory} {size}");
        }
        assert!(stands(&deployment(["1m", "128Mi", "1Gi"], json!("a field that the type does not have")), &live));
        assert!(!stands(&deployment(["2m", "128Mi", "1Gi"], Value::Null), &live));
        let secret = |key: &str, value: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, key: value});
        let live = secret("data", json!({"a": "aGVsbG8gd29ybGQ="}));
        assert!(stands(&secret("stringData", json!({"a": "hello world"})), &live));
        assert!(!stands(&secret("stringData", json!({"a": "hello"})), &live));
        assert!(stands(&secret("data", json!({"a": "aGVsbG8g\nd29ybGQ=\n"})), &live));
        let hook = |bundle: &str| {
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "h"},
                "webhooks": [{"name": "w", "clientConfig": {"caBundle": bundle}}]})
        };
        assert!(stands(&hook("aGVs\nbG8="), &hook("aGVsbG8=")));
        let map = |text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"caBundle": text}});
        assert!(!stands(&map("a\nb"), &map("ab")), "a ConfigMap's text is text");
        let crd = |maximum: Value| {
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"},
                "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"maximum": maximum}}}}}]}})
        };
        assert!(stands(&crd(json!(10.0)), &crd(json!(10))));
    }
}
