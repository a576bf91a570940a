//! Watches over websockets, with a client on the other end of a real connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::needless_pass_by_value)]

use std::sync::Arc;

use crate::common::{Cluster, MAPS, map, send};
use axum::Router;
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, StatusCode};
use mainstay_rbac::UserInfo;
use mainstay_serve::{Ended, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tokio_util::sync::CancellationToken;

/// A listener in front of these routes.
struct Listener {
    port: u16,
    stop: CancellationToken,
    running: JoinHandle<Ended>,
}

impl Listener {
    async fn start(router: Router) -> Self {
        let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (port, stop) = (server.address().port(), CancellationToken::new());
        let running = tokio::spawn(server.run(router, stop.clone()));
        Self { port, stop, running }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    async fn watch(&self, path: &str, headers: &[(&str, &str)]) -> Socket<TcpStream> {
        let (socket, answer) = client_async(request(path, headers), self.connect().await).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        Socket(socket)
    }

    /// The answer to a websocket that is refused.
    async fn refusal(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, String) {
        refusal(client_async(request(path, headers), self.connect().await).await.map(|_| ()))
    }
}

fn refusal(outcome: Result<(), Error>) -> (StatusCode, String) {
    match outcome.unwrap_err() {
        Error::Http(answer) => {
            let (head, body) = answer.into_parts();
            (head.status, String::from_utf8(body.unwrap_or_default()).unwrap())
        }
        other => panic!("{other}"),
    }
}

/// The request of a websocket client; an empty value leaves a header out.
fn request(path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = format!("ws://localhost{path}").into_client_request().unwrap();
    request.headers_mut().insert("origin", "http://localhost".parse().unwrap());
    for (name, value) in headers {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().remove(&name);
        if !value.is_empty() {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
    }
    request
}

struct Socket<S>(WebSocketStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    async fn message(&mut self) -> Message {
        self.0.next().await.expect("another message").unwrap()
    }

    /// The next event, which is a message of text.
    async fn event(&mut self) -> Value {
        match self.message().await {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Type and name of the next events.
    async fn take(&mut self, count: usize) -> Vec<String> {
        let mut shown = Vec::new();
        for _ in 0..count {
            let event = self.event().await;
            shown.push(format!("{} {}", event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap_or_default()));
        }
        shown
    }

    /// Reads the server's farewell, and what follows it: nothing.
    async fn farewell(&mut self) -> CloseCode {
        let Message::Close(Some(frame)) = self.message().await else { panic!("a farewell") };
        assert!(self.0.next().await.is_none(), "the connection ends with the watch");
        frame.code
    }
}

async fn watchers(cluster: &Cluster) -> usize {
    let page = cluster.get("/metrics").await.text;
    let line = page.lines().find(|line| line.starts_with("apiserver_longrunning_requests") && line.contains("resource=\"configmaps\""));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

/// KAPI-WATCH-01: every event is one message of text, in order; the end of the watch ends the connection properly.
#[tokio::test]
async fn events_are_messages() {
    let cluster = Cluster::new().await;
    let listener = Listener::start(cluster.admin.clone()).await;
    for name in ["a", "b", "c"] {
        cluster.post(MAPS, map(name, json!({}))).await.ok();
    }
    let mut socket = listener.watch(&format!("{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true"), &[]).await;
    cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"x": "1"}})).await.ok();
    cluster.delete(&format!("{MAPS}/b")).await.ok();
    assert_eq!(socket.take(5).await, ["ADDED a", "ADDED b", "ADDED c", "MODIFIED a", "DELETED b"]);
    let latest = cluster.get(MAPS).await.ok();
    // The last message before the end tells the position.
    let mut last = socket.event().await;
    let farewell = loop {
        assert_eq!(last["type"], "BOOKMARK");
        match socket.message().await {
            Message::Text(text) => last = serde_json::from_str(&text).unwrap(),
            Message::Close(frame) => break frame.unwrap().code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(farewell, CloseCode::Normal);
    assert_eq!(last["object"]["metadata"]["resourceVersion"], latest["metadata"]["resourceVersion"]);
    assert!(socket.0.next().await.is_none());
}

/// KAPI-WATCH-01: what a client may ask for on a stream it may ask for on a websocket: names, selectors, tables, the deprecated path.
#[tokio::test]
async fn every_kind_of_watch() {
    let cluster = Cluster::new().await;
    let listener = Listener::start(cluster.admin.clone()).await;
    for name in ["a", "b"] {
        cluster.post(MAPS, json!({"metadata": {"name": name, "labels": {"app": name}}})).await.ok();
    }
    for path in [
        format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Db"),
        format!("{MAPS}?watch=true&labelSelector=app%3Db"),
        "/api/v1/watch/namespaces/ns/configmaps/b".to_owned(),
    ] {
        assert_eq!(listener.watch(&path, &[]).await.take(1).await, ["ADDED b"], "{path}");
    }
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let mut socket = listener.watch(&format!("{MAPS}?watch=true"), &table).await;
    let (first, second) = (socket.event().await, socket.event().await);
    assert_eq!((&first["object"]["kind"], &second["object"]["rows"][0]["cells"][0]), (&json!("Table"), &json!("b")));
    // Too old: the watch is accepted and says so, as on a stream.
    let old = cluster.get(MAPS).await.ok()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for index in 0..1_100 {
        cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"x": index.to_string()}})).await.ok();
    }
    let store = cluster.server.api().objects.store.clone();
    let latest = *store.revision().borrow();
    store.compact(latest).await.unwrap();
    let mut socket = listener.watch(&format!("{MAPS}?watch=true&resourceVersion={old}"), &[]).await;
    let event = socket.event().await;
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(socket.farewell().await, CloseCode::Normal);
}

