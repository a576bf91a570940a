//! The HTTP interface (MACH-MCS-01).

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use bytes::Bytes;
use mainstay_diagnostics::chain;
use mainstay_machine_config_core::config_server::{Route, route, version_for};
use mainstay_serve::Connection;
use tokio::sync::watch;

use crate::snapshot::Snapshot;

/// The longest part of a client's words that is logged.
const SHOWN: usize = 200;

type Snapshots = watch::Receiver<Arc<Snapshot>>;

/// The routes over the newest snapshot.
pub(crate) fn router(snapshots: Snapshots) -> Router {
    Router::new().fallback(answer).with_state(snapshots)
}

async fn answer(State(snapshots): State<Snapshots>, request: Request) -> Response<Body> {
    let is_head = request.method() == Method::HEAD;
    match route(request.method().as_str(), request.uri().path()) {
        Route::OtherMethod => empty(StatusCode::METHOD_NOT_ALLOWED),
        Route::Health => empty(StatusCode::OK),
        Route::Unknown => empty(StatusCode::NOT_FOUND),
        Route::Config(pool) => {
            let address = request.extensions().get::<Connection>().map(|connection| connection.remote.to_string());
            let (accept, agent) = (said(request.headers(), &header::ACCEPT), said(request.headers(), &header::USER_AGENT));
            tracing::info!(
                pool = cut(pool),
                address = address.as_deref().unwrap_or_default(),
                agent = cut(&agent),
                accept = cut(&accept),
                "config requested"
            );
            let snapshot = snapshots.borrow().clone();
            config(&snapshot, pool, &accept, is_head).await
        }
    }
}

async fn config(snapshot: &Snapshot, pool: &str, accept: &str, is_head: bool) -> Response<Body> {
    let version = match version_for(accept) {
        Ok(version) => version,
        Err(error) => {
            tracing::warn!(error = cut(&error.to_string()), "config not served");
            return empty(StatusCode::BAD_REQUEST);
        }
    };
    match snapshot.answer(pool, version).await {
        None => empty(StatusCode::NOT_FOUND),
        Some(Ok(config)) => json(config, is_head),
        Some(Err(error)) => {
            tracing::error!(pool = cut(pool), version = version.text(), error = chain(&error), "config not served");
            empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

/// All values of a header, as one list.
fn said(headers: &HeaderMap, name: &header::HeaderName) -> String {
    let values: Vec<_> = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    values.join(", ")
}

fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect::<String>().escape_debug().to_string()
}

fn json(config: Bytes, is_head: bool) -> Response<Body> {
    let length = config.len();
    let mut answer = Response::new(if is_head { Body::empty() } else { Body::from(config) });
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    answer
}

fn empty(code: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(0));
    answer
}
