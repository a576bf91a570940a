//! The HTTP interface (CVO-OSUS-03 to CVO-OSUS-06, CVO-OSUS-10).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::{any, get};
use bytes::Bytes;
use mainstay_runtime::metrics::Format;
use mainstay_serve::accepts_gzip;
use mainstay_update_graph::{AnswerError, Parameters};

use crate::metrics::{BuilderMetrics, PolicyMetrics};
use crate::snapshot::{Encoded, Snapshot};
use crate::{openapi, signatures};

const VENDOR: &str = "application/vnd.redhat.cincinnati.v1+json";
const JSON: &str = "application/json";

/// The state that the routes share with the builder.
#[derive(Debug)]
pub(crate) struct Shared {
    snapshot: RwLock<Option<Arc<Snapshot>>>,
    pub(crate) live: AtomicBool,
    pub(crate) policy: PolicyMetrics,
    pub(crate) builder: BuilderMetrics,
    signatures: Option<PathBuf>,
}

impl Shared {
    pub(crate) fn new(commit: &str, signatures: Option<PathBuf>) -> Self {
        let (policy, builder) = (PolicyMetrics::new(commit), BuilderMetrics::new(commit));
        Self { snapshot: RwLock::default(), live: AtomicBool::new(true), policy, builder, signatures }
    }

    /// The graph that is served.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves another graph from now on; answers that are on their way keep theirs.
    pub(crate) fn replace(&self, snapshot: Arc<Snapshot>) {
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }

    fn needed(&self) -> Result<Arc<Snapshot>, AnswerError> {
        self.snapshot().ok_or_else(|| AnswerError::FailedUpstreamFetch("no graph was built yet".to_owned()))
    }
}

type App = Arc<Shared>;
type Answer = Response<Body>;

/// The routes for clusters. The prefix begins with a slash and does not end with one, or is empty.
pub(crate) fn policy(shared: App, prefix: &str) -> Router {
    let document = Bytes::from(openapi::document(prefix).to_string());
    let described = move |method: Method| {
        let document = document.clone();
        async move { answered(&method, || Ok(bytes(document, JSON))) }
    };
    let of_graph = |path: &'static str| {
        any(move |State(shared): State<App>, method: Method, RawQuery(query): RawQuery, headers: HeaderMap| async move {
            graph(&shared, path, &method, query.as_deref().unwrap_or_default(), &headers)
        })
    };
    Router::new()
        .route(&format!("{prefix}/graph"), of_graph("/graph"))
        .route(&format!("{prefix}/v1/graph"), of_graph("/v1/graph"))
        .route(&format!("{prefix}/openapi"), any(described.clone()))
        .route(&format!("{prefix}/v1/openapi"), any(described))
        .route("/signatures/{digest}/{name}", any(signature))
        .with_state(shared)
}

/// The routes for policy engines elsewhere.
pub(crate) fn builder(shared: App, prefix: &str) -> Router {
    let whole = |path: &'static str| {
        any(move |State(shared): State<App>, method: Method, headers: HeaderMap| async move {
            shared.builder.requested(path);
            answered(&method, || {
                let media_type = negotiate(&headers)?;
                Ok(encoded(shared.needed()?.whole()?, media_type, &headers))
            })
        })
    };
    Router::new()
        .route(&format!("{prefix}/graph"), whole("/graph"))
        .route(&format!("{prefix}/v1/graph"), whole("/v1/graph"))
        .with_state(shared)
}

/// The public route of the graph-data in use.
pub(crate) fn public(shared: App, prefix: &str) -> Router {
    Router::new().route(&format!("{prefix}/graph-data"), any(graph_data)).with_state(shared)
}

/// Health and metrics of the policy engine.
pub(crate) fn policy_status(shared: App) -> Router {
    let page = |State(shared): State<App>, headers: HeaderMap| async move { page(&headers, shared.policy.page()) };
    Router::new().route("/livez", get(live)).route("/readyz", get(ready)).route("/metrics", get(page)).with_state(shared)
}

/// Health and metrics of the graph builder.
pub(crate) fn builder_status(shared: App) -> Router {
    let page = |State(shared): State<App>, headers: HeaderMap| async move { page(&headers, shared.builder.page()) };
    Router::new().route("/liveness", get(live)).route("/readiness", get(ready)).route("/metrics", get(page)).with_state(shared)
}

