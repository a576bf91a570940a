//! The scale subresource, of built-in and of custom workloads (KAPI-REST-05). A Scale is a view of its parent: what is written
//! through it becomes the parent's replicas, and so does who wrote it.

use std::sync::Arc;

use http::StatusCode;
use mainstay_kinds::{Gvk, registry};
use mainstay_merge::fieldset::{FieldSet, PathElement};
use mainstay_merge::managed::{self, Managed, Write, from_scale, to_scale};
use mainstay_merge::patch;
use mainstay_schema::field::{Error as FieldError, Path};
use serde_json::Value;

use super::update::{Change, update_object};
use crate::context::Context;
use crate::error::{ApiError, Result};
use crate::object::{meta, metadata_mut};
use crate::request::options::{self, WriteOptions};
use crate::request::{ApiRequest, negotiate};
use crate::respond::{self, Answer};
use crate::scale::{VERSION, paths, scale_of, set};
use crate::served::Served;
use crate::stored::Loaded;
use crate::{clock, fields};

/// Answers get, update and patch of a scale.
pub async fn serve(context: &Context, served: &Arc<Served>, body: &[u8]) -> Result<Answer> {
    let info = &context.request.info;
    if info.verb == "get" {
        let live = context.api.objects.require(served, &info.namespace, &info.name).await?;
        return respond::object(&context.request, served, StatusCode::OK, scale_of(served, &live.value)?);
    }
    let patches = info.verb == "patch";
    let options =
        WriteOptions::parse(&context.request.query, if patches { "PatchOptions" } else { "UpdateOptions" }, context.request.user_agent())?;
    if patches {
        options::check_patch(&context.request.query, negotiate::content_type(&context.request.headers) == "application/apply-patch+yaml")?;
    }
    let change = Change { sub: Some("scale"), options: &options, namespace: &info.namespace, name: &info.name, patch: patches };
    let updated = update_object(context, served, &change, |live| {
        let options = &options;
        async move { scaled(&context.request, served, body, &live, options) }
    })
    .await?;
    respond::object(&context.request, served, StatusCode::OK, scale_of(served, &updated)?)
}

/// The parent with the replicas and the owners that the request gives it.
fn scaled(request: &ApiRequest, served: &Served, body: &[u8], live: &Loaded, options: &WriteOptions) -> Result<Value> {
    let owners = Managed::decode(live.value["metadata"].get("managedFields")).map_err(|error| ApiError::untyped(error.to_string()))?;
    let pointer = paths(served).spec;
    let path: Vec<PathElement> = pointer.trim_start_matches('/').split('/').map(PathElement::field).collect();
    let mut current = scale_of(served, &live.value)?;
    let entries = to_scale(&owners, &path).encode();
    if !entries.is_empty() {
        metadata_mut(&mut current).insert("managedFields".into(), entries.into());
    }
    let schema = registry().schema(&Gvk::of(VERSION, "Scale")).ok_or_else(|| ApiError::internal("Scale has no schema"))?;
    let (reset, now) = (FieldSet::new(), clock::now());
    let write =
        Write { manager: &options.field_manager, api_version: VERSION, subresource: "scale", schema: &schema, reset: &reset, now: &now };
    let wanted = match wanted(request, body, &current)? {
        Wanted::Scale(mut scale) => {
            if scale["metadata"].get("managedFields").is_none()
                && let Some(entries) = current["metadata"].get("managedFields")
            {
                metadata_mut(&mut scale).insert("managedFields".into(), entries.clone());
            }
            managed::update(&current, &scale, &write)
        }
        Wanted::Apply(config) => {
            managed::apply(&current, &config, &write, options.force == Some(true)).map_err(|error| fields::refused(&error))?.object
        }
    };
    let version = meta(&wanted, "resourceVersion");
    if !version.is_empty() && version != live.revision.to_string() {
        return Err(ApiError::modified(&served.facts.group, &served.facts.plural, &request.info.name));
    }
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    if replicas < 0 && served.custom.is_none() {
        let error = FieldError::invalid(&Path::new("spec.replicas"), replicas, "must be greater than or equal to 0");
        return Err(ApiError::invalid_fields("autoscaling", "Scale", &request.info.name, &[error]));
    }
    let scale_owners = Managed::decode(wanted["metadata"].get("managedFields")).map_err(|error| ApiError::untyped(error.to_string()))?;
    let mut new = live.value.clone();
    set(&mut new, &pointer, replicas.into());
    let mut entries = from_scale(&owners, &scale_owners, &path, &served.api_version()).encode();
    for entry in entries.iter_mut().filter(|entry| entry["operation"] == "Apply" && entry["subresource"] == "scale") {
        // Appliers through Scale have no time of their own.
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    metadata_mut(&mut new).insert("managedFields".into(), entries.into());
    metadata_mut(&mut new).remove("resourceVersion");
    Ok(new)
}

enum Wanted {
    Scale(Value),
    Apply(Value),
}

fn wanted(request: &ApiRequest, body: &[u8], current: &Value) -> Result<Wanted> {
    if request.info.verb == "update" {
        return Ok(Wanted::Scale(negotiate::decode(&request.headers, body, "Scale")?.value));
    }
    let refused = |error: patch::PatchError| super::patch::refused(&error);
    let mut scale = current.clone();
    match negotiate::content_type(&request.headers) {
        "application/json-patch+json" => {
            let operations = patch::decode_json_patch(body).map_err(refused)?;
            patch::json_patch(&mut scale, &operations).map_err(refused)?;
        }
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            patch::merge_patch(&mut scale, &patch::decode_object_patch(body).map_err(refused)?);
        }
        "application/apply-patch+yaml" => {
            let text = std::str::from_utf8(body).map_err(|_| ApiError::bad_request("error decoding YAML: the body is not UTF-8"))?;
            return mainstay_yaml::parse(text)
                .map(Wanted::Apply)
                .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")));
        }
        _ => return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", "415: Unsupported Media Type")),
    }
    Ok(Wanted::Scale(scale))
}
