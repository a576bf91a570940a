//! Pages for the administrators of this program while it runs: metrics, and log levels (MS-OPS-01).
//!
//! ```text
//!   mainstay run   --metrics-bind-address   /metrics                           TokenReview, SubjectAccessReview
//!                                           /mainstay/log-level
//!   mainstay up    beside the API           /mainstay/metrics                  the API server's own RBAC
//!                                           /mainstay/log-level
//!                                           /mainstay/alerts
//! ```

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use axum::{Extension, Router};
use mainstay_alerts::Report;
use mainstay_apiserver::TrustedIdentity;
use mainstay_runtime::metrics::{Format, Metrics};
use mainstay_runtime::{Access, Reviews};

use crate::logging::{self, Levels, levels};

/// The path where levels are read and changed.
pub const LOG_LEVEL: &str = "/mainstay/log-level";
/// The path of metrics with `mainstay up`; the API server's own are at `/metrics`.
const UP_METRICS: &str = "/mainstay/metrics";
/// The path of alerts with `mainstay up` (COP-11).
pub const ALERTS: &str = "/mainstay/alerts";
/// Limit for the few bytes of a body to arrive.
const BODY: Duration = Duration::from_secs(5);

/// The authenticated user of a request.
#[derive(Clone, Debug)]
struct User(String);

/// The metrics of the components that run now; none while nothing runs.
#[derive(Clone, Default)]
pub struct ServedMetrics(Arc<RwLock<Option<Arc<Metrics>>>>);

impl ServedMetrics {
    /// Serves these metrics from now on.
    pub fn show(&self, metrics: Arc<Metrics>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(metrics);
    }
}

impl std::fmt::Debug for ServedMetrics {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ServedMetrics").finish_non_exhaustive()
    }
}

/// The alerts of the last evaluation; none before the first.
#[derive(Clone, Debug, Default)]
pub struct ServedAlerts(Arc<RwLock<Option<Report>>>);

impl ServedAlerts {
    /// Serves these alerts from now on.
    pub fn show(&self, report: Report) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }
}

/// The routes of `mainstay run`, for users whom the cluster's RBAC allows them.
pub fn of_run(metrics: Arc<Metrics>, reviews: Arc<Reviews>) -> Router {
    let served = ServedMetrics::default();
    served.show(metrics);
    let guard = from_fn(move |request, next| guarded(reviews.clone(), request, next));
    Router::new().route("/metrics", page(served)).route(LOG_LEVEL, log_level()).route_layer(guard)
}

/// The routes of `mainstay run` without a certificate: metrics for anybody, as OLM's own operators serve them (OLM0-MET-03). No user can be told
/// apart there, so levels cannot be changed.
pub fn of_plain_run(metrics: Arc<Metrics>) -> Router {
    let served = ServedMetrics::default();
    served.show(metrics);
    Router::new().route("/metrics", page(served))
}

/// The routes of `mainstay up`, behind the API server, which authenticates and authorizes the user.
pub fn of_up(metrics: ServedMetrics, alerts: ServedAlerts) -> Router {
    let named = from_fn(|mut request: Request, next: Next| async move {
        let name = request.extensions().get::<TrustedIdentity>().map(|identity| identity.0.name.clone());
        request.extensions_mut().insert(User(name.unwrap_or_default()));
        next.run(request).await
    });
    let shown = get(move || async move {
        match &*alerts.0.read().unwrap_or_else(PoisonError::into_inner) {
            Some(report) => axum::Json(report).into_response(),
            None => answer(StatusCode::SERVICE_UNAVAILABLE, "no alert was evaluated yet"),
        }
    });
    Router::new().route(UP_METRICS, page(metrics)).route(ALERTS, shown).route(LOG_LEVEL, log_level()).route_layer(named)
}

/// Passes requests whose token's user is allowed this verb on this path, as controller-runtime does it.
async fn guarded(reviews: Arc<Reviews>, mut request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    let unauthorized = || ([(header::WWW_AUTHENTICATE, "Bearer")], answer(StatusCode::UNAUTHORIZED, "Unauthorized")).into_response();
    let Some(token) = token else { return unauthorized() };
    let (verb, path) = (request.method().as_str().to_lowercase(), request.uri().path().to_owned());
    match reviews.access(token, &verb, &path).await {
        Ok(Access::Granted(user)) => {
            request.extensions_mut().insert(User(user));
            next.run(request).await
        }
        Ok(Access::Denied(user)) => {
            tracing::debug!(user, verb, path, "denied");
            answer(StatusCode::FORBIDDEN, format!("Authorization denied for user {user}"))
        }
        Ok(Access::Unknown) => unauthorized(),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, verb, path, "it is not known if a request is allowed");
            answer(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        }
    }
}

/// The token of an `Authorization` header.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

fn page(served: ServedMetrics) -> MethodRouter {
    get(move |headers: HeaderMap| {
        let format = Format::of(headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()));
        let metrics = served.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        async move {
            let Some(metrics) = metrics else { return answer(StatusCode::SERVICE_UNAVAILABLE, "nothing runs here now") };
            // Sizes of caches are read from the disk.
            match tokio::task::spawn_blocking(move || metrics.page_as(format)).await {
                Ok(Ok(page)) => ([(header::CONTENT_TYPE, format.content_type())], page).into_response(),
                Ok(Err(error)) => answer(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
                Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            }
        }
    })
}

fn log_level() -> MethodRouter {
    get(|| async { levels_now() }).put(|Extension(User(user)): Extension<User>, body: Body| async move {
        let text = match tokio::time::timeout(BODY, axum::body::to_bytes(body, levels::MOST)).await {
            Ok(Ok(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(Err(error)) => {
                return answer(StatusCode::PAYLOAD_TOO_LARGE, format!("log levels: {error}; at most {} bytes are read", levels::MOST));
            }
            Err(_) => {
                return answer(StatusCode::REQUEST_TIMEOUT, format!("log levels: they did not arrive within {} seconds", BODY.as_secs()));
            }
        };
        let wanted: Levels = match text.parse() {
            Ok(wanted) => wanted,
            Err(problem) => return answer(StatusCode::BAD_REQUEST, format!("log levels: {problem}\nhint: {}", levels::hint())),
        };
        match logging::change(wanted, &user) {
            Ok(()) => levels_now(),
            Err(problem) => answer(StatusCode::INTERNAL_SERVER_ERROR, format!("log levels: {problem}")),
        }
    })
}

fn levels_now() -> Response {
    match logging::current() {
        Some(levels) => answer(StatusCode::OK, levels.to_string()),
        None => answer(StatusCode::SERVICE_UNAVAILABLE, "the log has not started"),
    }
}

fn answer(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")], text.into() + "\n").into_response()
}
