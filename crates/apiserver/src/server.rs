//! The request pipeline: one function from request to answer, behind one router.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::upgrade::OnUpgrade;
use mainstay_rbac::UserInfo;
use mainstay_serve::Place;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::aggregation;
use crate::api::{Api, TrustedIdentity};
use crate::error::{ApiError, Result};
use crate::inflight;
use crate::metrics::Series;
use crate::negotiate::{self, Agreed, Format};
use crate::request::{Query, RequestInfo, decode_path};
use crate::respond::Answer;

/// The largest request body.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Where this process answers what Kubernetes does not know.
const PAGES: &str = "/mainstay/";

/// How much of a body that nobody wants is read before the answer is sent, and how long that may take.
const UNREAD_LIMIT: usize = 64 * 1024 * 1024;
const UNREAD_TIME: Duration = Duration::from_secs(1);

/// A request on its way.
pub struct Context {
    /// The API.
    pub api: Arc<Api>,
    /// What is asked.
    pub info: RequestInfo,
    /// Its method.
    pub method: Method,
    /// Its query.
    pub query: Query,
    /// Its headers.
    pub headers: HeaderMap,
    /// Who asks.
    pub user: Arc<UserInfo>,
    /// How to answer.
    pub agreed: Agreed,
    warnings: Mutex<Vec<String>>,
    upgrade: Mutex<Option<Upgrade>>,
}

/// A connection that can change its protocol.
pub struct Upgrade {
    /// The connection, once the answer that says so was sent.
    pub connection: OnUpgrade,
    /// What keeps its place among the connections of the listener.
    pub place: Option<Place>,
}

impl Context {
    /// The connection under the request, where it can change its protocol; once.
    pub fn upgrade(&self) -> Option<Upgrade> {
        self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Adds a `Warning` header to the answer.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        if let Ok(mut warnings) = self.warnings.lock()
            && !warnings.contains(&text)
            && warnings.len() < 64
        {
            warnings.push(text);
        }
    }

    /// The `User-Agent`.
    pub fn user_agent(&self) -> &str {
        negotiate::text(&self.headers, header::USER_AGENT)
    }

    /// The same request as one for another resource, for steps that act on behalf of it.
    pub fn with_info(&self, info: RequestInfo) -> Self {
        Self {
            api: self.api.clone(),
            info,
            method: self.method.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            user: self.user.clone(),
            agreed: Agreed { format: self.agreed.format, ..Agreed::default() },
            warnings: Mutex::default(),
            upgrade: Mutex::default(),
        }
    }
}

/// The router that serves everything.
pub fn router(api: Arc<Api>) -> Router {
    Router::new().fallback(move |request: Request<Body>| {
        let api = api.clone();
        async move { serve(api, request).await }
    })
}

/// The router for callers inside the process: every request has this identity.
pub fn in_process(api: Arc<Api>, user: Arc<UserInfo>) -> Router {
    Router::new().fallback(move |mut request: Request<Body>| {
        let api = api.clone();
        request.extensions_mut().insert(TrustedIdentity(user.clone()));
        async move { serve(api, request).await }
    })
}

