//! Registries that mean harm: slow ones, endless ones, and those that lead to where only we can go.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::store;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures::StreamExt as _;
use mainstay_oci::{Client, ClientConfig, Digest, Error, ErrorKind, Pace, Reference, Retry};

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const CONFIG: &str = r#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A minute is a quarter of a second.
fn quick() -> Pace {
    let window = Duration::from_millis(250);
    Pace { window, least: 1000, base: window * 2, rate: 1 << 20, operation: Duration::from_secs(60) }
}

fn client() -> Client {
    Client::new(ClientConfig { retry: Retry::never(), pace: quick(), insecure: true, ..ClientConfig::default() }).unwrap()
}

/// A server of one's own rules, at that address.
async fn server(address: &str, answer: impl Fn(Request) -> Response + Clone + Send + Sync + 'static) -> String {
    let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let router = Router::new().fallback(move |request: Request| {
        let answer = answer(request);
        async move { answer }
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    host
}

/// A byte now and then, for ever.
fn trickle() -> Body {
    let bytes = futures::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Some((Ok::<_, Infallible>(" "), ()))
    });
    Body::from_stream(bytes.boxed())
}

fn answer(code: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let builder = headers.iter().fold(Response::builder().status(code), |builder, (name, value)| builder.header(*name, *value));
    builder.body(body.into()).unwrap()
}

async fn pull(client: &Client, host: &str) -> Result<(), Error> {
    let (_folder, store) = store();
    client.pull(&Reference::parse(&format!("{host}/org/a:v1")).unwrap(), &store).await.map(drop)
}

/// A4: a byte every now and then, which no timeout for single reads ever ends, is given up: of manifests, tokens, errors, blobs, lists of tags;
/// and so is an answer that never begins.
#[tokio::test]
async fn slow_answers_are_given_up() {
    let layer = format!("{{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"size\":1000000,\"digest\":\"{DIGEST}\"}}");
    let manifest = format!("{{\"schemaVersion\":2,\"config\":{},\"layers\":[{layer}]}}", layer.replace("layer.v1.tar", "config.v1+json"));
    for slow in ["/manifests/", "/token", "/blobs/", "/tags/"] {
        let manifest = manifest.clone();
        let host = server("127.0.0.1", move |request| {
            let path = request.uri().path();
            let host = request.headers()["host"].to_str().unwrap();
            if path.contains(slow) {
                answer(200, &[("content-type", MANIFEST)], trickle())
            } else if slow == "/token" {
                answer(401, &[("www-authenticate", &format!("Bearer realm=\"http://{host}/token\",service=\"x\""))], "")
            } else {
                answer(200, &[("content-type", MANIFEST)], manifest.clone())
            }
        })
        .await;
        let client = client();
        let error = if slow == "/tags/" {
            client.tags(&Reference::parse(&format!("{host}/org/a")).unwrap()).await.map(drop).unwrap_err()
        } else {
            pull(&client, &host).await.unwrap_err()
        };
        assert_eq!(error.kind(), ErrorKind::Timeout, "{slow}: {error}");
        assert!(error.to_string().contains("fewer than 1000 bytes came within 250ms"), "{slow}: {error}");
    }
    // An answer that never begins.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let held = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            all.push(stream);
        }
    });
    assert_eq!(pull(&client(), &host).await.unwrap_err().kind(), ErrorKind::Timeout);
    held.abort();
}

/// An address of this machine that is not its loopback, if it has one.
fn own_address() -> Option<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

