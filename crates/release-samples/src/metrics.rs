//! A metrics endpoint that can be switched: it answers `/api/v1/query` as Prometheus does (CVO-RISK-03, CVO-SIM-06).
//!
//! ```text
//!   GET, POST /api/v1/query?query=Q    a vector of one sample for a query that is known, an empty one for any other
//!   GET, PUT  /value                   the value of the known queries: 0 or 1
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const MAX_BODY: usize = 64 << 10;

/// The endpoint. Clones share the value.
#[derive(Clone, Debug)]
pub struct Endpoint {
    queries: Arc<BTreeSet<String>>,
    value: Arc<AtomicBool>,
    clock: fn() -> Timestamp,
}

#[derive(Deserialize)]
struct Asked {
    query: Option<String>,
    time: Option<String>,
}

impl Endpoint {
    /// An endpoint that knows these queries; `matches` is their value at first.
    pub fn new<Q: Into<String>>(queries: impl IntoIterator<Item = Q>, matches: bool, clock: fn() -> Timestamp) -> Self {
        let queries = queries.into_iter().map(Into::into).collect();
        Self { queries: Arc::new(queries), value: Arc::new(AtomicBool::new(matches)), clock }
    }

    /// Switches the value of the known queries to 1 or 0.
    pub fn switch(&self, matches: bool) {
        self.value.store(matches, Ordering::Relaxed);
    }

    /// Returns the routes.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/api/v1/query", get(query).post(posted))
            .route("/value", get(value).put(switch))
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(self.clone())
    }

    /// Serves until `until` ends.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(self, listener: TcpListener, until: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
        axum::serve(listener, self.router()).with_graceful_shutdown(until).await
    }

    fn answer(&self, asked: &Asked) -> (StatusCode, Value) {
        let query = asked.query.as_deref().unwrap_or_default().trim();
        if query.is_empty() {
            return bad("invalid parameter \"query\": 1:1: parse error: no expression found in input");
        }
        let time = match asked.time.as_deref() {
            None | Some("") => (self.clock)().as_millisecond() as f64 / 1_000.0,
            Some(text) => {
                match text.parse::<f64>().ok().or_else(|| Some(text.parse::<Timestamp>().ok()?.as_millisecond() as f64 / 1_000.0)) {
                    Some(time) => time,
                    None => return bad(&format!("invalid parameter \"time\": cannot parse {text:?} to a valid timestamp")),
                }
            }
        };
        let value = if self.value.load(Ordering::Relaxed) { "1" } else { "0" };
        let result = if self.queries.contains(query) { json!([{"metric": {}, "value": [time, value]}]) } else { json!([]) };
        (StatusCode::OK, json!({"status": "success", "data": {"resultType": "vector", "result": result}}))
    }
}

fn bad(error: &str) -> (StatusCode, Value) {
    (StatusCode::BAD_REQUEST, json!({"status": "error", "errorType": "bad_data", "error": error}))
}

async fn query(State(endpoint): State<Endpoint>, Query(asked): Query<Asked>) -> Response {
    let (status, body) = endpoint.answer(&asked);
    (status, Json(body)).into_response()
}

async fn posted(State(endpoint): State<Endpoint>, Query(asked): Query<Asked>, body: String) -> Response {
    let form = Uri::builder().path_and_query(format!("/?{body}")).build().ok().and_then(|uri| Query::<Asked>::try_from_uri(&uri).ok());
    let Some(Query(form)) = form else {
        let (status, body) = bad("error parsing form values");
        return (status, Json(body)).into_response();
    };
    let asked = Asked { query: form.query.or(asked.query), time: form.time.or(asked.time) };
    let (status, body) = endpoint.answer(&asked);
    (status, Json(body)).into_response()
}

async fn value(State(endpoint): State<Endpoint>) -> Response {
    let value = if endpoint.value.load(Ordering::Relaxed) { "1\n" } else { "0\n" };
    ([(header::CONTENT_TYPE, "text/plain")], value).into_response()
}

async fn switch(State(endpoint): State<Endpoint>, body: String) -> Response {
    match body.trim() {
        "0" => endpoint.switch(false),
        "1" => endpoint.switch(true),
        _ => return (StatusCode::BAD_REQUEST, "the value is 0 or 1\n").into_response(),
    }
    value(State(endpoint)).await
}
