//! One REST implementation for every kind (KAPI-REST-01): what is special about a kind lies in `strategy`, what is special
//! about a path in `special`.

mod create;
mod delete;
mod patch;
pub mod read;
pub(crate) mod scale;
mod special;
mod update;

use std::sync::Arc;

use axum::body::Body;
use http::Method;

use crate::error::{ApiError, Result};
use crate::negotiate;
use crate::object;
use crate::request::RequestInfo;
use crate::respond::Answer;
use crate::served::Served;
use crate::server::Context;

pub use create::{create_object, generate_name};
pub use delete::delete_object;

/// How deep a stored object may nest, with its managed fields. Readers of JSON, ours among them, stop at 128 levels, and lists, events
/// and reviews add some around an object: what could be stored and not be read any more could not be deleted either.
const DEEPEST: usize = 120;

/// Answers a request below `/api/V/` or `/apis/G/V/`.
pub async fn route(context: &Context, body: &mut Body) -> Result<Answer> {
    let info = &context.info;
    // A path with further slashes is authorized as it reads, and leads nowhere.
    let prefix = if info.group.is_empty() { "/api/" } else { "/apis/" };
    if !info.path.starts_with(prefix) {
        return Err(ApiError::page_not_found());
    }
    let snapshot = context.api.served();
    let Some(served) = snapshot.resource(&info.group, &info.version, &info.resource).cloned() else { return Err(absent(info)) };
    if let Some(custom) = &served.custom
        && let Some(warning) = &custom.deprecation_warning
    {
        context.warn(warning.clone());
    }
    if served.is("", "endpoints") {
        context.warn("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
    }
    if leads_nowhere(info, &served) {
        return Err(absent(info));
    }
    check_method(context, &served)?;
    if info.in_namespace && info.namespace.is_empty() && !info.name.is_empty() && !info.is_selected {
        return Err(ApiError::bad_request("Namespace parameter required."));
    }
    if let "." | ".." = info.name.as_str() {
        return Err(ApiError::bad_request(format!("Name parameter invalid: {:?}: may not be '{}'", info.name, info.name)));
    }
    // A custom resource has no message; its Scale does.
    if served.custom.is_some()
        && matches!(info.verb.as_str(), "create" | "update")
        && info.subresource != "scale"
        && negotiate::content_type(&context.headers) == mainstay_protobuf::MEDIA_TYPE
    {
        return Err(ApiError::unsupported_media_type(&negotiate::BODY_TYPES[..2]).without_details());
    }
    if !info.subresource.is_empty() {
        return subresource(context, &served, body).await;
    }
    // What is authorized as one name may still be a list with a field selector.
    let on_collection = matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") || info.name.is_empty();
    if !allowed(&served, &info.verb, on_collection) {
        return Err(ApiError::method_not_allowed());
    }
    if let Some(answer) = special::resource(context, &served) {
        return Ok(answer);
    }
    match info.verb.as_str() {
        "list" => read::list(context, &served).await,
        "watch" => crate::watch::open(context, &served).await,
        "get" => read::get(context, &served).await,
        "create" => {
            let body = crate::server::receive(context, body).await?;
            match special::create(context, &served, &body).await? {
                Some(answer) => Ok(answer),
                None => create::create(context, &served, &body).await,
            }
        }
        "update" => update::update(context, &served, None, &crate::server::receive(context, body).await?).await,
        "patch" => patch::patch(context, &served, None, &crate::server::receive(context, body).await?).await,
        "delete" => delete::delete(context, &served, &crate::server::receive(context, body).await?).await,
        "deletecollection" => delete::delete_collection(context, &served, &crate::server::receive(context, body).await?).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// 404 for what no resource is at: a page that is not there where CRDs could serve it, else a refusal in the form of the API.
fn absent(info: &RequestInfo) -> ApiError {
    if crate::pages::is_built_in(&info.group, &info.version) { ApiError::no_such_resource() } else { ApiError::page_not_found() }
}

/// Whether a path has more or fewer elements than the resource's.
fn leads_nowhere(info: &RequestInfo, served: &Served) -> bool {
    let named = !info.name.is_empty() && !info.is_selected;
    // Nothing of the whole cluster lies in a namespace, namespaces neither: what is granted there says nothing of it.
    let misplaced = if served.facts.namespaced {
        !info.in_namespace && (named || (served.custom.is_some() && !matches!(info.verb.as_str(), "list" | "watch")))
    } else {
        info.in_namespace
    };
    let watched_part = info.verb == "watch" && !info.subresource.is_empty();
    let beyond = !info.rest.is_empty() && info.subresource != "proxy";
    // Paths with the verb `proxy` are gone since Kubernetes 1.10.
    misplaced || watched_part || beyond || info.verb == "proxy"
}

/// Refuses a method that nothing is registered for: built-in resources know no HEAD, and watches by path only GET.
fn check_method(context: &Context, served: &Served) -> Result<()> {
    let (info, method) = (&context.info, &context.method);
    let built_in = served.custom.is_none();
    let watched = info.verb == "watch" && *method != Method::GET;
    // Across all namespaces, objects can be read only.
    let everywhere = served.facts.namespaced && !info.in_namespace && !matches!(info.verb.as_str(), "list" | "watch");
    if built_in && (*method == Method::HEAD || watched || everywhere) { Err(ApiError::method_not_allowed()) } else { Ok(()) }
}

fn allowed(served: &Served, verb: &str, on_collection: bool) -> bool {
    let fits = if on_collection {
        matches!(verb, "list" | "watch" | "create" | "deletecollection")
    } else {
        matches!(verb, "get" | "update" | "patch" | "delete" | "watch")
    };
    fits && served.serves(verb)
}

async fn subresource(context: &Context, served: &Arc<Served>, body: &mut Body) -> Result<Answer> {
    let info = &context.info;
    let Some(sub) = served.subresource(&info.subresource) else {
        return Err(ApiError::no_such_resource());
    };
    let verb = info.verb.as_str();
    if !sub.verbs.iter().any(|one| one == verb) {
        return Err(ApiError::method_not_allowed());
    }
    let body = crate::server::receive(context, body).await?;
    if let Some(answer) = special::subresource(context, served, &body).await? {
        return Ok(answer);
    }
    match (info.subresource.as_str(), verb) {
        ("scale", _) => scale::serve(context, served, &body).await,
        (_, "get") => read::get(context, served).await,
        (name, "update") => update::update(context, served, Some(name), &body).await,
        (name, "patch") => patch::patch(context, served, Some(name), &body).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// An update or an apply that creates needs the right to create, too (KAPI-AUTHZ-01).
async fn may_create(context: &Context) -> Result<()> {
    let info = crate::request::RequestInfo { verb: "create".to_owned(), ..context.info.clone() };
    context.api.access.authorize(&context.user, &info).await
}

/// Refuses what nests too deeply to be read again: patches and webhooks build up what no single body may hold.
fn check_depth(value: &serde_json::Value) -> Result<()> {
    if object::nests_within(value, DEEPEST) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("the object nests too deeply: with its managed fields, at most {DEEPEST} levels are stored")))
}

/// The first part of a request's namespace checks: an object may not name another one than the path.
pub(crate) fn place(context: &Context, served: &Served, object: &mut serde_json::Value) -> Result<()> {
    let info = &context.info;
    let metadata = crate::object::metadata_mut(object);
    let given = metadata.get("namespace").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    if served.facts.namespaced {
        if given.is_empty() {
            metadata.insert("namespace".into(), info.namespace.clone().into());
        } else if given != info.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request".to_string(),
            ));
        }
    } else {
        // As Kubernetes does: what belongs to the whole cluster has no namespace, whatever it says.
        metadata.remove("namespace");
    }
    Ok(())
}
