//! The true exceptions: paths whose behaviour is not that of a stored object.

use std::sync::Arc;

use http::StatusCode;
use mainstay_store::Expect;
use serde_json::{Value, json};

use super::update::{Change, update_object};
use crate::admission::{Operation, Request, posted};
use crate::context::Context;
use crate::error::{ApiError, Result};
use crate::object::{meta, meta_list, metadata_mut};
use crate::request::negotiate;
use crate::request::options::WriteOptions;
use crate::respond::{self, Answer};
use crate::served::Served;
use crate::{fields, strategy};

/// Creations that store something else than the body, or nothing.
pub async fn create(context: &Context, served: &Arc<Served>, body: &[u8]) -> Result<Option<Answer>> {
    if served.is("", "bindings") {
        let decoded = negotiate::decode(&context.request.headers, body, "Binding")?;
        let name = meta(&decoded.value, "name").to_owned();
        return bind(context, &name, decoded.value).await.map(Some);
    }
    context.api.access.create(&context.request, served, body).await
}

/// Subresources that are no part of the object.
pub async fn subresource(context: &Context, served: &Arc<Served>, body: &[u8]) -> Result<Option<Answer>> {
    let info = &context.request.info;
    match (info.resource.as_str(), info.subresource.as_str(), info.verb.as_str()) {
        ("namespaces", "finalize", "update") => finalize(context, served, body).await.map(Some),
        ("pods", "binding", "create") => {
            let decoded = negotiate::decode(&context.request.headers, body, "Binding")?;
            if !matches!(meta(&decoded.value, "name"), named if named.is_empty() || named == info.name) {
                return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
            }
            bind(context, &info.name, decoded.value).await.map(Some)
        }
        ("pods", "eviction", "create") => crate::eviction::evict(context, body).await.map(Some),
        ("pods", "log", "get") => super::log::log(context).await.map(Some),
        ("pods", "exec" | "attach" | "portforward" | "proxy", _) | ("services" | "nodes", "proxy", _) => {
            Err(super::log::refusal(context).await)
        }
        _ => context.api.access.subresource(&context.request, served, body),
    }
}

/// `namespaces/NAME/finalize`: the one way to change `spec.finalizers`; the last one gone, the namespace goes.
async fn finalize(context: &Context, served: &Arc<Served>, body: &[u8]) -> Result<Answer> {
    let options = WriteOptions::parse(&context.request.query, "UpdateOptions", context.request.user_agent())?;
    let decoded = negotiate::decode(&context.request.headers, body, "Namespace")?;
    let wanted = strategy::decode(&context.request, served, &served.gvk(), decoded, options.field_validation)?;
    super::update::name_matches(&context.request.info, &wanted)?;
    let name = &context.request.info.name;
    for _ in 0..8 {
        let live = context.api.objects.require(served, "", name).await?;
        let version = meta(&wanted, "resourceVersion");
        if !version.is_empty() && version != live.revision.to_string() {
            return Err(ApiError::modified("", "namespaces", name));
        }
        let mut new = live.value.clone();
        match wanted.pointer("/spec/finalizers") {
            Some(finalizers) if finalizers.as_array().is_some_and(|list| !list.is_empty()) => {
                new["spec"]["finalizers"] = finalizers.clone();
            }
            _ => {
                if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("finalizers");
                }
            }
        }
        fields::written(served, Some(&live.value), &mut new, &options.field_manager, Some("finalize")).await;
        let over = !meta(&new, "deletionTimestamp").is_empty() && !strategy::held(served, &new) && meta_list(&new, "finalizers").is_empty();
        let outcome = if options.dry_run || new == live.value {
            Ok(())
        } else if over {
            context.api.objects.remove(served, "", name, live.revision).await.map(|_| ())
        } else {
            context.api.objects.save(served, &mut new, Expect::Revision(live.revision)).await.map(|_| ())
        };
        match outcome {
            Err(error) if error.reason == "Conflict" && version.is_empty() => {}
            other => {
                other?;
                return respond::object(&context.request, served, StatusCode::OK, new);
            }
        }
    }
    Err(ApiError::modified("", "namespaces", name))
}

/// Binds a pod to the node that the scheduler chose.
async fn bind(context: &Context, name: &str, mut binding: Value) -> Result<Answer> {
    let options = WriteOptions::parse(&context.request.query, "CreateOptions", context.request.user_agent())?;
    let pods = context.api.objects.built_in("", "pods")?;
    let request = Request {
        subresource: "binding",
        namespace: context.request.info.namespace.clone(),
        name: name.to_owned(),
        dry_run: options.dry_run,
        ..Request::new(&context.request, &context.api.lookup, &pods, Operation::Create)
    };
    posted(&context.api.admission, &request, &mut binding).await?;
    let node = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or_default();
    let kind = binding.pointer("/target/kind").and_then(Value::as_str).unwrap_or_default();
    let annotations = binding.pointer("/metadata/annotations").and_then(Value::as_object);
    let root = mainstay_schema::field::Path::new("target");
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        errors.push(mainstay_schema::field::Error::not_supported(&root.child("kind"), kind, &["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(mainstay_schema::field::Error::required(&root.child("name"), ""));
    }
    if !errors.is_empty() {
        // Kubernetes has no type for these.
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(ApiError::untyped(if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) }));
    }
    let change =
        Change { sub: Some("binding"), options: &options, namespace: &context.request.info.namespace, name, patch: true, given: None };
    update_object(context, &pods, &change, |live| {
        let options = &options;
        let pods = &pods;
        async move {
            let mut pod = live.value.clone();
            let refuse = |why: String| Err(ApiError::conflict("", "pods/binding", name, &why));
            if !meta(&pod, "deletionTimestamp").is_empty() {
                return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
            }
            let current = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
            if !current.is_empty() {
                return refuse(format!("pod {name} is already assigned to node {current:?}"));
            }
            if pod.pointer("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty()) {
                return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
            }
            pod["spec"]["nodeName"] = node.into();
            if let Some(given) = annotations.filter(|given| !given.is_empty()) {
                let metadata = metadata_mut(&mut pod);
                let own = metadata.entry("annotations").or_insert_with(|| json!({}));
                if let Value::Object(own) = own {
                    own.extend(given.clone());
                }
            }
            condition(
                &mut pod,
                &json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": crate::clock::now()}),
            );
            fields::written(pods, Some(&live.value), &mut pod, &options.field_manager, Some("binding")).await;
            metadata_mut(&mut pod).remove("resourceVersion");
            Ok(pod)
        }
    })
    .await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(respond::plain(&context.request, StatusCode::CREATED, &status))
}

/// Sets a condition of a pod.
pub fn condition(pod: &mut Value, wanted: &Value) {
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    list.retain(|one| one["type"] != wanted["type"]);
    list.push(wanted.clone());
}
