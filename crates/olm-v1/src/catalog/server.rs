//! catalogd's HTTP interface (OLM1-CAT-16..18), over mapped content: nothing is copied but what a range or a query picks.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::any;
use bytes::Bytes;
use jiff::Timestamp;
use mainstay_catalog::MetaQuery;
use mainstay_catalog_store::StoredCatalog;

use super::shelf::Shelf;

const JSON_LINES: &str = "application/jsonl";

#[derive(Clone)]
struct Served {
    shelf: Shelf,
    metas: bool,
}

/// The routes below `/catalogs`; `metas` is the gate `APIV1MetasHandler`.
pub fn router(shelf: Shelf, metas: bool) -> Router {
    Router::new()
        .route("/catalogs/{name}/api/v1/all", any(all))
        .route("/catalogs/{name}/api/v1/metas", any(query))
        .fallback(|| async { plain(StatusCode::NOT_FOUND, "404 page not found") })
        .with_state(Served { shelf, metas })
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn refused(method: &Method) -> Option<Response<Body>> {
    (!matches!(*method, Method::GET | Method::HEAD)).then(|| plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"))
}

async fn all(State(served): State<Served>, Path(name): Path<String>, method: Method, headers: HeaderMap) -> Response<Body> {
    if let Some(refused) = refused(&method) {
        return refused;
    }
    let Some(held) = served.shelf.get(&name) else {
        return plain(StatusCode::NOT_FOUND, "404 Not Found");
    };
    let content = held.content;
    // RFC 9110 compares whole seconds.
    let modified = content.modified().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let mut response = match precondition(&headers, modified) {
        Some(status) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            response
        }
        None => body(&content, &headers, modified, &method),
    };
    let out = response.headers_mut();
    out.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Ok(value) = HeaderValue::try_from(http_date(modified)) {
        out.insert(header::LAST_MODIFIED, value);
    }
    response
}

/// 304 or 412, where a precondition says so (RFC 9110, section 13.2.2; there are no entity tags).
fn precondition(headers: &HeaderMap, modified: u64) -> Option<StatusCode> {
    let time = |name| headers.get(name).and_then(|value| value.to_str().ok()).and_then(parse_http_date);
    if headers.contains_key(header::IF_MATCH) {
        let any = headers.get(header::IF_MATCH).is_some_and(|value| value == "*");
        if !any {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
    } else if time(header::IF_UNMODIFIED_SINCE).is_some_and(|since| modified > since) {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        let any = headers.get(header::IF_NONE_MATCH).is_some_and(|value| value == "*");
        return any.then_some(StatusCode::NOT_MODIFIED);
    }
    time(header::IF_MODIFIED_SINCE).filter(|since| modified <= *since).map(|_| StatusCode::NOT_MODIFIED)
}

fn body(content: &StoredCatalog, headers: &HeaderMap, modified: u64, method: &Method) -> Response<Body> {
    let bytes = Bytes::from_owner(Mapped(content.clone()));
    let length = bytes.len() as u64;
    let range = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let current =
        headers.get(header::IF_RANGE).and_then(|value| value.to_str().ok()).is_none_or(|date| parse_http_date(date) == Some(modified));
    let (status, bytes, content_range) = match range.filter(|_| current && *method == Method::GET).map(|range| parse_range(range, length)) {
        None | Some(Range::Ignored) => (StatusCode::OK, bytes, None),
        Some(Range::Part(from, to)) => {
            (StatusCode::PARTIAL_CONTENT, bytes.slice(from as usize..=to as usize), Some(format!("bytes {from}-{to}/{length}")))
        }
        Some(Range::Unsatisfiable) => (StatusCode::RANGE_NOT_SATISFIABLE, Bytes::new(), Some(format!("bytes */{length}"))),
    };
    let size = bytes.len();
    let mut response = Response::new(if *method == Method::HEAD { Body::empty() } else { Body::from(bytes) });
    *response.status_mut() = status;
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON_LINES));
    out.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    if let Some(value) = content_range.and_then(|text| HeaderValue::try_from(text).ok()) {
        out.insert(header::CONTENT_RANGE, value);
    }
    response
}

