//! The request pipeline: one function from request to answer, behind one router.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use mainstay_rbac::UserInfo;
use mainstay_serve::Place;
use tower::ServiceExt as _;

use crate::aggregation;
use crate::api::Api;
use crate::body::BODY_LIMIT;
use crate::caller::Caller;
use crate::context::{Context, Upgrade};
use crate::error::{ApiError, Result};
use crate::flow::Flow;
use crate::inflight::{self, Allocation, Hold};
use crate::metrics::Series;
use crate::processor::aside;
use crate::request::negotiate::{self, Offers};
use crate::request::options::timeout;
use crate::request::{ApiRequest, Query, RequestInfo, TrustedIdentity, decode_path};
use crate::respond::Answer;

/// The prefix of the pages that Kubernetes does not have.
const PAGES: &str = "/mainstay/";

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The most of an unwanted body that is read before the answer is sent, and the time that this may take.
const UNREAD_LIMIT: usize = 64 * 1024 * 1024;
const UNREAD_TIME: Duration = Duration::from_secs(1);

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
    let (parts, mut body) = request.into_parts();
    // Boxed: while the rest of a refused body is awaited, the request holds no more than its answer.
    let response = Box::pin(respond(&api, parts, &mut body)).await;
    drain(body).await;
    response
}

async fn respond(api: &Arc<Api>, parts: Parts, body: &mut Body) -> Response<Body> {
    let begun = Instant::now();
    let Some(path) = decode_path(parts.uri.path()) else { return malformed() };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let info = RequestInfo::new(&parts.method, &path, &query);
    if info.is_unfinished {
        let words =
            format!("Internal Server Error: {path:?}: failed to create RequestInfo: unable to determine kind and namespace from url");
        return Answer::text(StatusCode::INTERNAL_SERVER_ERROR, words).into_response(false, Hold::default());
    }
    let series = Series::of(&api.objects.served(), &info, &parts);
    let gzip = negotiate::accepts_gzip(&parts.headers);
    let head = parts.method == Method::HEAD;
    let error_format = negotiate::error_format(&parts.headers, None);
    let mut hold = Hold::default();
    let mut flow = None;
    // Callers inside the process read no such header.
    let audit = parts.extensions.get::<TrustedIdentity>().is_none().then(|| audit_id(&parts.headers));
    let answered = if info.is_long_running() {
        run(api, parts, body, query, info, (&mut hold, &mut flow)).await
    } else {
        match timeout(&query) {
            Err(error) => Err(error),
            Ok(patience) => {
                let running = run(api, parts, body, query, info, (&mut hold, &mut flow));
                tokio::time::timeout(patience, running).await.unwrap_or_else(|_| {
                    api.metrics.terminated(&series);
                    Err(inflight::out_of_time())
                })
            }
        }
    };
    let answer = answered.unwrap_or_else(|error| Answer::from_error(&error, error_format));
    api.metrics.answered(series, answer.status, begun.elapsed());
    let mut response =
        if gzip && answer.is_large() { aside(|| answer.into_response(gzip, hold)) } else { answer.into_response(gzip, hold) };
    if let Some(audit) = audit {
        response.headers_mut().insert(AUDIT_ID, audit);
    }
    if let Some(flow) = flow {
        flow.tell(response.headers_mut());
    }
    if head {
        *response.body_mut() = Body::empty();
    }
    response
}

/// The id of a request, which its answer repeats: as the client gave it, else a new one.
fn audit_id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(AUDIT_ID).filter(|given| !given.is_empty()).cloned();
    // A uuid is text that a header can hold.
    given.unwrap_or_else(|| HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()).unwrap_or(HeaderValue::from_static("")))
}

