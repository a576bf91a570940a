//! Calls of other processes: whom, over which certificates, and what is said when it fails.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Cluster, config};
use crate::peer::Peer;
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use http::StatusCode;
use mainstay_apiserver::Server;
use mainstay_apiserver::remote::ClientConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LONG: Duration = Duration::from_secs(20);

fn echo() -> Router {
    Router::new()
        .route("/echo", post(|body: Bytes| async move { body }))
        .route("/fails", post(|| async { (StatusCode::INTERNAL_SERVER_ERROR, "boom") }))
        .route("/text", post(|| async { "hello" }))
        .route("/never", post(std::future::pending::<String>))
}

async fn call(cluster: &Cluster, config: Value, timeout: Duration) -> Result<Value, String> {
    let config = ClientConfig::of_webhook(&config).map_err(|error| error.to_string())?;
    cluster.server.api().remotes.call(&config, &json!({"a": 1}), timeout).await.map_err(|error| error.to_string())
}

/// KAPI-ADM-01: a URL is called with the bundle's trust; each failure has kube-apiserver's words.
#[tokio::test(flavor = "multi_thread")]
async fn urls() {
    let cluster = Cluster::new().await;
    let peer = Peer::start(&["localhost", "127.0.0.1"], echo()).await;
    let (port, bundle) = (peer.port, peer.ca_bundle());
    let at = |host: &str, path: &str| json!({"url": format!("https://{host}:{port}{path}"), "caBundle": bundle});
    assert_eq!(call(&cluster, at("127.0.0.1", "/echo"), LONG).await, Ok(json!({"a": 1})));
    assert_eq!(call(&cluster, at("localhost", "/echo"), LONG).await, Ok(json!({"a": 1})));

    let says = async |config: Value, timeout: Duration| call(&cluster, config, timeout).await.unwrap_err();
    assert_eq!(says(at("127.0.0.1", "/fails"), LONG).await, "an error on the server (\"boom\") has prevented the request from succeeding");
    assert_eq!(says(at("127.0.0.1", "/nothing"), LONG).await, "the server could not find the requested resource");
    assert!(says(at("127.0.0.1", "/text"), LONG).await.starts_with("couldn't get version/kind; json parse error"));
    assert_eq!(
        says(at("127.0.0.1", "/never"), Duration::from_millis(50)).await,
        format!("Post \"https://127.0.0.1:{port}/never?timeout=50ms\": context deadline exceeded")
    );
    assert_eq!(
        says(json!({"url": "https://127.0.0.1:1/x"}), LONG).await,
        "Post \"https://127.0.0.1:1/x?timeout=20s\": dial tcp 127.0.0.1:1: connect: connection refused"
    );
    let stranger = Peer::start(&["localhost"], echo()).await;
    let wrong = json!({"url": format!("https://127.0.0.1:{port}/echo"), "caBundle": stranger.ca_bundle()});
    assert!(says(wrong, LONG).await.ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"));
    let unnamed = json!({"url": format!("https://127.0.0.1:{}/echo", stranger.port), "caBundle": stranger.ca_bundle()});
    assert!(says(unnamed, LONG).await.ends_with("x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"));
    let garbage = json!({"url": format!("https://127.0.0.1:{port}/echo"), "caBundle": "YWJj"});
    assert!(says(garbage, LONG).await.contains("unable to load root certificates"));
}

/// KAPI-ADM-01: one self-signed certificate as authority and leaf, as developers make them.
#[tokio::test(flavor = "multi_thread")]
async fn self_signed_certificates() {
    let cluster = Cluster::new().await;
    let peer = Peer::self_signed(&["127.0.0.1"], echo()).await;
    let config = json!({"url": format!("https://127.0.0.1:{}/echo", peer.port), "caBundle": peer.ca_bundle()});
    assert_eq!(call(&cluster, config, LONG).await, Ok(json!({"a": 1})));
}

/// KAPI-ADM-01: a Service is its ready endpoints; its certificate names NAME.NAMESPACE.svc.
#[tokio::test(flavor = "multi_thread")]
async fn services() {
    let cluster = Cluster::new().await;
    let peer = Peer::start(&["hook.ns.svc"], echo()).await;
    let config = json!({"service": {"name": "hook", "namespace": "ns", "path": "/echo"}, "caBundle": peer.ca_bundle()});
    let url = "Post \"https://hook.ns.svc:443/echo?timeout=20s\"";
    let catch_up = async || cluster.server.api().objects.cache.catch_up().await.unwrap();
    assert_eq!(call(&cluster, config.clone(), LONG).await, Err(format!("{url}: service \"hook\" not found")));

    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"name": "tls", "port": 443}]}});
    cluster.post("/api/v1/namespaces/ns/services", service).await.ok();
    catch_up().await;
    assert_eq!(call(&cluster, config.clone(), LONG).await, Err(format!("{url}: no endpoints available for service \"hook\"")));

    // Straight into the store: the API refuses addresses of this machine.
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "hook-1", "namespace": "ns", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
        "ports": [{"name": "tls", "port": peer.port, "protocol": "TCP"}],
    });
    let stored = mainstay_apiserver::object::encode("discovery.k8s.io/v1", "EndpointSlice", &slice);
    let key = "/registry/discovery.k8s.io/endpointslices/ns/hook-1";
    cluster.server.api().objects.store.put(key, stored, mainstay_store::Expect::Absent).await.unwrap();
    catch_up().await;
    assert_eq!(call(&cluster, config, LONG).await, Ok(json!({"a": 1})));

    let other = json!({"service": {"name": "hook", "namespace": "ns", "port": 8443}, "caBundle": peer.ca_bundle()});
    let says = call(&cluster, other, LONG).await.unwrap_err();
    assert_eq!(says, "Post \"https://hook.ns.svc:8443?timeout=20s\": no service port 8443 found for service \"hook\"");
}

