//! The scale subresource, of built-in and of custom workloads (KAPI-REST-05). A Scale is a view of its parent: what is written
//! through it becomes the parent's replicas, and so does who wrote it.

use std::sync::{Arc, LazyLock};

use http::StatusCode;
use mainstay_kinds::{Gvk, Resource, registry};
use mainstay_merge::fieldset::{FieldSet, PathElement};
use mainstay_merge::managed::{self, Managed, Write, from_scale, to_scale};
use mainstay_schema::field::{Error as FieldError, Path};
use serde_json::Value;

use super::patch;
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
use crate::{clock, fields, strategy};

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
        options::check_patch(&context.request.query, negotiate::content_type(&context.request.headers) == patch::APPLY)?;
    }
    // A Scale need not name a version, even where its parent has to: the one that it names was compared before.
    let change = Change { sub: Some("scale"), options: &options, namespace: &info.namespace, name: &info.name, patch: true, given: None };
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
    // What a custom resource does not say yet is not known to be any number; a write gives it one.
    let mut seen = live.value.clone();
    if seen.pointer(&pointer).is_none() {
        set(&mut seen, &pointer, 0.into());
    }
    let mut current = scale_of(served, &seen)?;
    let entries = to_scale(&owners, &path).encode();
    if !entries.is_empty() {
        metadata_mut(&mut current).insert("managedFields".into(), entries.into());
    }
    let schema = registry().schema(&Gvk::of(VERSION, "Scale")).ok_or_else(|| ApiError::internal("Scale has no schema"))?;
    let (reset, now) = (FieldSet::new(), clock::now());
    let write =
        Write { manager: &options.field_manager, api_version: VERSION, subresource: "scale", schema: &schema, reset: &reset, now: &now };
    let wanted = match wanted(request, served, body, &current, options)? {
        Wanted::Scale(mut scale) => {
            if scale["metadata"].get("managedFields").is_none()
                && let Some(entries) = current["metadata"].get("managedFields")
            {
                metadata_mut(&mut scale).insert("managedFields".into(), entries.clone());
            }
            managed::update(&current, &scale, &write)
        }
        // Upstream's handler tries to convert the Scale between the versions of the custom resource.
        Wanted::Apply(_) if served.custom.is_some() => {
            return Err(ApiError::untyped(format!(
                "failed to create manager for existing fields: failed to convert live object (/; {VERSION}, Kind=Scale) to proper version: request to convert CR to an invalid group/version: {VERSION}"
            )));
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
    let entries = from_scale(&owners, &scale_owners, &path, &served.api_version()).encode();
    metadata_mut(&mut new).insert("managedFields".into(), entries.into());
    metadata_mut(&mut new).remove("resourceVersion");
    Ok(new)
}

enum Wanted {
    Scale(Value),
    Apply(Value),
}

/// Scale as a kind of its own: what is sent is read, checked and patched as an object of it.
static SCALE: LazyLock<Served> = LazyLock::new(|| {
    let facts = Resource {
        group: "autoscaling".into(),
        version: "v1".into(),
        kind: "Scale".into(),
        plural: "scales".into(),
        singular: "scale".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
        storage_version_hash: None,
    };
    Served::new(facts, "autoscaling/scales".into(), "v1".into(), None)
});

fn wanted(request: &ApiRequest, served: &Served, body: &[u8], current: &Value, options: &WriteOptions) -> Result<Wanted> {
    let scale = if request.info.verb == "update" {
        replaced(request, served, body, options)?
    } else {
        let content_type = negotiate::content_type(&request.headers);
        if content_type == patch::APPLY {
            return patch::read_applied(body).map(|(config, _)| Wanted::Apply(config));
        }
        let (read, problems) = patch::read(content_type, body);
        let read = read.ok_or_else(patch::no_such_patch)??;
        let mut new = patch::patched(request, &SCALE, &read, &problems, current, options)?;
        patch::placed(&request.info, &SCALE, &mut new)?;
        new
    };
    let uid = meta(&scale, "uid");
    if !uid.is_empty() && uid != meta(current, "uid") {
        let facts = &served.facts;
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", meta(current, "uid"));
        return Err(if request.info.verb == "update" {
            let key = strategy::shown_key(served, current);
            let why = format!("StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}");
            ApiError::conflict(&facts.group, &facts.plural, &request.info.name, &why)
        } else {
            ApiError::conflict(&facts.group, &format!("{}/scale", facts.plural), &request.info.name, &why)
        });
    }
    Ok(Wanted::Scale(scale))
}

/// The Scale that a PUT sends.
fn replaced(request: &ApiRequest, served: &Served, body: &[u8], options: &WriteOptions) -> Result<Value> {
    let decoded = negotiate::decode(&request.headers, body, "Scale")?;
    let given = decoded.value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    // Scales of older groups were served once, and are read before they are found to be of another version.
    let is_older = matches!(given, "extensions/v1beta1" | "apps/v1beta1" | "apps/v1beta2") && decoded.value["kind"] == "Scale";
    if served.custom.is_none() && is_older {
        let message = format!("the API version in the data ({given}) does not match the expected API version ({VERSION})");
        return Err(ApiError::bad_request(message));
    }
    let mut scale = strategy::decode(request, &SCALE, &SCALE.gvk(), decoded, options.field_validation).map_err(|error| {
        // The handler of custom resources has no internal type to name.
        let strict = error.message.contains("strict decoding error");
        match served.custom {
            Some(_) if !strict => {
                ApiError::bad_request("no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"")
            }
            _ => error,
        }
    })?;
    super::update::name_matches(&request.info, &scale)?;
    strategy::place(&request.info, &SCALE, &mut scale)?;
    strategy::default(&SCALE, &mut scale);
    Ok(scale)
}