/// KAPI-SRV-07, KAPI-WATCH-01: protobuf comes as binary messages, without the length that frames of a stream begin with.
#[tokio::test]
async fn protobuf_is_binary() {
    let cluster = Cluster::new().await;
    let listener = Listener::start(cluster.admin.clone()).await;
    let made = cluster.post(MAPS, map("a", json!({"x": "1"}))).await.ok();
    let accept = [("accept", "application/vnd.kubernetes.protobuf")];
    let mut socket = listener.watch(&format!("{MAPS}?watch=true"), &accept).await;
    let Message::Binary(event) = socket.message().await else { panic!("binary") };
    // A WatchEvent: the type is field 1.
    assert_eq!(event[..7], *b"\x0a\x05ADDED");
    let at = event.windows(4).position(|part| part == b"k8s\0").unwrap();
    let object = mainstay_protobuf::decode(&event[at..], &mainstay_protobuf::Limits::default()).unwrap();
    assert_eq!(object, made);
}

/// KAPI-WATCH-01: pings are answered and messages ignored while events go on; a client that takes its leave is answered and forgotten.
#[tokio::test]
async fn pings_and_leaving() {
    let cluster = Cluster::new().await;
    let listener = Listener::start(cluster.admin.clone()).await;
    let mut socket = listener.watch(&format!("{MAPS}?watch=true"), &[]).await;
    assert_eq!(watchers(&cluster).await, 1);
    socket.0.send(Message::Ping("are you there".into())).await.unwrap();
    assert_eq!(socket.message().await, Message::Pong("are you there".into()));
    socket.0.send(Message::text("a watch listens to nobody")).await.unwrap();
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    assert_eq!(socket.take(1).await, ["ADDED a"]);
    socket.0.close(None).await.unwrap();
    assert!(matches!(socket.message().await, Message::Close(_)));
    assert!(socket.0.next().await.is_none());
    while watchers(&cluster).await > 0 {
        tokio::task::yield_now().await;
    }
    // One that talks too much is let go of.
    let mut loud = listener.watch(&format!("{MAPS}?watch=true&resourceVersion=0"), &[]).await;
    let _ = loud.0.send(Message::binary(vec![0; 100 << 10])).await;
    while loud.0.next().await.is_some_and(|message| message.is_ok()) {}
    while watchers(&cluster).await > 0 {
        tokio::task::yield_now().await;
    }
}

/// KAPI-SRV-06: a websocket that is not read is let go of; one that is read is told everything.
#[tokio::test]
async fn who_does_not_read() {
    let cluster = Cluster::new().await;
    let listener = Listener::start(cluster.admin.clone()).await;
    let mut deaf = listener.watch(&format!("{MAPS}?watch=true"), &[]).await;
    let mut reader = listener.watch(&format!("{MAPS}?watch=true"), &[]).await;
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    assert_eq!((deaf.take(1).await, reader.take(1).await), (vec!["ADDED a".to_owned()], vec!["ADDED a".to_owned()]));
    // Enough for the buffers of the connection and for what may wait.
    let large = "x".repeat(900 << 10);
    let mut written = 0;
    while watchers(&cluster).await == 2 {
        cluster.patch(&format!("{MAPS}/a"), "merge", json!({"data": {"large": format!("{written}{large}")}})).await.ok();
        assert_eq!(reader.take(1).await, ["MODIFIED a"]);
        written += 1;
        assert!(written < 200, "what waits for who does not read has a bound");
    }
    let mut told = 0;
    while let Message::Text(_) = deaf.message().await {
        told += 1;
    }
    assert!(told < written, "{told} of {written}");
}