/// KAPI-WL-06: a Service that is served locally is the process, whether or not the Service exists.
#[tokio::test(flavor = "multi_thread")]
async fn local_services() {
    let directory = tempfile::tempdir().unwrap();
    let peer = Peer::start(&["hook.ops.svc"], echo()).await;
    let local = format!("ops/hook=127.0.0.1:{}", peer.port).parse().unwrap();
    let server = Server::open(mainstay_apiserver::Config { local_services: vec![local], ..config(directory.path()) }).await.unwrap();
    let config = json!({"service": {"name": "hook", "namespace": "ops", "path": "/echo", "port": 8443}, "caBundle": peer.ca_bundle()});
    let config = ClientConfig::of_webhook(&config).unwrap();
    assert_eq!(server.api().remotes.call(&config, &json!([1]), LONG).await.unwrap(), json!([1]));
    server.close().await;
}

/// KAPI-ADM-01: one connection serves many calls.
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_kept() {
    #[derive(Default)]
    struct Count(AtomicUsize);
    let cluster = Cluster::new().await;
    let seen = Arc::new((Count::default(), std::sync::Mutex::new(std::collections::BTreeSet::new())));
    let noted = seen.clone();
    let router = Router::new().fallback(move |request: http::Request<axum::body::Body>| {
        let noted = noted.clone();
        async move {
            let connection = request.extensions().get::<mainstay_serve::Connection>().unwrap();
            noted.0.0.fetch_add(1, Ordering::Relaxed);
            noted.1.lock().unwrap().insert(connection.remote);
            "{}"
        }
    });
    let peer = Peer::start(&["127.0.0.1"], router).await;
    let config = json!({"url": format!("https://127.0.0.1:{}/", peer.port), "caBundle": peer.ca_bundle()});
    for _ in 0..20 {
        call(&cluster, config.clone(), LONG).await.unwrap();
    }
    assert_eq!(seen.0.0.load(Ordering::Relaxed), 20);
    assert_eq!(seen.1.lock().unwrap().len(), 1);
}

/// A server whose connections answer requests with these bytes, one after the other, and hang up when they have none left.
struct Blunt {
    config: Value,
    /// How many requests were read to their end.
    asked: Arc<AtomicUsize>,
    /// A word for every connection that both ends have closed.
    closed: tokio::sync::mpsc::UnboundedReceiver<()>,
}

impl Blunt {
    async fn start(connections: Vec<Vec<&'static str>>) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        let bundle = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, certificate.pem());
        let (asked, (tell, closed)) = (Arc::new(AtomicUsize::new(0)), tokio::sync::mpsc::unbounded_channel());
        let count = asked.clone();
        tokio::spawn(async move {
            let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
            for answers in connections {
                let (tcp, _) = listener.accept().await.unwrap();
                let mut stream = acceptor.accept(tcp).await.unwrap();
                for answer in answers {
                    let mut request = Vec::new();
                    while !request.ends_with(b"{\"a\":1}") {
                        request.push(stream.read_u8().await.unwrap());
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
                stream.shutdown().await.unwrap();
                // How the client says goodbye is its own business.
                let _ = stream.read_to_end(&mut Vec::new()).await;
                // Most tests do not wait for it.
                let _ = tell.send(());
            }
        });
        Self { config: json!({"url": url, "caBundle": bundle}), asked, closed }
    }

    async fn call(&self, cluster: &Cluster) -> Result<Value, String> {
        call(cluster, self.config.clone(), LONG).await
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// KAPI-ADM-01: a review that may have been read is not sent again, however the connection ends; one that was closed before is no
/// hindrance.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_twice() {
    const GOOD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let cluster = Cluster::new().await;
    for broken in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"] {
        let fresh = Blunt::start(vec![vec![broken], vec![GOOD]]).await;
        assert!(fresh.call(&cluster).await.unwrap_err().starts_with("Post "), "{broken:?}");
        assert_eq!(fresh.asked(), 1, "{broken:?}");
        let kept = Blunt::start(vec![vec![GOOD, broken], vec![GOOD]]).await;
        assert_eq!(kept.call(&cluster).await, Ok(json!({})));
        assert!(kept.call(&cluster).await.unwrap_err().starts_with("Post "), "{broken:?}");
        assert_eq!(kept.asked(), 2, "{broken:?}");
    }
    let mut closing = Blunt::start(vec![vec![GOOD], vec![GOOD]]).await;
    assert_eq!(closing.call(&cluster).await, Ok(json!({})));
    closing.closed.recv().await.unwrap();
    assert_eq!(closing.call(&cluster).await, Ok(json!({})));
    assert_eq!(closing.asked(), 2);
}
