//! catalogd's HTTP interface (OLM1-CAT-16 to OLM1-CAT-18): a catalog's content as JSON lines, whole or selected by a query.
//!
//! Answers are read from the file piece by piece, as the connection takes them. The tag of an answer is weak, because the same content may
//! be sent compressed or plain; it changes exactly when the catalog does.

mod body;
mod conditions;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::routing::any;
use mainstay_catalog::MetaQuery;
use mainstay_catalog_store::StoredCatalog;
use mainstay_serve::Gzip;

use body::Pieces;
use conditions::{Part, Version, parse_range};

const JSON_LINES: &str = "application/jsonl";
/// Size in bytes from which answers are compressed for clients that accept it.
const COMPRESSED_FROM: u64 = 1024;

/// The served catalogs.
pub trait Catalogs: Send + Sync + 'static {
    /// Returns the content of a catalog; `None` when no catalog of this name is served.
    fn catalog(&self, name: &str) -> Option<StoredCatalog>;
}

/// Support of queries (the gate `APIV1MetasHandler`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queries {
    /// Queries are answered.
    Answered,
    /// The path of queries is not found.
    Unknown,
}

#[derive(Clone)]
struct Served {
    catalogs: Arc<dyn Catalogs>,
    queries: Queries,
}

/// The routes below `/catalogs`.
pub fn router(catalogs: Arc<dyn Catalogs>, queries: Queries) -> Router {
    Router::new()
        .route("/catalogs/{name}/api/v1/all", any(all))
        .route("/catalogs/{name}/api/v1/metas", any(metas))
        .fallback(|| async { plain(StatusCode::NOT_FOUND, "404 page not found") })
        .with_state(Served { catalogs, queries })
        .layer(Gzip::above(COMPRESSED_FROM))
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
    let Some(content) = served.catalogs.catalog(&name) else {
        return plain(StatusCode::NOT_FOUND, "404 Not Found");
    };
    let version = Version::of(&content);
    let mut response = match version.precondition(&headers) {
        Some(status) => empty(status),
        None => whole(content, &headers, &version, &method),
    };
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    version.write(response.headers_mut());
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Returns the content, or the requested part of it.
fn whole(content: StoredCatalog, headers: &HeaderMap, version: &Version, method: &Method) -> Response<Body> {
    let length = content.content_len();
    let range = headers.get(header::RANGE).and_then(|value| value.to_str().ok()).filter(|_| *method == Method::GET);
    let part = range.filter(|_| version.is_current(headers)).map_or(Part::Ignored, |range| parse_range(range, length));
    let (status, wanted, content_range) = match part {
        Part::Ignored => (StatusCode::OK, 0..length, None),
        Part::Bytes(from, to) => (StatusCode::PARTIAL_CONTENT, from..to + 1, Some(format!("bytes {from}-{to}/{length}"))),
        Part::Unsatisfiable => (StatusCode::RANGE_NOT_SATISFIABLE, 0..0, Some(format!("bytes */{length}"))),
    };
    let mut response = lines(Pieces::new(content, [wanted]), method);
    *response.status_mut() = status;
    if let Some(value) = content_range.and_then(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().insert(header::CONTENT_RANGE, value);
    }
    response
}

fn lines(pieces: Pieces, method: &Method) -> Response<Body> {
    let length = pieces.length();
    let mut response = Response::new(if *method == Method::HEAD { Body::empty() } else { Body::new(pieces) });
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON_LINES));
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    response
}

async fn metas(
    State(served): State<Served>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    method: Method,
    headers: HeaderMap,
) -> Response<Body> {
    if served.queries == Queries::Unknown {
        return plain(StatusCode::NOT_FOUND, "404 page not found");
    }
    if let Some(refused) = refused(&method) {
        return refused;
    }
    let Some(query) = meta_query(raw.as_deref().unwrap_or_default()) else {
        return plain(StatusCode::BAD_REQUEST, "400 Bad Request");
    };
    let Some(content) = served.catalogs.catalog(&name) else {
        return plain(StatusCode::NOT_FOUND, "404 Not Found");
    };
    let version = Version::of(&content);
    let mut response = if let Some(status) = version.precondition(&headers) {
        empty(status)
    } else {
        // With their line ends, so that adjacent lines form one range.
        let ranges: Vec<_> = content.index().metas(&query).map(|range| range.start..range.end + 1).collect();
        lines(Pieces::new(content, ranges), &method)
    };
    version.write(response.headers_mut());
    response
}

/// Returns the three parameters; `None` when there is another one. An empty value counts as absent.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_http_says() {
        let wanted = meta_query("schema=olm.package&name=a%2Fb");
        assert_eq!(wanted.map(|query| (query.schema, query.name)), Some((Some("olm.package".into()), Some("a/b".into()))));
        assert_eq!(meta_query("package=&schema"), Some(MetaQuery::default()));
        for refused in ["other=1", "schema=%g0", "schema=%", "name=%ff"] {
            assert_eq!(meta_query(refused), None, "{refused}");
        }
    }
}
