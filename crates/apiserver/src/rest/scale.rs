//! The scale subresource, of built-in and of custom workloads (KAPI-REST-05).

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::update::{Change, update_object};
use crate::api::Loaded;
use crate::error::{ApiError, Result};
use crate::negotiate;
use crate::object::{meta, metadata_mut};
use crate::options::WriteOptions;
use crate::respond::Answer;
use crate::served::Served;
use crate::server::Context;
use crate::{fields, strategy};

/// Where a kind keeps what Scale shows, as JSON pointers.
pub struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
}

fn paths(served: &Served) -> Paths {
    match served.custom.as_ref().and_then(|custom| custom.scale.as_ref()) {
        Some(scale) => Paths { spec: scale.spec.clone(), status: scale.status.clone(), selector: scale.selector.clone() },
        None => Paths { spec: "/spec/replicas".into(), status: "/status/replicas".into(), selector: None },
    }
}

/// Answers get, update and patch of a scale.
pub async fn serve(context: &Context, served: &Arc<Served>, body: &[u8]) -> Result<Answer> {
    let info = &context.info;
    if info.verb == "get" {
        let live = context.api.require(served, &info.namespace, &info.name).await?;
        return Ok(Answer::value(StatusCode::OK, context.agreed.format, &scale_of(served, &live.value)?));
    }
    let kind = if info.verb == "update" { "UpdateOptions" } else { "PatchOptions" };
    let options = WriteOptions::parse(&context.query, kind, context.user_agent())?;
    let change = Change { sub: Some("scale"), options: &options, namespace: &info.namespace, name: &info.name, patch: info.verb == "patch" };
    let updated = update_object(context, served, &change, |live| {
        let options = &options;
        async move { scaled(context, served, body, &live, options) }
    })
    .await?;
    Ok(Answer::value(StatusCode::OK, context.agreed.format, &scale_of(served, &updated)?))
}

fn scaled(context: &Context, served: &Served, body: &[u8], live: &Loaded, options: &WriteOptions) -> Result<Value> {
    let current = scale_of(served, &live.value)?;
    let wanted = if context.info.verb == "update" {
        negotiate::decode(&context.headers, body, "Scale")?.value
    } else {
        let mut scale = current.clone();
        match negotiate::content_type(&context.headers) {
            "application/json-patch+json" => {
                let operations = mainstay_merge::patch::decode_json_patch(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
                mainstay_merge::json_patch(&mut scale, &operations).map_err(|error| ApiError::bad_request(error.to_string()))?;
            }
            "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
                let patch = mainstay_merge::patch::decode_object_patch(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
                mainstay_merge::merge_patch(&mut scale, &patch);
            }
            "application/apply-patch+yaml" => {
                let text = String::from_utf8_lossy(body);
                let patch = mainstay_yaml::parse(&text).map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
                mainstay_merge::merge_patch(&mut scale, &patch);
            }
            _ => return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", "415: Unsupported Media Type")),
        }
        scale
    };
    let version = meta(&wanted, "resourceVersion");
    let stale = !version.is_empty() && version != live.revision.to_string();
    if stale {
        return Err(ApiError::modified(&served.facts.group, &served.facts.plural, &context.info.name));
    }
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    if replicas < 0 {
        let error = mainstay_schema::field::Error::invalid(
            &mainstay_schema::field::Path::new("spec.replicas"),
            replicas,
            "must be greater than or equal to 0",
        );
        return Err(ApiError::invalid_fields("autoscaling", "Scale", &context.info.name, &[error]));
    }
    let mut new = live.value.clone();
    set(&mut new, &paths(served).spec, replicas.into());
    fields::written(context, served, Some(&live.value), &mut new, &options.field_manager, Some("scale"))?;
    if version.is_empty() || context.info.verb == "patch" {
        metadata_mut(&mut new).remove("resourceVersion");
    }
    Ok(new)
}

fn set(value: &mut Value, pointer: &str, wanted: Value) {
    let mut node = value;
    for part in pointer.trim_start_matches('/').split('/') {
        if !node.is_object() {
            *node = json!({});
        }
        node = &mut node[part];
    }
    *node = wanted;
}

fn scale_of(served: &Served, object: &Value) -> Result<Value> {
    let paths = paths(served);
    let mut metadata = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
    let mut spec = serde_json::Map::new();
    let replicas = object.pointer(&paths.spec).and_then(Value::as_i64);
    if served.custom.is_some() && replicas.is_none() {
        let path = paths.spec.replace('/', ".");
        return Err(ApiError::internal(format!("the spec replicas field {path:?} does not exist")));
    }
    if let Some(replicas) = replicas.filter(|replicas| *replicas != 0) {
        spec.insert("replicas".into(), replicas.into());
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
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "status": status});
    if !spec.is_empty() {
        scale["spec"] = Value::Object(spec);
    }
    Ok(scale)
}
