//! An aggregated API server behind this one, over real TLS: availability, discovery, requests, watches, changed protocols.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common::{Answer, Cluster, config, send};
use crate::peer::Peer;
use axum::Router;
use axum::body::Body;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use mainstay_apiserver::Server;
use mainstay_rbac::UserInfo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const GROUP: &str = "metrics.example.com";

/// What the other server is asked: it shows it, or does what its path says.
async fn answer(mut request: Request<Body>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let json = |value: Value| Response::builder().header("content-type", "application/json").body(Body::from(value.to_string())).unwrap();
    match path.as_str() {
        "/apis" | "/openapi/v2" => Response::builder().status(404).body(Body::empty()).unwrap(),
        "/openapi/v3" => {
            let path = format!("apis/{GROUP}/v1");
            json(json!({"paths": {path.clone(): {"serverRelativeURL": format!("/openapi/v3/{path}?hash=7")}}}))
        }
        "/apis/metrics.example.com/v1" => json(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.example.com/v1",
            "resources": [{"name": "loads", "singularName": "load", "namespaced": true, "kind": "Load", "verbs": ["get", "list", "watch"]}],
        })),
        path if path.ends_with("/watched") => {
            let events =
                futures::stream::iter(0..3).map(|number| Ok::<_, std::io::Error>(format!("{{\"type\":\"ADDED\",\"object\":{number}}}\n")));
            let endless = events.chain(futures::stream::pending());
            Response::new(Body::from_stream(endless))
        }
        path if path.ends_with("/shout") => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let mut word = [0; 5];
                stream.read_exact(&mut word).await.unwrap();
                stream.write_all(&word.to_ascii_uppercase()).await.unwrap();
            });
            Response::builder().status(101).header("connection", "Upgrade").header("upgrade", "shout").body(Body::empty()).unwrap()
        }
        _ => {
            let (parts, body) = request.into_parts();
            let certificates = parts.extensions.get::<mainstay_serve::Connection>().unwrap().certificates.len();
            let headers: Vec<String> = parts
                .headers
                .iter()
                .filter(|(name, _)| name.as_str().starts_with("x-remote") || *name == "authorization" || *name == "content-type")
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect();
            let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
            let status = if parts.method == "POST" { StatusCode::CREATED } else { StatusCode::OK };
            let mut shown = json(json!({
                "method": parts.method.as_str(), "uri": parts.uri.path_and_query().unwrap().as_str(), "headers": headers, "body": body,
                "certificates": certificates,
            }));
            *shown.status_mut() = status;
            shown.headers_mut().insert("warning", "299 - \"theirs\"".parse().unwrap());
            shown
        }
    }
}

struct World {
    cluster: Cluster,
    peer: Peer,
}

impl World {
    /// A cluster in which `ops/metrics` is a process of this machine.
    async fn new() -> Self {
        let peer = Peer::start(&["metrics.ops.svc"], Router::new().fallback(answer)).await;
        let directory = tempfile::tempdir().unwrap();
        let local = format!("ops/metrics=127.0.0.1:{}", peer.port).parse().unwrap();
        let server = Server::open(mainstay_apiserver::Config { local_services: vec![local], ..config(directory.path()) }).await.unwrap();
        let admin = server.in_process(UserInfo::new("admin", &["system:masters", "system:authenticated"]));
        Self { cluster: Cluster { server, admin, directory }, peer }
    }

