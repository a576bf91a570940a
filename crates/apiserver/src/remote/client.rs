//! Calls over pooled connections: one client for each address and each way to know who answers there.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::{CallError, Failure, dial, go_duration};
use super::local::LocalService;
use super::resolve::{Address, Facts, ResolveError};
use super::simulated::is_simulated;
use super::target::{ClientConfig, Target, Trust};
use super::tls::{self, Identity};
use crate::cache::{Cache, Scope};

/// The largest answer that a call takes.
pub const ANSWER_LIMIT: usize = 32 * 1024 * 1024;
/// The time for which an unused connection stays open.
const IDLE: Duration = Duration::from_secs(90);
/// The time that a connection and its handshake may take, if the caller sets no shorter one.
const DIAL: Duration = Duration::from_secs(30);
/// The most clients that are kept; each has connections of its own.
const CLIENTS: usize = 256;
/// The label that names the Service of an EndpointSlice.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The `User-Agent` of calls of webhooks.
const USER_AGENT: &str = "kube-apiserver-admission";

/// An answer whose body is still to be read.
pub type Reply = Response<Incoming>;

type Pooled = Client<Connector, Body>;

/// All processes that this server calls.
pub struct Remotes {
    cache: Arc<Cache>,
    local: Vec<LocalService>,
    /// Local services that came while the server runs.
    joined: RwLock<Vec<LocalService>>,
    /// Set if webhooks whose pods are simulated are not asked.
    skip_simulated: bool,
    /// Shown to aggregated API servers.
    front_proxy: OnceLock<Identity>,
    clients: Mutex<HashMap<Key, Pooled>>,
}

/// The properties that connections can be shared by.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    address: Address,
    server_name: String,
    trust: Trust,
    kind: ConnectionKind,
}

/// The purpose of a connection, which decides how it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ConnectionKind {
    /// Without a certificate of ours: webhooks.
    Anonymous,
    /// With the aggregation layer's certificate.
    FrontProxy,
    /// The same, in HTTP/1.1, for requests that change the protocol.
    FrontProxyUpgrade,
}

impl Remotes {
    /// Services are looked up in this cache, unless one is local.
    pub fn new(cache: Arc<Cache>, local: Vec<LocalService>) -> Self {
        Self { cache, local, joined: RwLock::default(), skip_simulated: false, front_proxy: OnceLock::new(), clients: Mutex::default() }
    }

    /// Sets the certificate that aggregated API servers know us by; the first one holds.
    #[must_use]
    pub fn front_proxy(self, identity: Identity) -> Self {
        self.front_proxy.get_or_init(|| identity);
        self
    }

    /// Sets whether webhooks whose pods are simulated are passed over.
    #[must_use]
    pub fn skip_simulated(self, skip_simulated: bool) -> Self {
        Self { skip_simulated, ..self }
    }

    /// Returns whether a webhook is passed over: its pods are simulated, and that was asked for.
    pub fn passes_over(&self, target: &Target) -> bool {
        let simulated = || matches!(self.addresses(target), Err(Failure::Resolve(ResolveError::Simulated { .. })));
        self.skip_simulated && simulated()
    }

    /// Posts a review and answers with what came back. The timeout is part of the URL, as upstream, and covers everything.
    ///
    /// Nobody is asked twice: the pool's client takes another connection where a kept one was closed before anything of the request
    /// was written, as Go's does, and whatever goes wrong from then on is the answer.
    pub async fn call(&self, config: &ClientConfig, body: &Value, timeout: Duration) -> Result<Value, CallError> {
        let bytes = Bytes::from(serde_json::to_vec(body).map_err(CallError::Decode)?);
        let url = format!("{}?timeout={}", config.target.url(), go_duration(timeout));
        let failed = |failure| CallError::Transport { method: "Post".to_owned(), url: url.clone(), failure };
        let request = Request::builder()
            .method(Method::POST)
            .uri(&url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, USER_AGENT)
            .body(Body::from(bytes))
            .map_err(|error| CallError::Config(error.to_string()))?;
        let exchange = self.exchange(config, ConnectionKind::Anonymous, request);
        let (code, answer) = tokio::time::timeout(timeout, exchange).await.map_err(|_| failed(Failure::Timeout))?.map_err(failed)?;
        if !code.is_success() {
            return Err(CallError::of_answer(code, &answer));
        }
        serde_json::from_slice(&answer).map_err(CallError::Decode)
    }

