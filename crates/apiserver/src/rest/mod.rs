//! One REST implementation for every kind (KAPI-REST-01): what is special about a kind lies in `strategy`, what is special
//! about a path in `special`.

mod allocate;
mod checks;
mod components;
mod create;
mod delete;
mod devices;
mod log;
mod patch;
pub mod read;
mod scale;
mod special;
mod update;

use std::sync::Arc;

use axum::body::Body;
use http::Method;

use mainstay_kinds::registry;

use crate::context::Context;
use crate::error::{ApiError, Result};
use crate::request::negotiate;
use crate::request::{ApiRequest, RequestInfo};
use crate::respond::Answer;
use crate::served::Served;

pub use components::ControlPlane;
pub use delete::delete_object;
pub use special::condition;

/// Answers a request below `/api/V/` or `/apis/G/V/`.
///
/// `disagreement` is the refusal of an `Accept` that nothing fits: it comes after what the path and the method say.
pub async fn route(context: &Context, body: &mut Body, disagreement: Option<ApiError>) -> Result<Answer> {
    let info = &context.request.info;
    // A path with further slashes is authorized as it reads, and leads nowhere.
    let prefix = if info.group.is_empty() { "/api/" } else { "/apis/" };
    if !info.path.starts_with(prefix) {
        return Err(ApiError::page_not_found());
    }
    let snapshot = context.api.objects.served();
    let Some(served) = snapshot.resource(&info.group, &info.version, &info.resource).cloned() else { return Err(absent(info)) };
    if let Some(custom) = &served.custom
        && let Some(warning) = &custom.deprecation_warning
    {
        context.request.warn(warning.clone());
    }
    if leads_nowhere(info, &served) {
        return Err(absent(info));
    }
    check_method(&context.request, &served)?;
    if served.custom.is_none() && method_fits(info, &served) {
        check_media(&context.request, info)?;
    }
    if served.is("", "endpoints") {
        context.request.warn("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
    }
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
        && negotiate::content_type(&context.request.headers) == mainstay_protobuf::MEDIA_TYPE
    {
        return Err(ApiError::unsupported_media_type(&negotiate::BODY_TYPES[..2]).without_details());
    }
    if !info.subresource.is_empty() {
        return subresource(context, &served, body, disagreement).await;
    }
    // What is authorized as one name may still be a list with a field selector.
    let on_collection = matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") || info.name.is_empty();
    if served.is("", "componentstatuses") && matches!(info.verb.as_str(), "get" | "list" | "watch") {
        disagreement.map_or(Ok(()), Err)?;
        return components::answer(context, &served).await;
    }
    if !allowed(&served, &info.verb, on_collection) {
        if served.custom.is_some() && matches!(info.verb.as_str(), "update" | "patch") {
            return Err(ApiError::bad_request("name must be provided"));
        }
        return Err(unsupported(info, &served));
    }
    disagreement.map_or(Ok(()), Err)?;
    match info.verb.as_str() {
        "list" => read::list(context, &served).await,
        "watch" => crate::watch::open(context, &served).await,
        "get" => read::get(context, &served).await,
        "create" => {
            let body = crate::body::receive(context, body).await?;
            match special::create(context, &served, &body).await? {
                Some(answer) => Ok(answer),
                None => create::create(context, &served, &body).await,
            }
        }
        "update" => update::update(context, &served, None, &crate::body::receive(context, body).await?).await,
        "patch" => patch::patch(context, &served, None, &crate::body::receive(context, body).await?).await,
        "delete" => delete::delete(context, &served, &crate::body::receive(context, body).await?).await,
        "deletecollection" => delete::delete_collection(context, &served, &crate::body::receive(context, body).await?).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// 404 for what no resource is at: a page that is not there where CRDs could serve it, else (in a group of Kubernetes) in the form of the API.
fn absent(info: &RequestInfo) -> ApiError {
    if info.group.is_empty() || registry().group(&info.group).is_some() { ApiError::no_such_resource() } else { ApiError::page_not_found() }
}

/// Returns whether a path has more or fewer elements than the resource's.
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
fn check_method(request: &ApiRequest, served: &Served) -> Result<()> {
    let (info, method) = (&request.info, &request.method);
    let built_in = served.custom.is_none();
    let watched = info.verb == "watch" && *method != Method::GET;
    // Across all namespaces, objects can be read only.
    let everywhere = served.facts.namespaced && !info.in_namespace && !matches!(info.verb.as_str(), "list" | "watch");
    if built_in && (*method == Method::HEAD || watched || everywhere) { Err(ApiError::method_not_allowed()) } else { Ok(()) }
}

/// The refusal of a verb that a resource does not have.
fn unsupported(info: &RequestInfo, served: &Served) -> ApiError {
    if served.custom.is_some() { ApiError::not_supported(&info.group, &info.resource, &info.verb) } else { ApiError::method_not_allowed() }
}

/// Returns whether a built-in resource has the verb at this path.
fn method_fits(info: &RequestInfo, served: &Served) -> bool {
    if info.subresource.is_empty() {
        let on_collection = matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") || info.name.is_empty();
        return allowed(served, &info.verb, on_collection);
    }
    served.subresource(&info.subresource).is_some_and(|sub| sub.verbs.contains(&info.verb))
}

/// The checks of Kubernetes' router: the media types of a patch, and of the answer.
fn check_media(request: &ApiRequest, info: &RequestInfo) -> Result<()> {
    const OBJECT: [&str; 3] = negotiate::BODY_TYPES;
    const LIST: [&str; 5] =
        [OBJECT[0], OBJECT[1], OBJECT[2], "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];
    const LOG: [&str; 4] = ["text/plain", OBJECT[0], OBJECT[1], OBJECT[2]];
    if info.verb == "patch" && !patch::is_known(negotiate::content_type(&request.headers)) {
        return Err(patch::no_such_patch());
    }
    let produced: &[&str] = match (info.verb.as_str(), info.subresource.as_str()) {
        (_, "exec" | "attach" | "portforward" | "proxy") => return Ok(()),
        (_, "log") => &LOG,
        ("list" | "watch", _) => &LIST,
        // A single object that is watched by a field selector is a list, too.
        ("get", "") if info.is_selected => &LIST,
        _ => &OBJECT,
    };
    negotiate::check_produced(&request.headers, produced)
}

fn allowed(served: &Served, verb: &str, on_collection: bool) -> bool {
    let fits = if on_collection {
        matches!(verb, "list" | "watch" | "create" | "deletecollection")
    } else {
        // The handler of custom resources takes the name of a new object from the body alone.
        matches!(verb, "get" | "update" | "patch" | "delete" | "watch") || served.custom.is_some() && verb == "create"
    };
    fits && served.serves(verb)
}

async fn subresource(context: &Context, served: &Arc<Served>, body: &mut Body, disagreement: Option<ApiError>) -> Result<Answer> {
    let info = &context.request.info;
    let Some(sub) = served.subresource(&info.subresource) else {
        return Err(match served.custom {
            Some(_) => ApiError::not_found(&info.group, &info.resource, &info.name),
            None => ApiError::no_such_resource(),
        });
    };
    let verb = info.verb.as_str();
    if !sub.verbs.iter().any(|one| one == verb) {
        return Err(unsupported(info, served));
    }
    disagreement.map_or(Ok(()), Err)?;
    let body = crate::body::receive(context, body).await?;
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
