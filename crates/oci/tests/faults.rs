//! Registries that misbehave: what is tried again, what is resumed, and how precisely the rest is told.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::faults::{Act, Faulty, status};
use crate::common::{client, store};
use axum::extract::Request;
use http::Method;
use mainstay_oci::{BlobCache, BlobStore, Client, ClientConfig, Compression, ErrorKind, Image, ImageBuilder, Retry};

/// Waits that tests can afford.
fn quick() -> Retry {
    Retry { tries: 3, first: Duration::from_millis(1), most: Duration::from_millis(20) }
}

fn config(retry: Retry) -> ClientConfig {
    ClientConfig { retry, ..ClientConfig::default() }
}

/// An image whose layer is large enough to be cut.
fn large(store: &BlobStore) -> Image {
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    ImageBuilder::new().file("large", bytes).compression(Compression::None).build(store).unwrap()
}

/// True for the first so many requests of that method whose path holds that part.
fn first(times: usize, method: Method, part: &'static str) -> impl Fn(&Request) -> bool + Send + Sync {
    let seen = AtomicUsize::new(0);
    move |request| request.method() == method && request.uri().path().contains(part) && seen.fetch_add(1, Ordering::SeqCst) < times
}

async fn with_image(server: &Faulty) -> Image {
    let (_from, from) = store();
    let image = large(&from);
    client(ClientConfig::default()).push(&image, &from, &server.reference("org/a:v1")).await.unwrap();
    server.asked("", "");
    image
}

fn layer_path(image: &Image) -> String {
    format!("blobs/{}", image.manifest.layers[0].digest)
}

/// Half a layer: the rest is asked for by range, in the same run and in the next; what a cache holds survives the process.
#[tokio::test]
async fn a_layer_that_breaks_off_is_resumed() {
    let cut = |times: usize| {
        let hit = first(times, Method::GET, "/blobs/");
        // The configuration comes first and is whole.
        let config = first(1, Method::GET, "/blobs/");
        move |request: &Request| (!config(request) && hit(request)).then_some(Act::Cut(100_000))
    };
    let server = Faulty::start(cut(1)).await;
    let image = with_image(&server).await;
    let (_to, to) = store();
    let pulled = client(config(quick())).pull(&server.reference("org/a:v1"), &to).await.unwrap();
    assert_eq!(pulled, image);
    let asked = server.asked("GET", &layer_path(&image));
    assert_eq!(asked.len(), 2);
    let offset: usize = asked[1].split("bytes=").nth(1).expect("a range").trim_end_matches('-').parse().unwrap();
    assert!((1..=100_000).contains(&offset), "{asked:?}");

    let server = Faulty::start(cut(1)).await;
    let image = with_image(&server).await;
    let folder = tempfile::tempdir().unwrap();
    let cached = || {
        let cache = BlobCache::open(folder.path(), 1 << 30).unwrap();
        client(ClientConfig { cache: Some(cache), retry: Retry::never(), ..ClientConfig::default() })
    };
    let broken = {
        let client = cached();
        let workspace = client.workspace().unwrap();
        client.pull(&server.reference("org/a:v1"), workspace.store()).await.unwrap_err()
    };
    assert_eq!(broken.kind(), ErrorKind::Interrupted, "{broken}");
    assert!(broken.is_transient() && broken.to_string().contains("the transfer broke off after"), "{broken}");
    server.asked("", "");
    let client = cached();
    let workspace = client.workspace().unwrap();
    assert_eq!(client.pull(&server.reference("org/a:v1"), workspace.store()).await.unwrap(), image);
    assert!(server.asked("GET", &layer_path(&image))[0].contains("bytes="));
}

/// A registry that knows no ranges, and one whose first half was of something else, cost a whole transfer and nothing more.
#[tokio::test]
async fn resuming_is_never_wrong() {
    let (hit, forget) = (first(1, Method::GET, "/blobs/"), first(usize::MAX, Method::GET, "/blobs/"));
    let config_first = first(1, Method::GET, "/blobs/");
    let server = Faulty::start(move |request| {
        if config_first(request) {
            return None;
        }
        if hit(request) { Some(Act::Cut(100_000)) } else { forget(request).then_some(Act::Forget) }
    })
    .await;
    let image = with_image(&server).await;
    let (_to, to) = store();
    assert_eq!(client(config(quick())).pull(&server.reference("org/a:v1"), &to).await.unwrap(), image);

    let server = Faulty::start(|_| None).await;
    let image = with_image(&server).await;
    let (_to, to) = store();
    let digest = &image.manifest.layers[0].digest;
    let mut writer = to.resume("test", digest).unwrap();
    writer.write(b"something else").unwrap();
    drop(writer);
    let client = client(config(Retry::never()));
    assert_eq!(client.pull(&server.reference("org/a:v1"), &to).await.unwrap(), image);
}