    /// Sends a request on to an aggregated API server; the path and query are the request's own. `upgrade` asks for a connection
    /// that can change its protocol. No time is set: watches last.
    pub async fn forward(&self, config: &ClientConfig, request: Request<Body>, upgrade: bool) -> Result<Reply, Failure> {
        self.open(config, if upgrade { ConnectionKind::FrontProxyUpgrade } else { ConnectionKind::FrontProxy }, request).await
    }

    /// Gets a document from an aggregated API server.
    pub async fn fetch(
        &self,
        config: &ClientConfig,
        request: Request<Body>,
        timeout: Duration,
    ) -> Result<(http::response::Parts, Bytes), Failure> {
        let exchange = async {
            let (parts, body) = self.open(config, ConnectionKind::FrontProxy, request).await?.into_parts();
            Ok((parts, collect(body).await?))
        };
        tokio::time::timeout(timeout, exchange).await.map_err(|_| Failure::Timeout)?
    }

    /// Addresses that serve this target now.
    pub fn addresses(&self, target: &Target) -> Result<Vec<Address>, Failure> {
        match target {
            Target::Url(url) => {
                let uri: Uri = url.parse().map_err(|error| Failure::Connect(format!("{error}")))?;
                let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
                if is_simulated(&self.cache, host) {
                    return Err(ResolveError::SimulatedAddress(host.to_owned()).into());
                }
                Ok(vec![Address { host: host.to_owned(), port: uri.port_u16().unwrap_or(443) }])
            }
            Target::Service { namespace, name, port, .. } => {
                if let Some(local) = self.local(namespace, name) {
                    return Ok(vec![local.address]);
                }
                let mut found = self.service(namespace, name).addresses(name, *port)?;
                found.retain(|address| !is_simulated(&self.cache, &address.host));
                if found.is_empty() {
                    return Err(ResolveError::Simulated { namespace: namespace.clone(), name: name.clone() }.into());
                }
                Ok(found)
            }
        }
    }

    /// The process on this machine that stands for a Service.
    pub fn local(&self, namespace: &str, name: &str) -> Option<LocalService> {
        let joined = self.joined.read().unwrap_or_else(PoisonError::into_inner);
        self.local.iter().chain(&*joined).find(|local| local.namespace == namespace && local.name == name).cloned()
    }

    /// Has a process on this machine stand for a Service from now on, in place of an earlier call's; one that was given at the start stays.
    pub fn serve_locally(&self, service: LocalService) {
        let mut joined = self.joined.write().unwrap_or_else(PoisonError::into_inner);
        joined.retain(|known| known.namespace != service.namespace || known.name != service.name);
        joined.push(service);
    }

    /// A Service as the cache shows it.
    pub fn service(&self, namespace: &str, name: &str) -> Facts {
        let of_name = |resource: &str| self.cache.resource(resource).get(&format!("{namespace}/{name}")).map(|entry| entry.value());
        let scope = Scope { namespace: namespace.to_owned(), name: String::new() };
        let mut slices = self.cache.resource("discovery.k8s.io/endpointslices").list(&scope);
        slices.retain(|entry| entry.labels.get(SERVICE_LABEL).map(String::as_str) == Some(name));
        Facts {
            service: of_name("core/services"),
            slices: slices.iter().map(|entry| entry.value()).collect(),
            endpoints: of_name("core/endpoints"),
        }
    }

    async fn exchange(&self, config: &ClientConfig, kind: ConnectionKind, request: Request<Body>) -> Result<(StatusCode, Bytes), Failure> {
        let (parts, body) = self.open(config, kind, request).await?.into_parts();
        Ok((parts.status, collect(body).await?))
    }

    async fn open(&self, config: &ClientConfig, kind: ConnectionKind, request: Request<Body>) -> Result<Reply, Failure> {
        let addresses = self.addresses(&config.target)?;
        let address = addresses[rand::random_range(0..addresses.len())].clone();
        let server_name = config.target.server_name().unwrap_or_else(|| address.host.clone());
        let client = self.client(Key { address, server_name, trust: config.trust.clone(), kind })?;
        client.request(request).await.map_err(|error| failure(&error))
    }

