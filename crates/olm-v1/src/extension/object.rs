//! Objects of an extension: their owner, their form, and whether the live ones still are as applied.

use mainstay_api::olm_v1::{ClusterExtension, OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_apply::{ObjectRef, Owner};
use serde_json::Value;

use super::act::FIELD_MANAGER;

/// The owner of everything that is applied for an extension (OLM1-CTRL-10).
pub fn owner(extension: &ClusterExtension) -> Owner {
    let name = extension.metadata.name.clone().unwrap_or_default();
    Owner {
        api_version: "olm.operatorframework.io/v1".to_owned(),
        kind: "ClusterExtension".to_owned(),
        labels: vec![(OWNER_KIND_LABEL.to_owned(), "ClusterExtension".to_owned()), (OWNER_NAME_LABEL.to_owned(), name.clone())],
        name,
        uid: extension.metadata.uid.clone().unwrap_or_default(),
        manager: "operator-controller".to_owned(),
    }
}

/// Kinds whose objects have no namespace although the rendering may carry one (OLM1-INST-17).
const CLUSTER_SCOPED: [&str; 2] = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];

/// What the server decides, so that a manifest has no say in it.
const SERVER_SIDE: [&str; 7] =
    ["creationTimestamp", "managedFields", "resourceVersion", "uid", "generation", "selfLink", "ownerReferences"];

/// The object as it is applied: with its owner, without what the server decides.
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

/// Whether nobody controls an object of which this controller wrote fields: somebody only took its marks off. What somebody else made anew
/// in the place of an object has no marks either, but none of its fields was ever written from here (OLM1-OWN-01).
pub fn lost_its_marks(live: &Value) -> bool {
    let items = |pointer: &str| live.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    items("/metadata/ownerReferences").all(|owner| owner["controller"] != Value::Bool(true))
        && items("/metadata/managedFields").any(|entry| entry["manager"] == FIELD_MANAGER)
}

/// A live object as it is kept while a plan is made: of its managers only the names, since the fields of each are often larger than the
/// object itself.
pub fn lean(mut live: Value) -> Value {
    for entry in live.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        let manager = entry["manager"].take();
        *entry = serde_json::json!({ "manager": manager });
    }
    live
}

/// The place of an object; a rendered one always says what it is.
pub fn place(object: &Value) -> ObjectRef {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ObjectRef {
        api_version: text(&object["apiVersion"]),
        kind: text(&object["kind"]),
        namespace: text(&object["metadata"]["namespace"]),
        name: text(&object["metadata"]["name"]),
    }
}

/// Whether everything that `wanted` says is so in `live`. What the server adds does not count; a value that it writes in another form
/// (a quantity, say) counts as different, and applying it again changes nothing.
pub fn holds(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            wanted.iter().all(|(key, value)| live.get(key).map_or_else(|| is_empty(value), |live| holds(value, live)))
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len() && wanted.iter().zip(live).all(|(wanted, live)| holds(wanted, live))
        }
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

    fn widgets() -> Owner {
        let labels = vec![(OWNER_NAME_LABEL.to_owned(), "widgets".to_owned())];
        Owner {
            api_version: "g/v1".into(),
            kind: "ClusterExtension".into(),
            name: "widgets".into(),
            uid: "u1".into(),
            labels,
            manager: "m".into(),
        }
    }

    /// OLM1-CTRL-10: labels and the owner on every object; what the server decides is left to it.
    #[test]
    fn objects_carry_their_owner() {
        let object = owned(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "creationTimestamp": null}, "status": {}}),
            &widgets(),
        );
        assert_eq!(object["metadata"]["labels"][OWNER_NAME_LABEL], "widgets");
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
        let ours = managed(&["kubectl-edit", FIELD_MANAGER], json!([]));
        assert_eq!(ours["metadata"]["managedFields"], json!([{"manager": "kubectl-edit"}, {"manager": FIELD_MANAGER}]));
        assert!(lost_its_marks(&ours));
        assert!(lost_its_marks(&managed(&[FIELD_MANAGER], json!([{"name": "x", "controller": false}]))));
        assert!(!lost_its_marks(&managed(&[FIELD_MANAGER], json!([{"name": "x", "controller": true}]))));
        assert!(!lost_its_marks(&managed(&["kubectl-create"], json!([]))));
        assert!(!lost_its_marks(&json!({"metadata": {"name": "a"}})));
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
}