async fn run(
    api: &Arc<Api>,
    parts: Parts,
    body: &mut Body,
    query: Query,
    info: RequestInfo,
    (hold, flow): (&mut Hold, &mut Option<Flow>),
) -> Result<Answer> {
    if parts.headers.len() > inflight::HEADERS {
        let code = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Ok(Answer::text(code, format!("{code}: at most {} headers are read\n", inflight::HEADERS)));
    }
    let user = match api.access.identify(&parts) {
        Err(refusal) if caught_up(api, &refusal).await => api.access.identify(&parts),
        outcome => outcome,
    };
    let user = match user {
        Ok(user) => user,
        Err(refusal) => {
            // Who has no name here may not keep the connection and try on (kube-apiserver does the same).
            if let Some(place) = parts.extensions.get::<Place>() {
                place.close();
            }
            return Err(refusal);
        }
    };
    if parts.extensions.get::<TrustedIdentity>().is_none() {
        *flow = api.flows.classify(&user, &info);
    }
    let caller = Caller::of(&parts, &user, &info);
    *hold = match api.inflight.admit(&info, &caller) {
        Ok(hold) => hold,
        Err(full) => return Err(full.into()),
    };
    let allocation = Allocation::new(caller);
    let answered = {
        let answering = answer(api, parts, body, query, info, user, allocation.clone());
        let mut answering = std::pin::pin!(answering);
        api.inflight.processor.share(&allocation.caller, &allocation.weight, answering.as_mut()).await
    };
    inflight::done(&allocation.work, hold);
    answered
}

async fn answer(
    api: &Arc<Api>,
    mut parts: Parts,
    body: &mut Body,
    query: Query,
    info: RequestInfo,
    user: Arc<UserInfo>,
    allocation: Allocation,
) -> Result<Answer> {
    match api.access.authorize(&user, &info) {
        Err(refusal) if caught_up(api, &refusal).await => api.access.authorize(&user, &info)?,
        outcome => outcome?,
    }
    if let Some(remote) = api.aggregation.route(&info.path) {
        return Ok(Answer::sent(
            aggregation::forward((&api.remotes, &api.closing), &remote, &info.path, parts, std::mem::take(body), &user).await,
        ));
    }
    if matches!(info.verb.as_str(), "get" | "list" | "head") {
        // What writes gets its seat when its body is there.
        api.inflight.seat(&allocation.work, &info, &allocation.caller).await?;
    }
    if info.path.starts_with(PAGES) && info.path != crate::backup::PATH {
        parts.extensions.insert(TrustedIdentity(user));
        let request = Request::from_parts(parts, Body::new(Limited::new(std::mem::take(body), BODY_LIMIT)));
        return Ok(Answer::sent(api.pages.clone().oneshot(request).await.unwrap_or_else(|never| match never {})));
    }
    let pretty = query.first("pretty").map(|_| query.flag("pretty"));
    // What cannot be agreed on is told once it is known that there is something to answer.
    let offers = if info.is_resource { info.offers() } else { Offers { protobuf: true, tables: false } };
    let agreed = negotiate::agree(&parts.headers, pretty, offers);
    let place = parts.extensions.remove();
    let upgrade = parts.extensions.remove().map(|connection| Upgrade { connection, place });
    let disagreement = agreed.as_ref().err().cloned();
    let request = ApiRequest::new(info, parts.method, query, parts.headers, user, agreed.unwrap_or_default());
    let context = Context::new(request, api.clone(), allocation, upgrade);
    let answered = if context.request.info.is_resource {
        crate::rest::route(&context, body, disagreement).await
    } else {
        crate::pages::route(&context, disagreement).await
    };
    let mut answer = match answered {
        Ok(answer) => answer,
        Err(error) => Answer::from_error(&error, negotiate::error_format(&context.request.headers, pretty)),
    };
    for text in context.request.take_warnings() {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            answer.headers.push((header::WARNING, value));
        }
    }
    Ok(answer)
}

/// The answer of Go's HTTP server to what it cannot read.
fn malformed() -> Response<Body> {
    Answer::text(StatusCode::BAD_REQUEST, "400 Bad Request").into_response(false, Hold::default())
}

/// Returns whether a refusal came of a cache that lagged behind what another server on the same store has written; it shows that then.
async fn caught_up(api: &Api, refusal: &ApiError) -> bool {
    if !api.objects.store.shared() || !matches!(refusal.code, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return false;
    }
    let shown = api.objects.cache.revision();
    api.cache_lag.catch_up(&api.objects.cache).await.is_some_and(|now| now > shown)
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