/// Keeps the mapping alive as long as somebody sends from it.
struct Mapped(StoredCatalog);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.0.content()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Range {
    Ignored,
    Part(u64, u64),
    Unsatisfiable,
}

/// One range of bytes; several are answered with the whole, as RFC 9110 allows.
fn parse_range(text: &str, length: u64) -> Range {
    let Some((from, to)) = text.strip_prefix("bytes=").filter(|spec| !spec.contains(',')).and_then(|spec| spec.split_once('-')) else {
        return Range::Ignored;
    };
    match (from.trim().parse::<u64>(), to.trim().parse::<u64>()) {
        (Ok(from), _) if from >= length => Range::Unsatisfiable,
        (Ok(from), Ok(to)) if from <= to => Range::Part(from, to.min(length - 1)),
        (Ok(from), Err(_)) if to.trim().is_empty() => Range::Part(from, length - 1),
        (Err(_), Ok(last)) if from.trim().is_empty() => {
            if last == 0 || length == 0 {
                Range::Unsatisfiable
            } else {
                Range::Part(length.saturating_sub(last), length - 1)
            }
        }
        _ => Range::Ignored,
    }
}

async fn query(State(served): State<Served>, Path(name): Path<String>, RawQuery(raw): RawQuery, method: Method) -> Response<Body> {
    if !served.metas {
        return plain(StatusCode::NOT_FOUND, "404 page not found");
    }
    if let Some(refused) = refused(&method) {
        return refused;
    }
    let Some(wanted) = meta_query(raw.as_deref().unwrap_or_default()) else {
        return plain(StatusCode::BAD_REQUEST, "400 Bad Request");
    };
    let Some(held) = served.shelf.get(&name) else {
        return plain(StatusCode::NOT_FOUND, "404 Not Found");
    };
    let content = held.content;
    let whole = Bytes::from_owner(Mapped(content.clone()));
    let ranges: Vec<_> = content.index().metas(&wanted).collect();
    let size: u64 = ranges.iter().map(|range| range.end - range.start + 1).sum();
    let lines = ranges.into_iter().flat_map(move |range| {
        [Ok::<_, std::convert::Infallible>(whole.slice(range.start as usize..range.end as usize)), Ok(Bytes::from_static(b"\n"))]
    });
    let mut response = Response::new(if method == Method::HEAD { Body::empty() } else { Body::from_stream(futures::stream::iter(lines)) });
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON_LINES));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    response
}

/// The three parameters; `None` when there is another one. An empty value is as good as none.
fn meta_query(raw: &str) -> Option<MetaQuery> {
    let mut wanted = MetaQuery::default();
    for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = Some(percent_decoded(value)?).filter(|value| !value.is_empty());
        match key {
            "schema" => wanted.schema = value,
            "package" => wanted.package = value,
            "name" => wanted.name = value,
            _ => return None,
        }
    }
    Some(wanted)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn http_date(seconds: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    Timestamp::try_from(time).map(|time| time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).unwrap_or_default()
}

fn parse_http_date(text: &str) -> Option<u64> {
    let rest = text.trim().strip_suffix("GMT")?;
    let time = jiff::fmt::strtime::parse("%a, %d %b %Y %H:%M:%S %z", format!("{rest}+0000")).ok()?.to_timestamp().ok()?;
    u64::try_from(time.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_dates_and_queries_are_read_as_http_says() {
        assert_eq!(parse_range("bytes=0-9", 100), Range::Part(0, 9));
        assert_eq!(parse_range("bytes=90-", 100), Range::Part(90, 99));
        assert_eq!(parse_range("bytes=-5", 100), Range::Part(95, 99));
        assert_eq!(parse_range("bytes=100-", 100), Range::Unsatisfiable);
        assert_eq!(parse_range("bytes=0-1,5-6", 100), Range::Ignored);
        assert_eq!(parse_http_date("Thu, 01 Jan 1970 00:01:40 GMT"), Some(100));
        assert_eq!(http_date(100), "Thu, 01 Jan 1970 00:01:40 GMT");
        let wanted = meta_query("schema=olm.package&name=a%2Fb");
        assert_eq!(wanted.map(|query| (query.schema, query.name)), Some((Some("olm.package".into()), Some("a/b".into()))));
        assert_eq!(meta_query("other=1"), None);
    }
}
