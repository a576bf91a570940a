//! Registries that send their clients elsewhere: where credentials go, and what counts as written.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};

use crate::common::faults::{Act, Faulty, status};
use crate::common::{client, image, store};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::Method;
use mainstay_oci::{Client, ClientConfig, Credential, Credentials, ErrorKind, Retry};

/// What was asked, and which credentials were shown.
type Seen = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// Somebody else, who remembers what was shown.
struct Stranger {
    host: String,
    seen: Seen,
}

impl Stranger {
    /// Answers everything so.
    async fn start(answer: impl Fn(&str) -> Response + Clone + Send + Sync + 'static) -> Self {
        let seen = Seen::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (log, own) = (seen.clone(), host.clone());
        let router = Router::new().fallback(move |request: Request| {
            let shown = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
            log.lock().unwrap().push((format!("{} {}", request.method(), request.uri().path()), shown));
            let answer = answer(&own);
            async move { answer }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { host, seen }
    }

    fn shown(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().filter_map(|(_, shown)| shown.clone()).collect()
    }
}

fn with_password(host: &str) -> Client {
    let mut credentials = Credentials::default();
    credentials.insert(host, Credential::Basic { user: "dev".to_owned(), password: "secret".to_owned() });
    client(ClientConfig { credentials, retry: Retry::never(), ..ClientConfig::default() })
}

/// The registry wants a password for everything, and then acts.
fn behind_password(act: impl Fn(&Request) -> Option<Act> + Send + Sync + 'static) -> impl Fn(&Request) -> Option<Act> + Send + Sync {
    move |request| match request.headers().get("authorization") {
        None => Some(status(401, &[("www-authenticate", "Basic realm=\"registry\"")], "")),
        Some(_) => act(request),
    }
}

/// A blob's new place asks for a password, or for a token of its own service: neither gets what belongs to the registry.
#[tokio::test]
async fn challenges_of_others_are_not_answered() {
    for bearer in [false, true] {
        let stranger = Stranger::start(move |own| {
            let challenge =
                if bearer { format!("Bearer realm=\"http://{own}/token\",service=\"x\"") } else { "Basic realm=\"x\"".to_owned() };
            Response::builder().status(401).header("www-authenticate", challenge).body(Body::empty()).unwrap()
        })
        .await;
        let elsewhere = format!("http://{}/blob", stranger.host);
        let server = Faulty::start(behind_password(move |request| {
            let blob = request.method() == Method::GET && request.uri().path().contains("/blobs/");
            blob.then(|| status(307, &[("location", &elsewhere)], ""))
        }))
        .await;
        let client = with_password(&server.host);
        let (_from, from) = store();
        let target = server.reference("org/a:v1");
        client.push(&image(&from), &from, &target).await.unwrap();
        let (_to, to) = store();
        let error = client.pull(&target, &to).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error}");
        assert_eq!(stranger.seen.lock().unwrap().len(), 1);
        assert_eq!(stranger.shown(), [""; 0]);
    }
}

/// A place to upload to that is another host's gets the blob, and no password.
#[tokio::test]
async fn uploads_elsewhere_go_without_credentials() {
    let stranger = Stranger::start(|_| Response::builder().status(201).body(Body::empty()).unwrap()).await;
    let elsewhere = format!("http://{}/upload", stranger.host);
    let server = Faulty::start(behind_password(move |request| {
        (request.method() == Method::POST).then(|| status(202, &[("location", &elsewhere)], ""))
    }))
    .await;
    let (_from, from) = store();
    // The registry itself never sees the blobs, and says so.
    let error = with_password(&server.host).push(&image(&from), &from, &server.reference("org/a:v1")).await.unwrap_err();
    assert!(error.to_string().contains("MANIFEST_BLOB_UNKNOWN"), "{error}");
    assert_eq!(stranger.seen.lock().unwrap().iter().filter(|(what, _)| what == "PUT /upload").count(), 2);
    assert_eq!(stranger.shown(), [""; 0]);
}

/// A page to log in at is no proof that a manifest or a blob was stored, or deleted.
#[tokio::test]
async fn what_is_redirected_to_a_page_is_not_written() {
    let page = || status(200, &[("content-type", "text/html")], "<html>Log in</html>");
    for (code, method, part) in [
        (302, Method::PUT, "/manifests/"),
        (301, Method::PUT, "/blobs/uploads/"),
        (303, Method::DELETE, "/manifests/"),
        // What streams from a file cannot be sent twice.
        (307, Method::PUT, "/blobs/uploads/"),
        (307, Method::PATCH, "/blobs/uploads/"),
    ] {
        let wanted = method.clone();
        let server = Faulty::start(move |request| match request.uri().path() {
            "/login" => Some(page()),
            path => (request.method() == wanted && path.contains(part)).then(|| status(code, &[("location", "/login")], "")),
        })
        .await;
        let chunk = if method == Method::PATCH { 64 } else { 64 << 20 };
        let client = client(ClientConfig { retry: Retry::never(), chunk, ..ClientConfig::default() });
        let (_from, from) = store();
        let (built, target) = (image(&from), server.reference("org/a:v1"));
        let outcome = client.push(&built, &from, &target).await.map(drop);
        let outcome = if method == Method::DELETE { client.delete(&target.at(built.digest.clone())).await } else { outcome };
        let error = outcome.expect_err("nothing was written").to_string();
        let says = error.contains("redirects what is written to it") || error.ends_with(&format!("answered {code}"));
        assert!(says, "{code} {method}: {error}");
        assert!(server.asked("GET", "/login").is_empty(), "{code} {method}");
    }
}

/// The next page of a list may be named relative to this one.
#[tokio::test]
async fn pages_of_tags_follow_their_links() {
    let server = Faulty::start(|request| {
        let first = request.uri().path().ends_with("/tags/list") && request.uri().query().is_none();
        first.then(|| status(200, &[("link", "<?n=1&last=a>; rel=\"next\"")], r#"{"name":"org/a","tags":["a"]}"#))
    })
    .await;
    let (_from, from) = store();
    let client = client(ClientConfig::default());
    client.push(&image(&from), &from, &server.reference("org/a:b")).await.unwrap();
    assert_eq!(client.tags(&server.reference("org/a")).await.unwrap(), ["a", "b"]);
}