async fn live(State(shared): State<App>) -> StatusCode {
    if shared.live.load(Ordering::Relaxed) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn ready(State(shared): State<App>) -> StatusCode {
    if shared.snapshot().is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn page(headers: &HeaderMap, page: Result<String, std::fmt::Error>) -> Answer {
    let format = Format::of(headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()));
    match page {
        Ok(page) => bytes(Bytes::from(format.write(&page)), format.content_type()),
        Err(_) => status(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn graph(shared: &Shared, path: &'static str, method: &Method, query: &str, headers: &HeaderMap) -> Answer {
    let begin = Instant::now();
    shared.policy.requested(path);
    let answer = answered(method, || {
        let made = negotiate(headers).and_then(|media_type| {
            let parameters = Parameters::read(query)?;
            Ok(encoded(shared.needed()?.answer(&parameters)?, media_type, headers))
        });
        if let Err(error) = &made {
            shared.policy.failed(error);
            tracing::debug!(%error, path, query, "no graph for a client");
        }
        made
    });
    shared.policy.served(begin.elapsed());
    answer
}

async fn signature(State(shared): State<App>, method: Method, Path((digest, name)): Path<(String, String)>) -> Answer {
    let read = tokio::task::spawn_blocking(move || match &shared.signatures {
        Some(root) => signatures::read(root, &digest, &name),
        None => Err(AnswerError::DoesNotExist(format!("signature {digest}/{name}"))),
    });
    let read = read.await.unwrap_or_else(|error| Err(AnswerError::FileOpen(error.to_string())));
    answered(&method, || Ok(bytes(read?, "application/octet-stream")))
}

async fn graph_data(State(shared): State<App>, method: Method, headers: HeaderMap) -> Answer {
    shared.builder.requested("/graph-data");
    answered(&method, || {
        let snapshot = shared.needed()?;
        if knows(&headers, &snapshot.graph_data_tag) {
            return Ok(tagged(status(StatusCode::NOT_MODIFIED), &snapshot.graph_data_tag));
        }
        Ok(tagged(bytes(snapshot.graph_data.clone(), "application/gzip"), &snapshot.graph_data_tag))
    })
}

/// Answers `GET` and `HEAD` of any origin; an error becomes its document.
fn answered(method: &Method, answer: impl FnOnce() -> Result<Answer, AnswerError>) -> Answer {
    let mut answer = match *method {
        Method::GET | Method::HEAD => answer().unwrap_or_else(|error| {
            let code = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut answer = bytes(Bytes::from(error.to_json().to_string()), JSON);
            *answer.status_mut() = code;
            answer
        }),
        Method::OPTIONS => {
            let mut answer = status(StatusCode::OK);
            answer.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"));
            answer
        }
        _ => {
            let mut answer = status(StatusCode::METHOD_NOT_ALLOWED);
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            answer
        }
    };
    answer.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    if *method == Method::HEAD {
        let length = answer.headers().get(header::CONTENT_LENGTH).cloned();
        *answer.body_mut() = Body::empty();
        if let Some(length) = length {
            answer.headers_mut().insert(header::CONTENT_LENGTH, length);
        }
    }
    answer
}

/// The media type of the answer: the first one that the client names and that is spoken (CVO-OSUS-05).
fn negotiate(headers: &HeaderMap) -> Result<&'static str, AnswerError> {
    let mut named = headers.get_all(header::ACCEPT).iter().peekable();
    if named.peek().is_none() {
        return Ok(VENDOR);
    }
    let mut ranges = named.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let spoken = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let refused =
            parts.any(|part| part.strip_prefix("q=").is_some_and(|weight| weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0)));
        match name {
            _ if refused => None,
            "*" | "*/*" | "application/*" | VENDOR => Some(VENDOR),
            JSON => Some(JSON),
            _ => None,
        }
    };
    ranges.find_map(spoken).ok_or(AnswerError::InvalidContentType)
}

fn encoded(encoded: Encoded, media_type: &'static str, headers: &HeaderMap) -> Answer {
    let compressed = accepts_gzip(headers);
    let (body, tag) = if compressed { (encoded.gzip, encoded.gzip_tag) } else { (encoded.plain, encoded.tag) };
    let mut answer = if knows(headers, &tag) { status(StatusCode::NOT_MODIFIED) } else { bytes(body, media_type) };
    if compressed && answer.status() == StatusCode::OK {
        answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    tagged(answer, &tag)
}

/// Returns true if the client has the content with this tag already.
fn knows(headers: &HeaderMap, tag: &str) -> bool {
    let tags = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    tags.map(str::trim).any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

fn tagged(mut answer: Answer, tag: &str) -> Answer {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    answer
}

fn bytes(body: Bytes, media_type: &'static str) -> Answer {
    let length = body.len();
    let mut answer = Response::new(Body::from(body));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    answer
}

fn status(code: StatusCode) -> Answer {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = code;
    answer
}
