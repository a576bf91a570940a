//! The webhook that labels each catalog with its name (OLM1-CAT-03).
//!
//! ```text
//!   API server ──AdmissionReview──► router ── few at once, small, in time ──► answer ──► a JSON patch, if the label is missing or wrong
//! ```
//!
//! It needs nothing but the request. So every replica serves it, and a change of the leader goes unnoticed by clients that write catalogs.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_api::olm_v1::NAME_LABEL;
use mainstay_runtime::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// The name of the webhook; upstream's.
pub const NAME: &str = "inject-metadata-name.olm.operatorframework.io";
/// The path of the webhook; upstream's.
pub const PATH: &str = "/mutate-olm-operatorframework-io-v1-clustercatalog";
/// The CEL expression that selects the objects for the webhook. An object whose name the server has yet to generate has no name for the label.
pub const MISSING_OR_WRONG: &str = "has(object.metadata.name) && (!has(object.metadata.labels) \
    || !('olm.operatorframework.io/metadata.name' in object.metadata.labels) \
    || object.metadata.labels['olm.operatorframework.io/metadata.name'] != object.metadata.name)";

/// The most bytes of a review: two objects of the largest size that an API server accepts, and their envelope.
const MOST: usize = 7 << 20;
/// Reviews that are held in memory at once; further ones wait.
const AT_ONCE: usize = 16;
/// The longest time of a request from its head to its answer; the API server waits no longer.
const TIME: Duration = Duration::from_secs(10);

/// A request that is not a review of a catalog.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The body is not JSON, or does not have the form of a review.
    #[error("the body is no AdmissionReview")]
    Form(#[from] serde_json::Error),
    /// The body has another kind or version.
    #[error("expected kind AdmissionReview of admission.k8s.io/v1 with a request, found {kind:?} of {api_version:?}")]
    Kind {
        /// The kind in the body.
        kind: String,
        /// The version in the body.
        api_version: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<ReviewRequest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewRequest {
    uid: String,
    resource: Resource,
    #[serde(default)]
    sub_resource: String,
    /// `None` for a deletion.
    #[serde(default)]
    object: Value,
}

#[derive(Deserialize)]
struct Resource {
    group: String,
    resource: String,
}

/// Returns the name that an object with this metadata lacks as its label. `None` if the label is right, or if the object has no name yet.
pub fn name_to_carry(metadata: &Value) -> Option<&str> {
    let name = metadata.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())?;
    let carried = metadata.get("labels").and_then(|labels| labels.get(NAME_LABEL)).and_then(Value::as_str);
    (carried != Some(name)).then_some(name)
}

/// Answers the JSON of a review with the JSON of its response.
pub fn answer(body: &[u8]) -> Result<Value, ReviewError> {
    let Review { api_version, kind, request } = serde_json::from_slice(body)?;
    let request = match request {
        Some(request) if kind == "AdmissionReview" && api_version == "admission.k8s.io/v1" => request,
        _ => return Err(ReviewError::Kind { kind, api_version }),
    };
    let ReviewRequest { uid, resource: Resource { group, resource }, sub_resource, object } = request;
    let mut response = json!({"uid": uid, "allowed": true});
    if (group.as_str(), resource.as_str(), sub_resource.as_str()) != ("olm.operatorframework.io", "clustercatalogs", "") {
        let message =
            format!("expected a ClusterCatalog, found {resource}.{group}; the webhook {NAME} is configured for more than it is for");
        response = json!({"uid": uid, "allowed": false, "status": {"code": 400, "reason": "BadRequest", "message": message}});
    } else if let Some(patch) = patch(&object) {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = STANDARD.encode(patch.to_string()).into();
    }
    Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
}

/// Returns the JSON patch that adds the label to an object.
fn patch(object: &Value) -> Option<Value> {
    let metadata = object.get("metadata")?;
    let name = name_to_carry(metadata)?;
    let operation = if metadata.get("labels").is_some_and(Value::is_object) {
        json!({"op": "add", "path": format!("/metadata/labels/{}", NAME_LABEL.replace('/', "~1")), "value": name})
    } else {
        json!({"op": "add", "path": "/metadata/labels", "value": {NAME_LABEL: name}})
    };
    Some(json!([operation]))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    webhook: &'static str,
    code: u16,
}

/// Returns the routes of the webhook, bounded and measured.
pub fn router(metrics: &Metrics) -> Router {
    bounded(metrics, TIME)
}

fn bounded(metrics: &Metrics, time: Duration) -> Router {
    let requests = Family::<Labels, Counter>::default();
    metrics.register(|registry| {
        registry.register("controller_runtime_webhook_requests", "Requests to webhooks, by the code of the answer", requests.clone());
    });
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let bound = from_fn(move |request: Request, next: Next| {
        let (places, requests) = (places.clone(), requests.clone());
        async move {
            let in_time = tokio::time::timeout(time, async {
                // The semaphore is never closed, so a permit is always granted.
                let _place = places.acquire().await;
                next.run(request).await
            });
            let response = in_time.await.unwrap_or_else(|_| (StatusCode::REQUEST_TIMEOUT, "the request took too long").into_response());
            requests.get_or_create(&Labels { webhook: PATH, code: response.status().as_u16() }).inc();
            response
        }
    });
    Router::new().route(PATH, post(review)).layer(DefaultBodyLimit::max(MOST)).layer(bound)
}

async fn review(headers: HeaderMap, body: Bytes) -> Response {
    let is_json = |value: &str| value.split(';').next().is_some_and(|form| form.trim().eq_ignore_ascii_case("application/json"));
    if !headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json) {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "expected application/json").into_response();
    }
    match answer(&body) {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => {
            let text = mainstay_diagnostics::chain(&error);
            tracing::warn!(webhook = NAME, error = text, "a request to the webhook is no review of a catalog");
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}

#[cfg(test)]
mod tests;