/// KAPI-WATCH-01: what is no watch or no proper handshake is refused before the connection changes.
#[tokio::test]
async fn refusals() {
    let cluster = Cluster::new().await;
    let listener = Listener::start(cluster.admin.clone()).await;
    let watch = format!("{MAPS}?watch=true");
    let status = |code: u16| StatusCode::from_u16(code).unwrap();
    for (path, headers, code, words) in [
        (watch.clone(), [("origin", "")].as_slice(), 403, "null origin"),
        (watch.clone(), &[("sec-websocket-protocol", "a, b")], 400, "missing or bad WebSocket-Protocol"),
        (format!("{watch}&fieldSelector=spec.x%3D1"), &[], 400, "is not a known field selector"),
        ("/api/v1/namespaces/ns/nothings?watch=true".to_owned(), &[], 404, "404"),
        // What is not watched is answered as ever.
        (MAPS.to_owned(), &[], 200, "ConfigMapList"),
    ] {
        let (found, text) = listener.refusal(&path, headers).await;
        assert_eq!(found, status(code), "{path}: {text}");
        assert!(text.contains(words) || words == "404", "{path}: {text}");
    }
    let ask: Vec<(&str, &str)> = vec![
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("origin", "http://localhost"),
    ];
    let here = send(&cluster.admin, "GET", &watch, &ask, Body::empty()).await;
    assert_eq!(here.status, StatusCode::BAD_REQUEST);
    assert_eq!(here.message(), "this connection cannot become a websocket: HTTP/1.1 is needed");
    assert_eq!(watchers(&cluster).await, 0, "nothing is left of what was refused");
}

/// KAPI-AUTH-01, KAPI-SRV-04: over HTTPS a browser shows its token as a protocol; the listener's end says farewell and waits for it.
#[tokio::test]
async fn tokens_and_the_end() {
    let cluster = Cluster::new().await;
    let listener = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let (port, stop) = (listener.address().port(), CancellationToken::new());
    let running = cluster.server.serve(listener, stop.clone()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca(&cluster)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tokio_rustls::TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
    let connect = async || {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        tls.connect("localhost".try_into().unwrap(), stream).await.unwrap()
    };
    let token = cluster.server.gate().authenticator.issue_internal(UserInfo::new("ann", &["system:masters"]));
    let shown = format!("base64.binary.k8s.io, base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(&token));
    let path = format!("{MAPS}?watch=true");
    let wrong = format!("x, base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode("nonsense"));
    for protocols in ["", wrong.as_str()] {
        let asked = request(&path, &[("sec-websocket-protocol", protocols)]);
        assert_eq!(refusal(client_async(asked, connect().await).await.map(|_| ())).0, StatusCode::UNAUTHORIZED, "{protocols}");
    }
    let (socket, answer) = client_async(request(&path, &[("sec-websocket-protocol", &shown)]), connect().await).await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "base64.binary.k8s.io", "the token does not come back");
    let mut socket = Socket(socket);
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    assert_eq!(socket.take(1).await, ["ADDED a"]);
    stop.cancel();
    cluster.server.end_watches();
    assert_eq!(socket.farewell().await, CloseCode::Away);
    assert_eq!(running.await.unwrap(), Ended::Drained);
}

/// KAPI-SRV-04, KAPI-SRV-06: a connection that became a websocket keeps its place; one that does not confirm the end is cut.
#[tokio::test]
async fn places() {
    let cluster = Cluster::new().await;
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let limits = mainstay_serve::Limits { drain: std::time::Duration::from_millis(20), ..mainstay_serve::Limits::default() };
    let (port, stop) = (server.address().port(), CancellationToken::new());
    let running = tokio::spawn(server.limits(limits).run(cluster.admin.clone(), stop.clone()));
    let listener = Listener { port, stop, running };
    let mut socket = listener.watch(&format!("{MAPS}?watch=true"), &[]).await;
    cluster.post(MAPS, map("a", json!({}))).await.ok();
    assert_eq!(socket.take(1).await, ["ADDED a"]);
    listener.stop.cancel();
    assert_eq!(listener.running.await.unwrap(), Ended::Cut(1));
}

fn ca(cluster: &Cluster) -> rustls::pki_types::CertificateDer<'static> {
    use rustls::pki_types::pem::PemObject as _;
    rustls::pki_types::CertificateDer::from_pem_slice(cluster.server.ca_certificate().as_bytes()).unwrap()
}
