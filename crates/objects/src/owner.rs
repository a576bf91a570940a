//! Owners of objects. An object belongs to at most one owner. An existing object is taken over only if it belonged to the same owner before
//! (OLM1-OWN-01).

use serde_json::{Map, Value, json};

use crate::{ObjectError, ObjectRef};

const KEEP: &str = "helm.sh/resource-policy";

/// The owner of objects that are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The labels that mark its objects (OLM1-CTRL-10).
    pub labels: Vec<(String, String)>,
    /// The manager, as refusals name it: `operator-controller`.
    pub manager: String,
}

/// The refusal of an object with another owner, in the words of OLM1-OWN-03.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} '{name}' already exists in namespace '{namespace}' and cannot be managed by {manager}", kind = object.kind, name = object.name, namespace = object.namespace)]
pub struct NotOurs {
    /// The object.
    pub object: Box<ObjectRef>,
    /// The manager that may not manage it.
    pub manager: String,
    /// Its owner, if the object names one: kind and name.
    pub owner: Option<(String, String)>,
}

impl Owner {
    /// Marks an object as the owner's: sets labels, and a controller reference unless the object asks to be kept.
    pub fn mark(&self, object: &mut Value) {
        let Some(meta) = member(object, "metadata") else { return };
        if let Some(labels) = child(meta, "labels") {
            for (key, value) in &self.labels {
                labels.insert(key.clone(), Value::String(value.clone()));
            }
        }
        let kept = meta.get("annotations").and_then(|annotations| annotations.get(KEEP)).is_some_and(|policy| policy == "keep");
        if kept {
            return;
        }
        let reference = json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        });
        let references = meta.entry("ownerReferences").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(references) = references {
            references.retain(|reference| reference.get("uid").is_none_or(|uid| uid != self.uid.as_str()));
            references.push(reference);
        }
    }

    /// Returns whether an existing object is the owner's.
    ///
    /// A controller reference to the owner says so. The labels say so if the object has no controller, or if its controller has the owner's
    /// kind and name and was deleted and created again.
    pub fn owns(&self, live: &Value) -> bool {
        match controller(live) {
            Some(reference) if text(reference, "uid") == self.uid => return true,
            Some(reference) if text(reference, "kind") != self.kind || text(reference, "name") != self.name => return false,
            _ => {}
        }
        !self.labels.is_empty()
            && self.labels.iter().all(|(key, value)| {
                live.pointer("/metadata/labels").and_then(|labels| labels.get(key)).is_some_and(|own| own == value.as_str())
            })
    }

    /// Refuses an existing object that is not the owner's.
    pub fn check(&self, live: &Value) -> Result<(), NotOurs> {
        if self.owns(live) {
            return Ok(());
        }
        let object = ObjectRef::of(live).unwrap_or_else(|ObjectError(_)| ObjectRef {
            api_version: text(live, "apiVersion").to_owned(),
            kind: text(live, "kind").to_owned(),
            namespace: String::new(),
            name: String::new(),
        });
        let label = |suffix: &str| {
            let labels = live.pointer("/metadata/labels").and_then(Value::as_object)?;
            labels.iter().find(|(key, _)| key.ends_with(suffix)).and_then(|(_, value)| value.as_str()).map(str::to_owned)
        };
        let owner = controller(live)
            .map(|reference| (text(reference, "kind").to_owned(), text(reference, "name").to_owned()))
            .or_else(|| Some((label("/owner-kind")?, label("/owner-name")?)));
        Err(NotOurs { object: Box::new(object), manager: self.manager.clone(), owner })
    }
}

/// Returns whether the object asks to stay when its owner lets it go.
pub fn asks_to_be_kept(object: &Value) -> bool {
    object.pointer("/metadata/annotations").and_then(|annotations| annotations.get(KEEP)).is_some_and(|policy| policy == "keep")
}

fn controller(object: &Value) -> Option<&Value> {
    let references = object.pointer("/metadata/ownerReferences")?.as_array()?;
    references.iter().find(|reference| reference.get("controller").is_some_and(|flag| flag == true))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn member<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    child(value.as_object_mut()?, key)
}

fn child<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    let value = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            api_version: "olm.operatorframework.io/v1".into(),
            kind: "ClusterExtension".into(),
            name: "quay".into(),
            uid: "u1".into(),
            labels: vec![
                ("olm.operatorframework.io/owner-kind".into(), "ClusterExtension".into()),
                ("olm.operatorframework.io/owner-name".into(), "quay".into()),
            ],
            manager: "operator-controller".into(),
        }
    }

    /// OLM1-CTRL-10: labels and a controller reference; no reference where the object asks to be kept.
    #[test]
    fn marks() {
        let mut object = json!({"metadata": {"name": "x", "labels": null}});
        owner().mark(&mut object);
        owner().mark(&mut object);
        assert_eq!(object["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
        assert_eq!(object["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!(object["metadata"]["labels"]["olm.operatorframework.io/owner-name"], "quay");
        let mut kept = json!({"metadata": {"name": "x", "annotations": {"helm.sh/resource-policy": "keep"}}});
        owner().mark(&mut kept);
        assert!(kept["metadata"].get("ownerReferences").is_none());
        assert!(owner().owns(&kept));
    }

    /// OLM1-OWN-01, OLM1-OWN-03: whom an existing object belongs to, and the words of the refusal.
    #[test]
    fn existing_objects() {
        let with = |references: Value, labels: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n", "ownerReferences": references, "labels": labels}});
        let ours = json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "quay"});
        let reference = |name: &str, uid: &str| json!([{"kind": "ClusterExtension", "name": name, "uid": uid, "controller": true}]);
        assert!(owner().owns(&with(reference("quay", "u1"), json!({}))));
        assert!(owner().owns(&with(json!([]), ours.clone())));
        assert!(owner().owns(&with(reference("quay", "u0"), ours.clone())), "made again under the same name");
        assert!(!owner().owns(&with(reference("other", "u2"), ours)));
        assert!(!owner().owns(&with(json!([]), json!({}))), "nobody's is not ours");

        let refusal = owner().check(&with(reference("other", "u2"), json!({}))).map_err(|error| (error.to_string(), error.owner));
        assert_eq!(
            refusal,
            Err((
                "Service 's' already exists in namespace 'n' and cannot be managed by operator-controller".to_owned(),
                Some(("ClusterExtension".to_owned(), "other".to_owned()))
            ))
        );
        let crd =
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "q.example.com"}});
        let refusal = owner().check(&crd).map_err(|error| error.to_string());
        assert_eq!(
            refusal,
            Err("CustomResourceDefinition 'q.example.com' already exists in namespace '' and cannot be managed by operator-controller"
                .to_owned())
        );
    }
}