    async fn register(&self, trust: Value) {
        let mut object = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{GROUP}")},
            "spec": {"group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "service": {"name": "metrics", "namespace": "ops"}},
        });
        for (key, value) in trust.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        self.cluster.post(SERVICES, object).await.ok();
    }

    /// Waits for the condition to have this reason.
    async fn reason(&self, name: &str, reason: &str) -> Value {
        let path = format!("{SERVICES}?watch=1&fieldSelector=metadata.name%3D{name}");
        let mut events = self.cluster.watch(&path).await;
        loop {
            let event = events.next().await.expect("the watch lasts");
            let condition = event["object"]["status"]["conditions"][0].clone();
            if condition["reason"] == reason {
                return condition;
            }
        }
    }

    async fn get(&self, path: &str, accept: &str) -> Answer {
        self.cluster.send("GET", path, &[("accept", accept)], Body::empty()).await
    }
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// KAPI-AGG-01: a request goes to the other server with its method, path, body and who asks; its answer comes back as it is.
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_sent_on() {
    let world = World::new().await;
    world.register(json!({"caBundle": world.peer.ca_bundle()})).await;
    let condition = world.reason(&format!("v1.{GROUP}"), "Passed").await;
    assert_eq!((&condition["status"], &condition["message"]), (&json!("True"), &json!("all checks passed")));
    let mut user = UserInfo::new("ann", &["system:masters"]);
    user.uid = "7".to_owned();
    user.extra.insert("scopes".to_owned(), vec!["x".to_owned()]);
    let router = world.cluster.server.in_process(user);
    let headers = [("content-type", "application/json"), ("authorization", "Bearer secret"), ("x-remote-user", "root")];
    let sent = send(&router, "POST", &format!("/apis/{GROUP}/v1/namespaces/a/loads?dryRun=All&x=%20y"), &headers, "{\"a\":1}").await;
    assert_eq!(sent.status, StatusCode::CREATED);
    assert_eq!(sent.headers["warning"], "299 - \"theirs\"");
    let mut shown = sent.body;
    shown["headers"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
    assert_eq!(
        shown,
        json!({
            "method": "POST", "uri": format!("/apis/{GROUP}/v1/namespaces/a/loads?dryRun=All&x=%20y"), "body": "{\"a\":1}", "certificates": 1,
            "headers": ["content-type: application/json", "x-remote-extra-scopes: x", "x-remote-group: system:masters", "x-remote-uid: 7", "x-remote-user: ann"],
        })
    );
    let nobody = world.cluster.server.in_process(UserInfo::new("bob", &["system:authenticated"]));
    let refused = send(&nobody, "GET", &format!("/apis/{GROUP}/v1/namespaces/a/loads"), &[], Body::empty()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "authorization happens here");
}

/// KAPI-AGG-01: events come as they are sent, while the stream is open.
#[tokio::test(flavor = "multi_thread")]
async fn watches_are_streams() {
    let world = World::new().await;
    world.register(json!({"insecureSkipTLSVerify": true})).await;
    world.reason(&format!("v1.{GROUP}"), "Passed").await;
    let mut events = world.cluster.watch(&format!("/apis/{GROUP}/v1/namespaces/a/loads/watched?watch=1")).await;
    for number in 0..3 {
        assert_eq!(events.next().await.unwrap()["object"], number);
    }
}

/// KAPI-AGG-01, KAPI-DISC-01, KAPI-DISC-02: groups of others are discovered while they are registered, and stale when they do not
/// answer.
#[tokio::test(flavor = "multi_thread")]
async fn discovery() {
    let world = World::new().await;
    assert_eq!(world.get(&format!("/apis/{GROUP}"), "application/json").await.status, StatusCode::NOT_FOUND);
    world.register(json!({"caBundle": world.peer.ca_bundle()})).await;
    world.reason(&format!("v1.{GROUP}"), "Passed").await;
    let group = world.get(&format!("/apis/{GROUP}"), "application/json").await.ok();
    assert_eq!(group["preferredVersion"], json!({"groupVersion": format!("{GROUP}/v1"), "version": "v1"}));
    let groups = world.get("/apis", "application/json").await.ok();
    assert_eq!(groups["groups"].as_array().unwrap().last().unwrap()["name"], GROUP);
    let find = |list: &Value| list["items"].as_array().unwrap().iter().find(|group| group["metadata"]["name"] == GROUP).cloned().unwrap();
    let version = loop {
        let version = find(&world.get("/apis", AGGREGATED).await.ok())["versions"][0].clone();
        if version["freshness"] == "Current" {
            break version;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(version["resources"][0]["responseKind"], json!({"group": GROUP, "version": "v1", "kind": "Load"}));
    let resources = world.get(&format!("/apis/{GROUP}/v1"), "application/json").await.ok();
    assert_eq!(resources["resources"][0]["name"], "loads");
    let index = world.get("/openapi/v3", "application/json").await.ok();
    assert_eq!(index["paths"][format!("apis/{GROUP}/v1")]["serverRelativeURL"], format!("/openapi/v3/apis/{GROUP}/v1?hash=7"));
    let document = world.get(&format!("/openapi/v3/apis/{GROUP}/v1?hash=7"), "application/json").await.ok();
    assert_eq!(document["uri"], format!("/openapi/v3/apis/{GROUP}/v1?hash=7"));

    // It moves to a Service that does not exist.
    let patch = json!({"spec": {"service": {"name": "gone"}}});
    world.cluster.patch(&format!("{SERVICES}/v1.{GROUP}"), "merge", patch).await.ok();
    let condition = world.reason(&format!("v1.{GROUP}"), "ServiceNotFound").await;
    assert_eq!(condition["message"], "service/gone in \"ops\" is not present");
    world.cluster.server.api().objects.cache.catch_up().await.unwrap();
    let refused = world.get(&format!("/apis/{GROUP}/v1/namespaces/a/loads"), "application/json").await;
    assert_eq!((refused.status, refused.text.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n"));
    assert_eq!(find(&world.get("/apis", AGGREGATED).await.ok())["versions"][0]["freshness"], "Stale");

    world.cluster.delete(&format!("{SERVICES}/v1.{GROUP}")).await.ok();
    world.cluster.server.api().objects.cache.catch_up().await.unwrap();
    assert_eq!(world.get(&format!("/apis/{GROUP}"), "application/json").await.status, StatusCode::NOT_FOUND);
}

/// KAPI-AGG-01: a certificate that the bundle does not vouch for is not believed; who is found missing is told with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_the_missing() {
    let world = World::new().await;
    let stranger = Peer::start(&["metrics.ops.svc"], Router::new().fallback(answer)).await;
    world.register(json!({"caBundle": stranger.ca_bundle()})).await;
    // Whether somebody answers is asked without looking at certificates, as upstream.
    world.reason(&format!("v1.{GROUP}"), "Passed").await;
    world.cluster.server.api().objects.cache.catch_up().await.unwrap();
    let refused = world.get(&format!("/apis/{GROUP}/v1/namespaces/a/loads"), "application/json").await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        refused.text,
        "error trying to reach service: tls: failed to verify certificate: x509: certificate signed by unknown authority\n"
    );
    drop(stranger);
    let port = world.peer.port;
    let local = world.cluster.post(SERVICES, json!({
        "metadata": {"name": "v7.local.example.com"}, "spec": {"group": "local.example.com", "version": "v7", "groupPriorityMinimum": 1, "versionPriority": 1},
    }));
    local.await.ok();
    let condition = world.reason("v7.local.example.com", "Local").await;
    assert_eq!(condition["message"], "Local APIServices are always available");
    assert!(port > 0);
}

/// KAPI-AGG-01: an API server that takes connections and says nothing delays the condition of nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn the_slow_delay_nobody() {
    let peer = Peer::start(&["metrics.ops.svc"], Router::new().fallback(answer)).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let directory = tempfile::tempdir().unwrap();
    let local_services = [format!("ops/metrics=127.0.0.1:{}", peer.port), format!("ops/silent=127.0.0.1:{silent_port}")]
        .map(|one| one.parse().unwrap())
        .into();
    let server = Server::open(mainstay_apiserver::Config { local_services, ..config(directory.path()) }).await.unwrap();
    let admin = server.in_process(UserInfo::new("admin", &["system:masters", "system:authenticated"]));
    let world = World { cluster: Cluster { server, admin, directory }, peer };
    let service = |group: &str, service: Value| {
        let mut spec = json!({"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10});
        if service.is_string() {
            spec["service"] = json!({"name": service, "namespace": "ops"});
            spec["insecureSkipTLSVerify"] = true.into();
        }
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{group}")}, "spec": spec})
    };
    world.cluster.post(SERVICES, service("silent.example.com", json!("silent"))).await.ok();
    // It is being asked now, and keeps whoever asks waiting.
    let _asking = silent.accept().await.unwrap();
    world.cluster.post(SERVICES, service("local.example.com", json!(null))).await.ok();
    world.cluster.post(SERVICES, service(GROUP, json!("metrics"))).await.ok();
    world.reason("v1.local.example.com", "Local").await;
    world.reason(&format!("v1.{GROUP}"), "Passed").await;
    let silent = world.get(&format!("{SERVICES}/v1.silent.example.com"), "application/json").await.ok();
    assert_eq!(silent["status"]["conditions"], json!(null), "nothing is known of it yet");
}

/// KAPI-AGG-01: the protocol may change, through this server to the other one.
#[tokio::test(flavor = "multi_thread")]
async fn upgrades() {
    let world = World::new().await;
    world.register(json!({"caBundle": world.peer.ca_bundle()})).await;
    world.reason(&format!("v1.{GROUP}"), "Passed").await;
    let front = Peer::start(&["localhost"], world.cluster.admin.clone()).await;
    let mut roots = rustls::RootCertStore::empty();
    let pem = <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(front.ca.as_bytes()).unwrap();
    roots.add(pem).unwrap();
    let tls = rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = tokio::net::TcpStream::connect(("127.0.0.1", front.port)).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(tls));
    let mut stream = connector.connect("localhost".try_into().unwrap(), tcp).await.unwrap();
    let request = format!(
        "GET /apis/{GROUP}/v1/namespaces/a/loads/x/shout HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 101") && head.to_lowercase().contains("upgrade: shout"), "{head}");
    stream.write_all(b"hello").await.unwrap();
    let mut word = [0; 5];
    stream.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"HELLO");
}

/// KAPI-AGG-01: our own certificate of the front proxy is believed what it says of a request; others are not.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_front_proxy() {
    let world = World::new().await;
    let read = |name: &str| std::fs::read_to_string(world.cluster.directory.path().join("pki").join(name)).unwrap();
    let whoami = async |certificate: &str| {
        let der =
            <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(certificate.as_bytes()).unwrap();
        let connection = mainstay_serve::Connection {
            remote: "127.0.0.1:1".parse().unwrap(),
            local: "127.0.0.1:2".parse().unwrap(),
            encrypted: true,
            certificates: vec![der].into(),
        };
        let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-remote-user", "ann")
            .header("x-remote-uid", "7")
            .header("x-remote-group", "devs")
            .header("x-remote-extra-Example.com%2fScopes", "x")
            .extension(connection)
            .body(Body::from("{}"))
            .unwrap();
        let response = tower::ServiceExt::oneshot(world.cluster.server.router(), request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap()
    };
    let user = whoami(&read("front-proxy-client.crt")).await["status"]["userInfo"].clone();
    assert_eq!(
        user,
        json!({"username": "ann", "uid": "7", "groups": ["devs", "system:authenticated"], "extra": {"example.com/scopes": ["x"]}})
    );
    assert_eq!(whoami(&read("admin.crt")).await["status"]["userInfo"]["username"], "admin", "the headers of others say nothing");
}
