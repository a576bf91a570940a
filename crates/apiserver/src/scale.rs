//! Scale as a view of its parent: where a kind keeps replicas and selector (KAPI-REST-05).

use serde_json::{Value, json};

use crate::error::{ApiError, Result};
use crate::served::Served;
use crate::strategy;

/// The version of Scale.
pub const VERSION: &str = "autoscaling/v1";

/// The places where a kind keeps what Scale shows, as JSON pointers.
pub struct Paths {
    /// The wanted replicas.
    pub spec: String,
    status: String,
    selector: Option<String>,
}

/// The places of a kind.
pub fn paths(served: &Served) -> Paths {
    match served.custom.as_ref().and_then(|custom| custom.scale.as_ref()) {
        Some(scale) => Paths { spec: scale.spec.clone(), status: scale.status.clone(), selector: scale.selector.clone() },
        None => Paths { spec: "/spec/replicas".into(), status: "/status/replicas".into(), selector: None },
    }
}

/// Sets a value at a JSON pointer; objects on the way are made.
pub fn set(value: &mut Value, pointer: &str, wanted: Value) {
    let mut node = value;
    for part in pointer.trim_start_matches('/').split('/') {
        if !node.is_object() {
            *node = json!({});
        }
        node = &mut node[part];
    }
    *node = wanted;
}

/// The replicas of a Scale, put into its parent.
pub fn rescale(served: &Served, parent: &mut Value, scale: &Value) {
    set(parent, &paths(served).spec, scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default().into());
}

/// A parent as a Scale.
pub fn scale_of(served: &Served, object: &Value) -> Result<Value> {
    let paths = paths(served);
    let mut metadata = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
    let replicas = object.pointer(&paths.spec).and_then(Value::as_i64);
    if served.custom.is_some() && replicas.is_none() {
        let path = paths.spec.replace('/', ".");
        return Err(ApiError::internal(format!("the spec replicas field {path:?} does not exist")));
    }
    let mut status = serde_json::Map::new();
    status.insert("replicas".into(), object.pointer(&paths.status).and_then(Value::as_i64).unwrap_or_default().into());
    let selector = match &paths.selector {
        Some(path) => object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None if served.custom.is_some() => String::new(),
        None => strategy::selector_text(object.pointer("/spec/selector")),
    };
    if !selector.is_empty() {
        status.insert("selector".into(), selector.into());
    }
    // Go leaves a zero out, but not the spec that held it.
    let mut scale = json!({"kind": "Scale", "apiVersion": VERSION, "metadata": metadata, "spec": {}, "status": status});
    if let Some(replicas) = replicas.filter(|replicas| *replicas != 0) {
        scale["spec"] = json!({"replicas": replicas});
    }
    Ok(scale)
}