/// A4: a realm, a redirect and a next page of a registry elsewhere do not lead to the loopback, nor any registry's to link-local addresses.
/// Nobody there is asked, and no word of theirs reaches an error.
#[tokio::test]
async fn registries_do_not_lead_to_where_only_we_can_go() {
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    let secret = server("127.0.0.1", move |_| {
        seen.fetch_add(1, Ordering::SeqCst);
        answer(500, &[("content-type", "application/json")], r#"{"errors":[{"code":"X","message":"the secret words"}]}"#)
    })
    .await;
    let port = secret.rsplit_once(':').unwrap().1.to_owned();
    let mut cases =
        vec![("127.0.0.1".to_owned(), "169.254.169.254".to_owned()), ("127.0.0.1".to_owned(), "[::ffff:169.254.169.254]".to_owned())];
    cases.push(("127.0.0.1".to_owned(), "0.0.0.0".to_owned()));
    match own_address() {
        Some(own) => {
            for target in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254"] {
                cases.push((own.clone(), target.to_owned()));
            }
        }
        None => eprintln!("skipped: this machine has no address but its loopback"),
    }
    for (own, target) in cases {
        for way in ["realm", "redirect", "page"] {
            let elsewhere = format!("http://{target}:{port}/latest/meta-data");
            let host = server(&own, move |_| match way {
                "realm" => answer(401, &[("www-authenticate", &format!("Bearer realm=\"{elsewhere}\",service=\"x\""))], ""),
                "redirect" => answer(307, &[("location", &elsewhere)], ""),
                _ => answer(200, &[("link", &format!("<{elsewhere}>; rel=\"next\""))], "{\"tags\":[\"a\"]}"),
            })
            .await;
            let error = match way {
                "page" => client().tags(&Reference::parse(&format!("{host}/org/a")).unwrap()).await.map(drop).unwrap_err(),
                _ => pull(&client(), &host).await.unwrap_err(),
            };
            let text = error.to_string();
            let expected = if way == "page" { "goes on at another host" } else { "the registry leads to" };
            assert!(text.contains(expected) && !text.contains("secret"), "{own} {way} {target}: {text}");
            assert!(!error.is_transient(), "{text}");
        }
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    // Where the registry itself lies, it may lead; but only its own words are quoted, and those bounded.
    let there = format!("http://{secret}/v2/");
    let host = server("127.0.0.1", move |_| answer(307, &[("location", &there)], "")).await;
    let error = pull(&client(), &host).await.unwrap_err().to_string();
    assert!(error.ends_with("answered 500") && asked.load(Ordering::SeqCst) > 0, "{error}");
    let long = format!("{{\"errors\":[{{\"code\":\"X\",\"message\":\"{}\\u001b[2J\\n\"}}]}}", "w".repeat(50_000));
    let host = server("127.0.0.1", move |_| answer(403, &[], long.clone())).await;
    let error = pull(&client(), &host).await.unwrap_err().to_string();
    assert!(error.len() < 2000 && !error.contains(['\u{1b}', '\n']), "{error:?}");
}

/// Lists that go in circles, or on for ever; and those that go on as they should.
#[tokio::test]
async fn lists_of_tags_end() {
    let tags = |link: fn(usize) -> String| async move {
        let count = Arc::new(AtomicUsize::new(0));
        let asked = count.clone();
        let host = server("127.0.0.1", move |_| {
            let number = asked.fetch_add(1, Ordering::SeqCst);
            let link = link(number);
            let headers: Vec<(&str, &str)> = if link.is_empty() { Vec::new() } else { vec![("link", &link)] };
            answer(200, &headers, format!("{{\"tags\":[\"t{number}\"]}}"))
        })
        .await;
        (client().tags(&Reference::parse(&format!("{host}/org/a")).unwrap()).await, count.load(Ordering::SeqCst))
    };
    let (found, asked) = tags(|_| "</v2/org/a/tags/list?last=t>; rel=\"next\"".to_owned()).await;
    assert!(found.unwrap_err().to_string().contains("leads back to a page that was read already"));
    assert_eq!(asked, 2);
    let (found, asked) = tags(|number| format!("</v2/org/a/tags/list?last=t{number}>; rel=\"next\"")).await;
    assert_eq!((found.unwrap_err().kind(), asked), (ErrorKind::Limit, 1000));
    let (found, _) =
        tags(|number| if number < 20 { format!("</v2/org/a/tags/list?last={number}>; rel=\"next\"") } else { String::new() }).await;
    assert_eq!(found.unwrap().len(), 21);
}

/// Sizes that a manifest claims, tokens that fit into no request, heads without end, and a wait of a year.
#[tokio::test]
async fn claims_are_bounded() {
    let image = |config: u64, layer: u64, layers: usize| {
        let part = |kind: &str, size: u64, number: usize| {
            format!("{{\"mediaType\":\"application/vnd.oci.image.{kind}\",\"size\":{size},\"digest\":\"sha256:{number:064x}\"}}")
        };
        let layers: Vec<_> = (1..=layers).map(|number| part("layer.v1.tar", layer, number)).collect();
        format!("{{\"schemaVersion\":2,\"config\":{},\"layers\":[{}]}}", part("config.v1+json", config, 0), layers.join(","))
    };
    for (manifest, what) in [
        (image(9 << 20, 1, 1), "size of the image configuration in bytes"),
        (image(CONFIG.len() as u64, 1, 5000), "number of layers"),
        (image(CONFIG.len() as u64, 1 << 30, 500), "size of all blobs in bytes"),
        (image(CONFIG.len() as u64, u64::MAX, 500), "size of all blobs in bytes"),
    ] {
        let config = Digest::of(CONFIG.as_bytes());
        let manifest = manifest.replace(&format!("sha256:{:064x}", 0), config.as_str());
        let layers = Arc::new(AtomicUsize::new(0));
        let asked = layers.clone();
        let host = server("127.0.0.1", move |request| match request.uri().path() {
            path if path.contains("/manifests/") => answer(200, &[("content-type", MANIFEST)], manifest.clone()),
            path if path.ends_with(config.as_str()) => answer(200, &[], CONFIG),
            _ => {
                asked.fetch_add(1, Ordering::SeqCst);
                answer(404, &[], "")
            }
        })
        .await;
        let error = pull(&client(), &host).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(layers.load(Ordering::SeqCst), 0, "{what}");
    }
    for token in ["t".repeat(20_000), "two words".to_owned(), "a\\nb".to_owned()] {
        let host = server("127.0.0.1", move |request| {
            let host = request.headers()["host"].to_str().unwrap();
            if request.uri().path() == "/token" {
                return answer(200, &[], format!("{{\"token\":\"{token}\"}}"));
            }
            answer(401, &[("www-authenticate", &format!("Bearer realm=\"http://{host}/token\",service=\"x\""))], "")
        })
        .await;
        let error = pull(&client(), &host).await.unwrap_err().to_string();
        assert!(error.ends_with("gave a token that is no text of at most 16384 bytes"), "{error}");
    }
    let host = server("127.0.0.1", |_| answer(200, &[("x-long", &"h".repeat(1 << 20))], "")).await;
    assert!(pull(&client(), &host).await.is_err());
    let host = server("127.0.0.1", |_| answer(429, &[("retry-after", "31536000")], "")).await;
    let error = pull(&client(), &host).await.unwrap_err();
    assert!(error.hint().unwrap().starts_with("wait 86400 seconds"), "{:?}", error.hint());
}

/// An index of indexes that names more manifests than anybody would read is refused before they are fetched.
#[tokio::test]
async fn nested_indexes_are_bounded() {
    const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    let named = |kind: &str, text: &str| {
        format!("{{\"mediaType\":\"{kind}\",\"size\":{},\"digest\":\"{}\"}}", text.len(), Digest::of(text.as_bytes()))
    };
    let index = |entries: &[String], note: usize| {
        format!("{{\"schemaVersion\":2,\"manifests\":[{}],\"annotations\":{{\"n\":\"{note}\"}}}}", entries.join(","))
    };
    let leaf = format!("{{\"schemaVersion\":2,\"config\":{},\"layers\":[]}}", named("application/vnd.oci.image.config.v1+json", CONFIG));
    let inner: Vec<String> = (0..4).map(|number| index(&vec![named(MANIFEST, &leaf); 512], number)).collect();
    let top = index(&inner.iter().map(|inner| named(INDEX, inner)).collect::<Vec<_>>(), 9);
    let all: Vec<String> = inner.into_iter().chain([leaf]).collect();
    let fetched = Arc::new(AtomicUsize::new(0));
    let count = fetched.clone();
    let host = server("127.0.0.1", move |request| {
        count.fetch_add(1, Ordering::SeqCst);
        let path = request.uri().path();
        let found = all.iter().find(|text| path.ends_with(Digest::of(text.as_bytes()).as_str()));
        answer(200, &[("content-type", INDEX)], found.unwrap_or(&top).clone())
    })
    .await;
    let (_folder, store) = store();
    let error = client().survey(&Reference::parse(&format!("{host}/org/a:v1")).unwrap(), &store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(fetched.load(Ordering::SeqCst) < 10);
}