/// 429 and 5xx are tried again as long as it is worth it; a registry's own word about when comes first.
#[tokio::test]
async fn busy_registries_are_waited_for() {
    for (code, headers) in [(429, vec![("retry-after", "0")]), (503, vec![]), (500, vec![]), (504, vec![])] {
        let hit = first(2, Method::GET, "/manifests/");
        let server = Faulty::start(move |request| hit(request).then(|| status(code, &headers, ""))).await;
        let image = with_image(&server).await;
        let (_to, to) = store();
        assert_eq!(client(config(quick())).pull(&server.reference("org/a:v1"), &to).await.unwrap(), image, "{code}");
        assert_eq!(server.asked("GET", "/manifests/").len(), 3);
    }
    let always = |code: u16, after: &'static str| {
        Faulty::start(move |request: &Request| {
            (request.method() == Method::GET)
                .then(|| status(code, &[("retry-after", after)], r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}"#))
        })
    };
    let (_to, to) = store();
    for (code, after, requests, kind, hint) in [
        (429, "0", 3, ErrorKind::RateLimited, "wait 0 seconds, or use credentials with a higher limit"),
        (429, "3600", 1, ErrorKind::RateLimited, "wait 3600 seconds, or use credentials"),
        (502, "0", 3, ErrorKind::Server, "itself failed; try again later"),
    ] {
        let server = always(code, after).await;
        let error = client(config(quick())).pull(&server.reference("org/a:v1"), &to).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().ends_with(&format!("answered {code}: slow down (TOOMANYREQUESTS)")), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{:?}", error.hint());
        assert_eq!(server.asked("GET", "/manifests/").len(), requests);
    }
}

type Answer = Arc<dyn Fn() -> Act + Send + Sync>;

/// What waiting cannot mend is said at once, each with what would help.
#[tokio::test]
async fn final_answers() {
    let deep = format!("{{\"schemaVersion\": 2, \"layers\": {}{}}}", "[".repeat(200), "]".repeat(200));
    let many = format!(
        "{{\"schemaVersion\": 2, \"manifests\": [{}]}}",
        vec![
            "{\"mediaType\":\"a\",\"size\":1,\"digest\":\"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}";
            600
        ]
        .join(",")
    );
    let json = |text: String| -> Answer {
        Arc::new(move || status(200, &[("content-type", "application/vnd.oci.image.manifest.v1+json")], text.clone()))
    };
    let cases: Vec<(Answer, ErrorKind, &str)> = vec![
        (Arc::new(|| status(403, &[], "")), ErrorKind::Forbidden, "answered 403"),
        (Arc::new(|| status(401, &[("www-authenticate", "Basic realm=\"x\"")], "")), ErrorKind::Unauthorized, "answered 401"),
        (
            Arc::new(|| status(401, &[("www-authenticate", "Bearer service=\"x\"")], "")),
            ErrorKind::Content,
            "its token challenge names no realm",
        ),
        (
            Arc::new(|| status(401, &[("www-authenticate", "Bearer realm=\"http://auth.example/\"")], "")),
            ErrorKind::Content,
            "is not HTTPS, so no credentials are sent there",
        ),
        (Arc::new(|| status(404, &[], "")), ErrorKind::NotFound, "answered 404"),
        (
            Arc::new(|| status(200, &[("content-type", "text/html")], "<html>Log in</html>")),
            ErrorKind::Content,
            "answered with a web page instead of a manifest",
        ),
        (Arc::new(|| status(307, &[("location", "/v2/org/a/manifests/v1")], "")), ErrorKind::Unreachable, "redirects more than 10 times"),
        (Arc::new(|| status(200, &[], vec![b' '; 5 << 20])), ErrorKind::Content, "is longer than 4194304 bytes"),
        (json("{".to_owned()), ErrorKind::Content, "manifest is no JSON"),
        (json("{}".to_owned()), ErrorKind::Content, "manifest schema version null is not supported"),
        (json("{\"schemaVersion\": 1, \"fsLayers\": []}".to_owned()), ErrorKind::Content, "manifest schema version 1 is not supported"),
        (json("{\"schemaVersion\": 2, \"layers\": [], \"manifests\": []}".to_owned()), ErrorKind::Content, "is both an image and an index"),
        (json("{\"schemaVersion\": 2, \"manifests\": []}".to_owned()), ErrorKind::Content, "the index offers []"),
        (json(deep), ErrorKind::Content, "manifest is no JSON: recursion limit exceeded"),
        (json(many), ErrorKind::Limit, "number of manifests is over the limit of 512"),
    ];
    for (answer, kind, words) in cases {
        let server = Faulty::start(move |_| Some(answer())).await;
        let (_to, to) = store();
        let error = client(config(quick())).pull(&server.reference("org/a:v1"), &to).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().starts_with(&server.reference("org/a:v1").to_string()), "{error}");
        assert!(server.asked("GET", "/manifests/v1").len() <= 11);
    }
}

/// A failed upload is sent again; a large one goes in pieces, and after a failure only the rest goes.
#[tokio::test]
async fn uploads_survive_failures() {
    let pieces = ClientConfig { chunk: 64 << 10, ..config(quick()) };
    for (method, settings, sent) in [(Method::PUT, config(quick()), 2), (Method::PATCH, pieces, 6)] {
        let hit = first(1, method.clone(), "/blobs/uploads/");
        let server = Faulty::start(move |request| hit(request).then(|| status(502, &[], ""))).await;
        let (_from, from) = store();
        let image = large(&from);
        let client = client(settings);
        client.push(&image, &from, &server.reference("org/a:v1")).await.unwrap();
        let (_to, to) = store();
        assert_eq!(client.pull(&server.reference("org/a:v1"), &to).await.unwrap(), image);
        let uploads = server.asked(method.as_str(), "/blobs/uploads/").len();
        // A configuration is one PUT more; a chunked layer ends with an empty one.
        assert_eq!(uploads - usize::from(method == Method::PUT), sent, "{method}");
    }
    let server = Faulty::start(|request| (request.method() == Method::PATCH).then(|| status(500, &[], ""))).await;
    let (_from, from) = store();
    let image = large(&from);
    let client: Client = client(ClientConfig { chunk: 64 << 10, ..config(quick()) });
    let error = client.push(&image, &from, &server.reference("org/a:v1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Server, "{error}");
}
