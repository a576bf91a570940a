//! delete and deletecollection: preconditions, grace periods, finalizers, propagation (KAPI-REST-01).

use std::sync::Arc;

use http::StatusCode;
use mainstay_store::{Expect, Revision};
use serde_json::{Value, json};

use super::allocate;
use crate::admission::{Operation, Request};
use crate::context::Context;
use crate::error::{ApiError, Result};
use crate::object::{meta, meta_list, metadata_mut};
use crate::request::ApiRequest;
use crate::request::negotiate;
use crate::request::options::{DeleteOptions, ListOptions, Propagation};
use crate::respond::{self, Answer};
use crate::served::Served;
use crate::services::to_the_end;
use crate::stored::Loaded;
use crate::strategy;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// The most attempts of a deletion, if another request was faster each time.
const RETRIES: usize = 16;

/// Deletes one object.
pub async fn delete(context: &Context, served: &Arc<Served>, body: &[u8]) -> Result<Answer> {
    let options = options(&context.request, body)?;
    let info = &context.request.info;
    if served.is("batch", "jobs") && options.propagation.is_none() {
        context.request.warn(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        );
    }
    let outcome = delete_object(context, served, &info.namespace, &info.name, &options).await?;
    match outcome {
        Deleted::Gone(value) if !strategy::returns_deleted(served) => {
            let status = success(served, &value);
            Ok(respond::plain(&context.request, StatusCode::OK, &status))
        }
        // Who asked by the old option for dependents to be deleted, too, is told that this is not done yet.
        Deleted::Held(value) if options.orphan_dependents == Some(false) => {
            respond::object(&context.request, served, StatusCode::ACCEPTED, value)
        }
        Deleted::Gone(value) | Deleted::Held(value) => respond::object(&context.request, served, StatusCode::OK, value),
    }
}

fn options(request: &ApiRequest, body: &[u8]) -> Result<DeleteOptions> {
    let body = if body.is_empty() { None } else { Some(negotiate::decode_options(&request.headers, body, "DeleteOptions")?) };
    DeleteOptions::parse(&request.query, body.as_ref())
}

fn success(served: &Served, value: &Value) -> Value {
    let mut details = json!({"name": meta(value, "name"), "kind": served.facts.plural, "uid": meta(value, "uid")});
    if !served.facts.group.is_empty() {
        details["group"] = served.facts.group.clone().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// The outcome of a deletion.
pub enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Value),
    /// Something holds it; this is what it is now.
    Held(Value),
}