    fn client(&self, key: Key) -> Result<Pooled, Failure> {
        if let Some(client) = self.clients.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(client.clone());
        }
        let server_name =
            ServerName::try_from(key.server_name.clone()).map_err(|_| Failure::Tls(format!("{:?} is no host name", key.server_name)))?;
        let identity = if key.kind == ConnectionKind::Anonymous { None } else { self.front_proxy.get() };
        let protocols: &[&[u8]] = if key.kind == ConnectionKind::FrontProxyUpgrade { &[b"http/1.1"] } else { &[b"h2", b"http/1.1"] };
        let tls = tls::settings(&key.trust, identity, protocols).map_err(|error| Failure::Tls(error.to_string()))?;
        let connector = Connector { address: key.address.clone(), server_name, tls: TlsConnector::from(tls) };
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).pool_timer(TokioTimer::new()).build(connector);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CLIENTS {
            // Whoever is thrown out by chance connects anew when it is called again.
            let victim = clients.keys().next().cloned();
            victim.and_then(|victim| clients.remove(&victim));
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}

async fn collect(body: Incoming) -> Result<Bytes, Failure> {
    match Limited::new(body, ANSWER_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::TooLarge(ANSWER_LIMIT)),
        Err(error) => Err(Failure::Broken(broken(&*error))),
    }
}

fn failure(error: &ClientError) -> Failure {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        match inner.downcast_ref::<ConnectError>() {
            Some(ConnectError::Dial(words)) => return Failure::Connect(words.clone()),
            Some(ConnectError::Handshake(words)) => return Failure::Tls(words.clone()),
            None => cause = inner.source(),
        }
    }
    Failure::Broken(broken(error))
}

/// Go's words for a connection that broke under a request.
fn broken(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = Some(error);
    let mut last = error.to_string();
    while let Some(inner) = cause {
        if let Some(hyper) = inner.downcast_ref::<hyper::Error>() {
            if hyper.is_incomplete_message() || hyper.is_closed() || hyper.is_canceled() {
                return "EOF".to_owned();
            }
            if hyper.is_parse() {
                return "net/http: HTTP/1.x transport connection broken: malformed HTTP response".to_owned();
            }
        }
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            match io.kind() {
                std::io::ErrorKind::ConnectionReset => return "read: connection reset by peer".to_owned(),
                std::io::ErrorKind::BrokenPipe => return "write: broken pipe".to_owned(),
                std::io::ErrorKind::UnexpectedEof => return "unexpected EOF".to_owned(),
                _ => {}
            }
        }
        last = inner.to_string();
        cause = inner.source();
    }
    last
}

/// Makes connections to one address.
#[derive(Clone)]
struct Connector {
    address: Address,
    server_name: ServerName<'static>,
    tls: TlsConnector,
}

/// Why no connection was made; the words are Go's.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("{0}")]
    Dial(String),
    #[error("{0}")]
    Handshake(String),
}

impl Connector {
    async fn connect(self) -> Result<Stream, ConnectError> {
        let Address { host, port } = &self.address;
        let numeric = host.parse::<std::net::IpAddr>().is_ok();
        let tcp = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| {
            // The resolver's errors have no kind of their own.
            if !numeric && error.raw_os_error().is_none() {
                return ConnectError::Dial(format!("dial tcp: lookup {host}: no such host"));
            }
            ConnectError::Dial(dial(&self.address.to_string(), &error))
        })?;
        // Small requests shall not wait for company; a socket that refuses the option still works.
        let _ = tcp.set_nodelay(true);
        let tls = self.tls.connect(self.server_name, tcp).await.map_err(|error| ConnectError::Handshake(tls::handshake_words(&error)))?;
        Ok(Stream(TokioIo::new(tls)))
    }
}

impl tower::Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let address = connector.address.to_string();
            let connected = tokio::time::timeout(DIAL, connector.connect()).await;
            connected.unwrap_or_else(|_| Err(ConnectError::Dial(format!("dial tcp {address}: i/o timeout"))))
        })
    }
}

/// An encrypted connection that says which HTTP was agreed on.
struct Stream(TokioIo<TlsStream<TcpStream>>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if self.0.inner().get_ref().1.alpn_protocol() == Some(b"h2") { connected.negotiated_h2() } else { connected }
    }
}

impl Read for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl fmt::Debug for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remotes").field("local", &self.local).finish_non_exhaustive()
    }
}
