//! catalogd's HTTP interface, without a socket.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::Read as _;
use std::sync::Arc;

use crate::common::{catalog, stored};
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use mainstay_catalog_serve::content::{Catalogs, Queries, router};
use mainstay_catalog_store::StoredCatalog;
use tower::ServiceExt as _;

struct One(StoredCatalog);

impl Catalogs for One {
    fn catalog(&self, name: &str) -> Option<StoredCatalog> {
        (name == "c").then(|| self.0.clone())
    }
}

struct Asked {
    catalog: StoredCatalog,
    router: axum::Router,
    _root: tempfile::TempDir,
}

impl Asked {
    fn new(queries: Queries) -> Self {
        let (catalog, root) = stored(&catalog());
        Self { router: router(Arc::new(One(catalog.clone())), queries), catalog, _root: root }
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(header::HeaderName, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let (status, _, body) = self.ask(Method::GET, path, &[]).await;
        (status, String::from_utf8(body).unwrap())
    }
}

const ALL: &str = "/catalogs/c/api/v1/all";
const METAS: &str = "/catalogs/c/api/v1/metas";

/// OLM1-CAT-16: the whole content, parts of it, its head, and what a client has already.
#[tokio::test]
async fn all() {
    let asked = Asked::new(Queries::Answered);
    let content = asked.catalog.content().to_vec();
    let (status, headers, body) = asked.ask(Method::GET, ALL, &[]).await;
    assert_eq!((status, &body), (StatusCode::OK, &content));
    assert_eq!(headers[header::CONTENT_TYPE], "application/jsonl");
    assert_eq!(headers[header::CONTENT_LENGTH], content.len().to_string());
    assert_eq!(headers[header::ACCEPT_RANGES], "bytes");
    let (tag, modified) = (headers[header::ETAG].to_str().unwrap(), headers[header::LAST_MODIFIED].to_str().unwrap());
    assert_eq!(tag, format!("W/\"sha256:{}\"", "a".repeat(64)));
    let (status, headers, body) = asked.ask(Method::HEAD, ALL, &[]).await;
    assert_eq!(
        (status, body.len(), headers[header::CONTENT_LENGTH].to_str().unwrap()),
        (StatusCode::OK, 0, content.len().to_string().as_str())
    );
    for (name, value) in [(header::IF_NONE_MATCH, tag), (header::IF_MODIFIED_SINCE, modified)] {
        for path in [ALL, METAS] {
            let (status, headers, body) = asked.ask(Method::GET, path, &[(name.clone(), value)]).await;
            assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
            assert_eq!(headers[header::ETAG], tag);
        }
    }
    let (status, headers, body) = asked.ask(Method::GET, ALL, &[(header::RANGE, "bytes=5-9")]).await;
    assert_eq!((status, body.as_slice()), (StatusCode::PARTIAL_CONTENT, &content[5..10]));
    assert_eq!(headers[header::CONTENT_RANGE], format!("bytes 5-9/{}", content.len()));
    let (status, _, body) = asked.ask(Method::GET, ALL, &[(header::RANGE, "bytes=5-9"), (header::IF_RANGE, modified)]).await;
    assert_eq!((status, body.len()), (StatusCode::PARTIAL_CONTENT, 5));
    let (status, ..) = asked.ask(Method::GET, ALL, &[(header::RANGE, "bytes=5-9"), (header::IF_RANGE, "\"other\"")]).await;
    assert_eq!(status, StatusCode::OK);
    let (status, ..) = asked.ask(Method::GET, ALL, &[(header::RANGE, "bytes=999999-")]).await;
    assert_eq!(status, StatusCode::RANGE_NOT_SATISFIABLE);
}

/// OLM1-CAT-16: compressed for who takes it.
#[tokio::test]
async fn compressed() {
    let asked = Asked::new(Queries::Answered);
    let (status, headers, body) = asked.ask(Method::GET, ALL, &[(header::ACCEPT_ENCODING, "gzip")]).await;
    assert_eq!((status, headers[header::CONTENT_ENCODING].to_str().unwrap()), (StatusCode::OK, "gzip"));
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut plain).unwrap();
    assert_eq!(plain, asked.catalog.content());
}

/// OLM1-CAT-17: the lines that agree with every parameter, in the order of the catalog.
#[tokio::test]
async fn metas() {
    let asked = Asked::new(Queries::Answered);
    let content = String::from_utf8(asked.catalog.content().to_vec()).unwrap();
    let lines = |wanted: &[(&str, &str)]| {
        let agrees = |line: &&str| {
            let blob: serde_json::Value = serde_json::from_str(line).unwrap();
            wanted.iter().all(|(key, value)| blob[*key] == *value)
        };
        content.lines().filter(agrees).map(|line| line.to_owned() + "\n").collect::<String>()
    };
    for (query, expected) in [
        ("", content.clone()),
        ("?", content.clone()),
        ("?schema=olm.package", lines(&[("schema", "olm.package")])),
        ("?package=web", lines(&[("package", "web")])),
        ("?schema=olm.bundle&package=web&name=web.v2", lines(&[("name", "web.v2"), ("schema", "olm.bundle")])),
        ("?schema=olm.bundle&name=", lines(&[("schema", "olm.bundle")])),
        ("?schema=example.com%2Fnotes", lines(&[("schema", "example.com/notes")])),
        ("?package=nothing", String::new()),
    ] {
        assert_eq!(asked.get(&format!("{METAS}{query}")).await, (StatusCode::OK, expected), "{query}");
    }
    let (status, headers, body) = asked.ask(Method::HEAD, &format!("{METAS}?package=web"), &[]).await;
    let length = lines(&[("package", "web")]).len().to_string();
    assert_eq!((status, body.len(), headers[header::CONTENT_LENGTH].to_str().unwrap()), (StatusCode::OK, 0, length.as_str()));
}

/// OLM1-CAT-16, OLM1-CAT-17: what is refused, in upstream's words.
#[tokio::test]
async fn refusals() {
    let asked = Asked::new(Queries::Answered);
    let refused = |status: StatusCode, text: &str| (status, text.to_owned());
    assert_eq!(asked.get("/catalogs/other/api/v1/all").await, refused(StatusCode::NOT_FOUND, "404 Not Found"));
    assert_eq!(asked.get("/catalogs/other/api/v1/metas").await, refused(StatusCode::NOT_FOUND, "404 Not Found"));
    assert_eq!(asked.get("/catalogs/c/api/v2/all").await, refused(StatusCode::NOT_FOUND, "404 page not found"));
    assert_eq!(asked.get(&format!("{METAS}?color=red")).await, refused(StatusCode::BAD_REQUEST, "400 Bad Request"));
    for path in [ALL, METAS] {
        let (status, _, body) = asked.ask(Method::POST, path, &[]).await;
        assert_eq!((status, body.as_slice()), (StatusCode::METHOD_NOT_ALLOWED, b"Method Not Allowed".as_slice()));
    }
    let closed = Asked::new(Queries::Unknown);
    assert_eq!(closed.get(METAS).await, refused(StatusCode::NOT_FOUND, "404 page not found"));
}