/// Deletes an object, or begins to.
pub async fn delete_object(
    context: &Context,
    served: &Arc<Served>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted> {
    let facts = &served.facts;
    strategy::check_delete(served, name)?;
    let mut admitted = false;
    for _ in 0..RETRIES {
        let live = context.api.objects.require(served, namespace, name).await?;
        preconditions(served, &live, options)?;
        if !admitted {
            let request = Request {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                old: Some(&live.value),
                dry_run: options.dry_run,
                deletion: Some(options),
                ..Request::new(&context.request, &context.api.lookup, served, Operation::Delete)
            };
            context.api.admission.validate(&request, None).await?;
            admitted = true;
        }
        match try_delete(context, served, &live, options).await {
            Err(error) if error.code == StatusCode::CONFLICT && error.reason == "Conflict" => {}
            other => return other,
        }
    }
    Err(ApiError::modified(&facts.group, &facts.plural, name))
}

async fn try_delete(context: &Context, served: &Arc<Served>, live: &Loaded, options: &DeleteOptions) -> Result<Deleted> {
    let (namespace, name) = (meta(&live.value, "namespace").to_owned(), meta(&live.value, "name").to_owned());
    let mut next = live.value.clone();
    let grace = grace_period(served, &live.value, options);
    let deleting = !meta(&live.value, "deletionTimestamp").is_empty();
    finalizers(served, &mut next, options, deleting);
    strategy::prepare_delete(served, &mut next);
    // The first deletion of a namespace only begins it, with or without finalizers.
    let begins = served.is("", "namespaces") && !deleting;
    let held = begins || !meta_list(&next, "finalizers").is_empty() || strategy::held(served, &next);
    let current = live.value["metadata"].get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    if deleting && (grace > 0 || held) {
        // Deletion has begun: a shorter grace period counts, nothing else does.
        let shorter = current.is_some_and(|current| grace < current) && (options.grace_period_seconds.is_some() || current.is_none());
        if shorter {
            let metadata = metadata_mut(&mut next);
            metadata.insert("deletionTimestamp".into(), crate::clock::after(grace).into());
            metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
        } else if next == live.value {
            return Ok(Deleted::Held(live.value.clone()));
        }
        return hold(context, served, live, next, options).await;
    }
    if !deleting {
        let graceful = strategy::graceful(served) || held;
        let metadata = metadata_mut(&mut next);
        if graceful {
            metadata.insert("deletionTimestamp".into(), crate::clock::after(grace).into());
            if !strategy::no_grace_field(served) {
                metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
            }
            // Beginning to delete is a change of what is wanted, where generations are counted.
            // Those of CRDs and namespaces their own handlers do not count.
            let counted = metadata.get("generation").and_then(Value::as_i64).filter(|_| !strategy::no_grace_field(served));
            if let Some(generation) = counted.filter(|generation| *generation > 0) {
                metadata.insert("generation".into(), (generation + 1).into());
            }
        }
    } else if grace == 0 && strategy::graceful(served) {
        metadata_mut(&mut next).insert("deletionGracePeriodSeconds".into(), 0.into());
    }
    if held || grace > 0 {
        return hold(context, served, live, next, options).await;
    }
    if options.dry_run {
        return Ok(Deleted::Gone(next));
    }
    let mut last = live.clone();
    if strategy::graceful(served) && next != live.value {
        // Watchers hear of the end of the grace period before they hear of the end of the object.
        last.revision = context.api.objects.save(served, &mut next, Expect::Revision(live.revision)).await?;
        last.value.clone_from(&next);
    }
    match remove(context, served, &last, namespace, name).await {
        Ok(revision) => {
            metadata_mut(&mut next).insert("resourceVersion".into(), revision.to_string().into());
        }
        // Another client that heard of it was faster.
        Err(error) if last.revision != live.revision && error.code == StatusCode::NOT_FOUND => {}
        Err(error) => return Err(error),
    }
    Ok(Deleted::Gone(next))
}

/// Removes an object and gives back what it held; both, where it held something, though the client may be gone.
async fn remove(context: &Context, served: &Arc<Served>, live: &Loaded, namespace: String, name: String) -> Result<Revision> {
    if !strategy::allocates(served) {
        return context.api.objects.remove(served, &namespace, &name, live.revision).await;
    }
    let (api, served, live) = (context.api.clone(), served.clone(), live.clone());
    to_the_end(async move {
        let revision = api.objects.remove(&served, &namespace, &name, live.revision).await?;
        allocate::release(&api, &served, &live.value, None).await;
        Ok(revision)
    })
    .await
}

async fn hold(context: &Context, served: &Served, live: &Loaded, mut next: Value, options: &DeleteOptions) -> Result<Deleted> {
    if !options.dry_run {
        context.api.objects.save(served, &mut next, Expect::Revision(live.revision)).await?;
    }
    Ok(Deleted::Held(next))
}

fn grace_period(served: &Served, live: &Value, options: &DeleteOptions) -> i64 {
    if !strategy::graceful(served) {
        return 0;
    }
    let spec = live.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    let asked = options.grace_period_seconds.map_or(spec, |asked| if asked < 0 { 1 } else { asked });
    let unscheduled = live.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().is_empty();
    let over = matches!(live.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"));
    if unscheduled || over { 0 } else { asked }
}

fn finalizers(served: &Served, next: &mut Value, options: &DeleteOptions, deleting: bool) {
    let mut list = meta_list(next, "finalizers");
    let before = list.clone();
    let policy = options.propagation.or_else(|| {
        if list.iter().any(|one| one == ORPHAN) {
            Some(Propagation::Orphan)
        } else if list.iter().any(|one| one == FOREGROUND) {
            Some(Propagation::Foreground)
        } else if !deleting && strategy::orphans_by_default(served) {
            Some(Propagation::Orphan)
        } else {
            None
        }
    });
    let keep = |name: &str| match policy {
        Some(Propagation::Orphan) => name != FOREGROUND,
        Some(Propagation::Foreground) => name != ORPHAN,
        Some(Propagation::Background) => name != ORPHAN && name != FOREGROUND,
        None => true,
    };
    list.retain(|one| keep(one));
    let wanted = match policy {
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Foreground) => Some(FOREGROUND),
        _ => None,
    };
    if let Some(wanted) = wanted
        && !list.iter().any(|one| one == wanted)
    {
        list.push(wanted.to_owned());
    }
    if list != before {
        let metadata = metadata_mut(next);
        if list.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".into(), list.into());
        }
    }
}

fn preconditions(served: &Served, live: &Loaded, options: &DeleteOptions) -> Result<()> {
    let facts = &served.facts;
    let name = meta(&live.value, "name");
    let handled_apart = served.is("", "namespaces") || served.is("apiextensions.k8s.io", "customresourcedefinitions");
    let refuse = |what: &str, wanted: &str, found: &str, otherwise: &str| {
        if handled_apart {
            let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
            return Err(ApiError::conflict(&facts.group, &facts.plural, name, &why));
        }
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {otherwise}"
        );
        // Kubernetes names the kind here, where other conflicts name the resource.
        Err(ApiError::conflict(facts.go_group(), &facts.kind, name, &why))
    };
    if let Some(uid) = &options.uid
        && uid != meta(&live.value, "uid")
    {
        return refuse("UID", uid, meta(&live.value, "uid"), "deleted and then recreated");
    }
    if let Some(version) = &options.resource_version
        && *version != live.revision.to_string()
    {
        return refuse("ResourceVersion", version, &live.revision.to_string(), "modified");
    }
    Ok(())
}

/// Returns whether a change lets go of an object whose deletion was waiting for it.
pub fn is_finished(served: &Served, new: &Value, live: &Value) -> bool {
    let deleting = !meta(live, "deletionTimestamp").is_empty();
    let grace = live["metadata"].get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default();
    deleting && grace == 0 && meta_list(new, "finalizers").is_empty() && !strategy::held(served, new)
}

/// Deletes what a list would show; answers with that list.
pub async fn delete_collection(context: &Context, served: &Arc<Served>, body: &[u8]) -> Result<Answer> {
    let options = options(&context.request, body)?;
    let mut list_options = ListOptions::parse(&context.request.query, false)?;
    super::read::check_fields(served, &list_options)?;
    let scope = super::read::scope(&context.request.info, served, &mut list_options)?;
    let page = super::read::find(context, served, &list_options, &scope).await?;
    for entry in &page.entries {
        let namespace = if served.facts.namespaced { entry.namespace() } else { "" };
        match delete_object(context, served, namespace, entry.name(), &options).await {
            Ok(_) => {}
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    super::read::answer(context, served, &page)
}
