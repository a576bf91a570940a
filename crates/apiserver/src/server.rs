//! The request pipeline: one function from request to answer, behind one router.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, HttpBody as _};
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
use crate::inflight::{self, Caller, Hold, Work};
use crate::metrics::Series;
use crate::negotiate::{self, Agreed, Format};
use crate::request::{Query, RequestInfo, decode_path};
use crate::respond::Answer;
use crate::turns::{Weight, aside};

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
    /// Who asks, as far as sharing goes.
    pub(crate) caller: Caller,
    /// What the request holds while it is worked on.
    pub(crate) work: Arc<Mutex<Work>>,
    /// Whether its work takes long.
    pub(crate) weight: Arc<Weight>,
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
        let upgrade = self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take();
        upgrade.iter().filter_map(|upgrade| upgrade.place.as_ref()).for_each(Place::upgraded);
        upgrade
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

    /// Room for an answer of about so many bytes; what is large is made beside the async workers.
    pub async fn room(&self, bytes: usize) -> Result<()> {
        if bytes > inflight::SMALL {
            self.api.inflight.room(&self.work, &self.caller, bytes).await?;
            self.weight.long().await;
        }
        Ok(())
    }

    /// What follows takes long: it is done beside the async workers, in turns with others.
    pub async fn takes_long(&self) {
        self.weight.long().await;
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
            caller: self.caller.clone(),
            work: self.work.clone(),
            weight: self.weight.clone(),
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
    let series = Series::of(api, &info, &parts);
    let gzip = negotiate::accepts_gzip(&parts.headers);
    let head = parts.method == Method::HEAD;
    let error_format = negotiate::agree(&parts.headers, None, negotiate::has_protobuf(&info)).map_or(Format::Json, |agreed| agreed.format);
    let mut hold = Hold::default();
    let answered = if inflight::long_running(&info) {
        run(api, parts, body, query, info, &mut hold).await
    } else {
        match inflight::patience(&query) {
            Err(error) => Err(error),
            Ok(patience) => {
                let running = run(api, parts, body, query, info, &mut hold);
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
    if head {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn run(api: &Arc<Api>, parts: Parts, body: &mut Body, query: Query, info: RequestInfo, hold: &mut Hold) -> Result<Answer> {
    if parts.headers.len() > inflight::HEADERS {
        let code = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Ok(Answer::text(code, format!("{code}: at most {} headers are read\n", inflight::HEADERS)));
    }
    let user = match api.access.identify(&parts).await {
        Err(refusal) if is_behind(api, &refusal).await => api.access.identify(&parts).await,
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
    let caller = Caller::of(&parts, &user, &info);
    *hold = match api.inflight.admit(&info, &caller) {
        Ok(hold) => hold,
        Err(full) => return Err(full.into()),
    };
    let (work, weight) = (Arc::new(Mutex::new(Work::default())), Arc::new(Weight::default()));
    let answered = {
        let answering = answer(api, parts, body, query, info, user, (caller.clone(), work.clone(), weight.clone()));
        let mut answering = std::pin::pin!(answering);
        api.inflight.turns.share(&caller, &weight, answering.as_mut()).await
    };
    inflight::done(&work, hold);
    answered
}

async fn answer(
    api: &Arc<Api>,
    mut parts: Parts,
    body: &mut Body,
    query: Query,
    info: RequestInfo,
    user: Arc<UserInfo>,
    (caller, work, weight): (Caller, Arc<Mutex<Work>>, Arc<Weight>),
) -> Result<Answer> {
    match api.access.authorize(&user, &info).await {
        Err(refusal) if is_behind(api, &refusal).await => api.access.authorize(&user, &info).await?,
        outcome => outcome?,
    }
    if let Some(remote) = api.aggregation.route(&info.path) {
        return Ok(Answer::sent(aggregation::forward(api, &remote, &info.path, parts, std::mem::take(body), &user).await));
    }
    if matches!(info.verb.as_str(), "get" | "list" | "head") {
        // What writes gets its seat when its body is there.
        api.inflight.seat(&work, &info, &caller).await?;
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
        caller,
        work,
        weight,
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
    Answer::text(StatusCode::BAD_REQUEST, "400 Bad Request").into_response(false, Hold::default())
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

/// Receives the body of a request, and gives it its seat when it is there: a body that is half sent keeps nobody out.
pub async fn receive(context: &Context, body: &mut Body) -> Result<bytes::Bytes> {
    let Context { api, caller, work, .. } = context;
    let announced = body.size_hint().exact().map_or(BODY_LIMIT, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let received = read_body(context, body, announced);
    let received = if caller.exempt {
        received.await?
    } else {
        let patience = inflight::body_patience(announced.min(BODY_LIMIT));
        tokio::time::timeout(patience, received).await.map_err(|_| inflight::out_of_time())??
    };
    let memory = match negotiate::content_type(&context.headers) {
        mainstay_protobuf::MEDIA_TYPE => received.len().saturating_mul(PROTOBUF).min(TREE_LIMIT),
        "application/yaml" | "text/yaml" | "application/x-yaml" | "application/apply-patch+yaml" => weigh_yaml(&received),
        _ => weigh(&received),
    };
    if received.len() > inflight::SMALL || memory > HEAVY {
        if memory > TREE_LIMIT && !caller.exempt {
            return Err(ApiError::too_large(BODY_LIMIT));
        }
        api.inflight.decode(work, caller, memory).await?;
        context.takes_long().await;
    }
    api.inflight.seat(work, &context.info, caller).await?;
    Ok(received)
}

/// Reads a body within the limit; what lies beyond it is left there. Room is asked for before much of it is read.
async fn read_body(context: &Context, body: &mut Body, announced: usize) -> Result<bytes::Bytes> {
    let mut limited = Limited::new(body, BODY_LIMIT);
    let (mut first, mut rest) = (bytes::Bytes::new(), bytes::BytesMut::new());
    let mut has_room = false;
    while let Some(frame) = limited.frame().await {
        let piece = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) if error.is::<LengthLimitError>() => return Err(ApiError::too_large(BODY_LIMIT)),
            Err(error) => return Err(ApiError::bad_request(format!("error reading the request body: {error}"))),
        };
        if first.is_empty() {
            first = piece;
        } else {
            // Small pieces are not kept: each holds the whole of what was read with it.
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&piece);
        }
        if first.len().max(rest.len()) > inflight::SMALL && !std::mem::replace(&mut has_room, true) {
            context.api.inflight.receive(&context.work, &context.caller, announced.min(BODY_LIMIT)).await?;
        }
    }
    // The usual body is one piece.
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// The most memory that a decoded body may take.
const TREE_LIMIT: usize = 96 << 20;
/// What a value takes in an array, an object with a field, and a field: about, in `serde_json`.
const VALUE: usize = 32;
const OBJECT: usize = 640;
const FIELD: usize = 96;
/// What a byte of protobuf may become, about; its decoder counts values itself.
const PROTOBUF: usize = 100;
/// From here on a small body is worked on as a large one.
const HEAVY: usize = 4 << 20;
/// How deep a text may nest to be decoded.
const DEEPEST: usize = 128;

/// About how much memory a JSON text takes when it is decoded: a few bytes of it can become many.
fn weigh(text: &[u8]) -> usize {
    let (mut weight, mut depth, mut quoted, mut escaped) = (text.len(), 0_usize, false, false);
    for byte in text {
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            // Nobody reads on from here.
            break;
        }
        weight += match byte {
            b'"' => {
                quoted = true;
                0
            }
            b',' => VALUE,
            b':' => FIELD - VALUE,
            b'{' => OBJECT,
            b'[' => 4 * VALUE,
            _ => 0,
        };
    }
    weight
}

/// The same of YAML: what is quoted cannot be told, so that each sign that may begin a value counts.
fn weigh_yaml(text: &[u8]) -> usize {
    let weight = |byte: &u8| match byte {
        b'{' | b':' | b'?' => OBJECT + FIELD,
        b'[' | b'-' => 4 * VALUE,
        b',' => FIELD,
        b'\n' => VALUE,
        _ => 0,
    };
    text.iter().fold(text.len(), |sum, byte| sum + weight(byte))
}

/// A JSON answer outside of the resources.
pub fn json(context: &Context, value: &Value) -> Answer {
    let format = if context.agreed.format.is_json() { context.agreed.format } else { Format::Json };
    Answer::value(StatusCode::OK, format, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-SRV-06: a small text that becomes large is known before it is decoded, an honest one weighs little more than it is long.
    #[test]
    fn texts_are_weighed() {
        let objects = format!("[{}]", vec![r#"{"":0}"#; 100_000].join(","));
        assert!(weigh(objects.as_bytes()) > 60 << 20, "{}", weigh(objects.as_bytes()));
        let honest = serde_json::json!({"data": {"text": "{[,:\\\"".repeat(100_000)}}).to_string();
        assert!(weigh(honest.as_bytes()) < honest.len() + 4_096);
        for text in ["", "\"", "\"\\", "{", "[[[["] {
            assert!(weigh(text.as_bytes()) >= text.len());
        }
        let deep = "[".repeat(1_000_000);
        assert!(weigh(deep.as_bytes()) < 2 * deep.len(), "it is refused where it gets too deep");
    }
}