async fn serve(api: Arc<Api>, request: Request<Body>) -> Response<Body> {
    let begun = Instant::now();
    let (parts, mut body) = request.into_parts();
    let Some(path) = decode_path(parts.uri.path()) else {
        drain(body).await;
        return malformed();
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::new(&parts.method, &path, &query);
    let series = Series::of(&api, &info, &parts);
    let gzip = negotiate::accepts_gzip(&parts.headers);
    let head = parts.method == Method::HEAD;
    let error_format = negotiate::agree(&parts.headers, None, negotiate::has_protobuf(&info)).map_or(Format::Json, |agreed| agreed.format);
    let answered = if inflight::long_running(&info) {
        run(&api, parts, &mut body, query, info).await
    } else {
        match inflight::patience(&query) {
            Err(error) => Err(error),
            Ok(patience) => tokio::time::timeout(patience, run(&api, parts, &mut body, query, info)).await.unwrap_or_else(|_| {
                api.metrics.terminated(&series);
                Err(inflight::out_of_time())
            }),
        }
    };
    let answer = answered.unwrap_or_else(|error| Answer::from_error(&error, error_format));
    drain(body).await;
    api.metrics.answered(series, answer.status, begun.elapsed());
    let mut response = answer.into_response(gzip);
    if head {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn run(api: &Arc<Api>, mut parts: Parts, body: &mut Body, query: Query, info: RequestInfo) -> Result<Answer> {
    let user = match api.access.identify(&parts).await {
        Err(refusal) if is_behind(api, &refusal).await => api.access.identify(&parts).await?,
        outcome => outcome?,
    };
    let _slot = match api.inflight.admit(&info, &user) {
        Ok(slot) => slot,
        Err(full) => return Ok(full.into()),
    };
    match api.access.authorize(&user, &info).await {
        Err(refusal) if is_behind(api, &refusal).await => api.access.authorize(&user, &info).await?,
        outcome => outcome?,
    }
    if let Some(remote) = api.aggregation.route(&info.path) {
        return Ok(Answer::sent(aggregation::forward(api, &remote, &info.path, parts, std::mem::take(body), &user).await));
    }
    if info.path.starts_with(PAGES) && info.path != crate::backup::PATH {
        parts.extensions.insert(TrustedIdentity(user));
        let request = Request::from_parts(parts, Body::new(Limited::new(std::mem::take(body), BODY_LIMIT)));
        return Ok(Answer::sent(api.pages.clone().oneshot(request).await.unwrap_or_else(|never| match never {})));
    }
    let pretty = query.first("pretty").map(|_| query.flag("pretty"));
    let agreed = if info.is_resource {
        negotiate::agree(&parts.headers, pretty, negotiate::has_protobuf(&info))?
    } else {
        negotiate::agree(&parts.headers, pretty, false).unwrap_or_default()
    };
    let place = parts.extensions.remove();
    let upgrade = parts.extensions.remove().map(|connection| Upgrade { connection, place });
    let context = Context {
        api: api.clone(),
        info,
        method: parts.method,
        query,
        headers: parts.headers,
        user,
        agreed,
        warnings: Mutex::default(),
        upgrade: Mutex::new(upgrade),
    };
    let answered = if context.info.is_resource { crate::rest::route(&context, body).await } else { crate::pages::route(&context).await };
    let mut answer = match answered {
        Ok(answer) => answer,
        Err(error) => Answer::from_error(&error, context.agreed.format),
    };
    if let Ok(warnings) = context.warnings.lock() {
        for text in warnings.iter() {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
                answer.headers.push((header::WARNING, value));
            }
        }
    }
    Ok(answer)
}

/// What Go's HTTP server says to what it can not read.
fn malformed() -> Response<Body> {
    Answer::text(StatusCode::BAD_REQUEST, "400 Bad Request").into_response(false)
}

/// Whether a refusal came of not having heard yet what another server on the same store has written; it has been heard then.
async fn is_behind(api: &Api, refusal: &ApiError) -> bool {
    if !api.store.shared() || !matches!(refusal.code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return false;
    }
    let shown = api.cache.revision();
    api.behind.catch_up(&api.cache).await.is_some_and(|now| now > shown)
}

/// Reads what a refusal left of a body, within reason: a client that is still writing when the connection closes may never see the
/// answer.
async fn drain(mut body: Body) {
    let rest = async {
        let mut unread = UNREAD_LIMIT;
        while let Some(Ok(frame)) = body.frame().await {
            unread = unread.saturating_sub(frame.data_ref().map_or(0, bytes::Bytes::len));
            if unread == 0 {
                break;
            }
        }
    };
    // Whatever goes wrong here, the answer is decided.
    let _ = tokio::time::timeout(UNREAD_TIME, rest).await;
}

/// Reads a body within the limit; what lies beyond it is left there.
pub async fn read_body(body: &mut Body) -> Result<bytes::Bytes> {
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(BODY_LIMIT)),
        Err(error) => Err(ApiError::bad_request(format!("error reading the request body: {error}"))),
    }
}

/// A JSON answer outside of the resources.
pub fn json(context: &Context, value: &Value) -> Answer {
    let format = if context.agreed.format.is_json() { context.agreed.format } else { Format::Json };
    Answer::value(StatusCode::OK, format, value)
}
