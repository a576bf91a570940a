//! Paths outside of the resources: discovery, OpenAPI, health, version, metrics.

use http::{Method, StatusCode};
use serde_json::json;

use crate::context::Context;
use crate::discovery::{self, Discovery};
use crate::error::{ApiError, Result};
use crate::health;
use crate::request::negotiate;
use crate::respond::{self, Answer};
use crate::served::is_built_in;

/// Answers one of these paths. `disagreement` is the refusal of an `Accept` that nothing fits; only documents of the API heed it.
pub async fn route(context: &Context, disagreement: Option<ApiError>) -> Result<Answer> {
    let Context { request, api, allocation, .. } = context;
    let path = request.info.path.trim_matches('/').to_owned();
    let parts: Vec<&str> = path.split('/').collect();
    if !takes(&request.method, &parts) {
        return Err(ApiError::method_not_allowed());
    }
    check_produced(context, &parts)?;
    let discovery =
        Discovery { objects: &api.objects, aggregation: &api.aggregation, documents: &api.documents, weight: &allocation.weight };
    let agreed = |found: Answer| disagreement.clone().map_or(Ok(found), Err);
    match parts.as_slice() {
        ["api"] => agreed(discovery::api(request)),
        ["apis"] => {
            // All groups, and all their resources where that is asked for.
            allocation.long().await;
            agreed(discovery::apis(request, &discovery))
        }
        ["api", version] => discovery::resources(request, &discovery, "", version).and_then(agreed),
        ["apis", group] => discovery::group(request, &discovery, group).and_then(agreed),
        ["apis", group, version] => discovery::resources(request, &discovery, group, version).and_then(agreed),
        ["openapi", "v2"] => discovery::openapi_v2(request, &discovery).await,
        ["openapi", "v3"] => {
            allocation.long().await;
            Ok(discovery::openapi_index(request, &discovery).await)
        }
        ["openapi", "v3", ..] => discovery::openapi_v3(request, &discovery, &parts[2..].join("/")).await,
        ["version"] => Ok(respond::json(request, &api.reported.document())),
        ["livez" | "readyz" | "healthz", ..] => {
            let checked = health::Parts { objects: &api.objects, readiness: &api.readiness, closing: &api.closing };
            health::answer(request, &checked, &parts).await
        }
        ["mainstay", "backup"] => crate::backup::answer(request, api.objects.store.clone(), &api.backup).await,
        ["metrics", "slis"] => {
            let checked = health::Parts { objects: &api.objects, readiness: &api.readiness, closing: &api.closing };
            let text = health::indicators(&checked).await;
            Ok(Answer::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
        }
        ["metrics"] => {
            let text = crate::metrics::page(&api.metrics, &api.inflight, &api.objects).await;
            Ok(Answer::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
        }
        [""] => {
            let snapshot = api.objects.served();
            let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
            for group in mainstay_kinds::registry().groups().iter().filter(|group| !group.name.is_empty()) {
                paths.push(format!("/apis/{}", group.name));
                paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{version}", group.name)));
            }
            for (group, versions) in &snapshot.custom_groups {
                paths.push(format!("/apis/{group}"));
                paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
            }
            let further = ["/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
            paths.extend(further.map(str::to_owned));
            Ok(respond::json(request, &json!({"paths": paths})))
        }
        // What is served below this prefix is no page of the router's.
        [".well-known", ..] => api.access.page(&parts).ok_or_else(ApiError::no_such_resource),
        _ => api.access.page(&parts).ok_or_else(ApiError::page_not_found),
    }
}

/// The check of Kubernetes' router, where the page goes through it.
fn check_produced(context: &Context, parts: &[&str]) -> Result<()> {
    let headers = &context.request.headers;
    match parts {
        ["version"] => negotiate::check_produced(headers, &["application/json"]),
        ["api", ..] => negotiate::check_produced(headers, &negotiate::BODY_TYPES),
        ["apis", group, version] if is_built_in(group, version) => negotiate::check_produced(headers, &negotiate::BODY_TYPES),
        _ => Ok(()),
    }
}

/// Returns whether a page is for this method: as in Kubernetes, those that only read are for any, unless they are part of an API.
fn takes(method: &Method, parts: &[&str]) -> bool {
    let only_get = match parts {
        ["api" | ".well-known" | "openid" | "mainstay", ..] | ["version"] => true,
        ["apis", group, version] => is_built_in(group, version),
        _ => false,
    };
    if only_get { *method == Method::GET } else { true }
}
