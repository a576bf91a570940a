//! One listener from bind to drain.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::stalled::Stalled;
use crate::{Error, Tls};

/// What a request can know of its connection; found in the request's extensions.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The other end.
    pub remote: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// Whether the connection is encrypted.
    pub encrypted: bool,
    /// What the client showed, leaf first, its key proven, its issuer not yet checked; empty without one.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// The place of a connection among those that the listener allows; found in the request's extensions.
///
/// Whoever goes on with a connection after it changed its protocol keeps this for as long: it counts as open until then, and the end
/// of the listener waits for it.
#[derive(Debug, Clone)]
pub struct Place(#[allow(dead_code, reason = "it is held, and given back when it is dropped")] Arc<OwnedSemaphorePermit>);

/// Bounds of a listener.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections open at once; more wait in the kernel's queue.
    pub connections: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long the head of a request may take, and how long an HTTP/1.1 connection may idle.
    pub header_read: Duration,
    /// How long an answer may wait for a client that reads nothing.
    pub write_stall: Duration,
    /// Bytes of the head of one HTTP/1.1 request, and of what waits to be written.
    pub buffer_bytes: usize,
    /// Streams open at once on one HTTP/2 connection.
    pub streams: u32,
    /// Bytes of the headers of one HTTP/2 request.
    pub header_bytes: u32,
    /// How long requests in flight may take to finish after the end was asked for.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(60),
            write_stall: Duration::from_secs(60),
            buffer_bytes: 256 * 1024,
            streams: 250,
            header_bytes: 64 * 1024,
            drain: Duration::from_secs(4),
        }
    }
}

/// Streams that a client may have reset before they were looked at.
const RESETS: usize = 64;

/// Told about connections, for metrics.
pub trait Observer: Send + Sync + 'static {
    /// A connection was accepted.
    fn opened(&self) {}
    /// A connection ended.
    fn closed(&self) {}
    /// A handshake failed or took too long.
    fn handshake_failed(&self) {}
}

struct Unobserved;

impl Observer for Unobserved {}

/// How a listener ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every request in flight was answered.
    Drained,
    /// The drain took too long; this many connections were cut.
    Cut(usize),
}

/// A bound listener, not yet serving.
pub struct Server {
    tcp: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    limits: Limits,
    http2: bool,
    observer: Arc<dyn Observer>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Binds the address; port 0 picks a free one. Serves plain HTTP unless [`Server::tls`] is called.
    pub async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |source| Error::Bind { address, source };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        Ok(Self { tcp, address, tls: None, limits: Limits::default(), http2: true, observer: Arc::new(Unobserved) })
    }

    /// The real address, with the port that was picked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves HTTPS.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Other bounds than the default ones.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Speaks nothing but HTTP/1.1 (OLM1-GEN-05).
    #[must_use]
    pub fn without_http2(mut self) -> Self {
        self.http2 = false;
        self
    }

    /// Tells the observer about connections.
    #[must_use]
    pub fn observe(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Serves until cancelled, then stops accepting, lets requests in flight finish, and cuts what is left after the drain time.
    ///
    /// Answers that never end by themselves (watches) must be ended by whoever made them.
    pub async fn run(self, router: Router, shutdown: CancellationToken) -> Ended {
        let Self { tcp, tls, limits, http2, observer, .. } = self;
        let tls = tls.map(|tls| if http2 { tls } else { tls.without_http2() });
        let slots = Arc::new(Semaphore::new(limits.connections));
        let mut connections = JoinSet::new();
        let context =
            Arc::new(Context { acceptor: tls.map(|tls| TlsAcceptor::from(tls.config)), limits, http2, observer, router, shutdown });
        loop {
            let slot = tokio::select! {
                () = context.shutdown.cancelled() => break,
                slot = slots.clone().acquire_owned() => slot,
            };
            // The semaphore is never closed, so a slot is always given.
            let Ok(slot) = slot else { break };
            let accepted = tokio::select! {
                () = context.shutdown.cancelled() => break,
                Some(ended) = connections.join_next(), if !connections.is_empty() => {
                    report_panic(ended);
                    continue;
                }
                accepted = tcp.accept() => accepted,
            };
            match accepted {
                Ok((stream, remote)) => {
                    let context = context.clone();
                    connections.spawn(async move {
                        context.observer.opened();
                        context.connection(stream, remote, Place(Arc::new(slot))).await;
                        context.observer.closed();
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    // Out of file descriptors, most likely: wait for some to be closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(tcp);
        let drained = tokio::time::timeout(context.limits.drain, async {
            while let Some(ended) = connections.join_next().await {
                report_panic(ended);
            }
            // What changed its protocol is no longer served here, and keeps its place. The semaphore is never closed.
            let _ = slots.acquire_many(u32::try_from(context.limits.connections).unwrap_or(u32::MAX)).await;
        })
        .await;
        if drained.is_ok() {
            return Ended::Drained;
        }
        let left = context.limits.connections.saturating_sub(slots.available_permits());
        connections.shutdown().await;
        Ended::Cut(left)
    }
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "connection ended by a panic in a handler");
    }
}

struct Context {
    acceptor: Option<TlsAcceptor>,
    limits: Limits,
    http2: bool,
    observer: Arc<dyn Observer>,
    router: Router,
    shutdown: CancellationToken,
}

impl Context {
    async fn connection(&self, stream: TcpStream, remote: SocketAddr, place: Place) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%remote, %error, "connection without nodelay");
        }
        let Ok(local) = stream.local_addr() else { return };
        let plain = Connection { remote, local, encrypted: false, certificates: Arc::from([]) };
        let Some(acceptor) = &self.acceptor else {
            self.serve(stream, plain, place).await;
            return;
        };
        let handshake = tokio::select! {
            () = self.shutdown.cancelled() => return,
            handshake = tokio::time::timeout(self.limits.handshake, acceptor.accept(stream)) => handshake,
        };
        match handshake {
            Ok(Ok(stream)) => {
                let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let certificates: Arc<[CertificateDer<'static>]> = shown.iter().map(|c| c.clone().into_owned()).collect();
                self.serve(stream, Connection { encrypted: true, certificates, ..plain }, place).await;
            }
            Ok(Err(error)) => {
                self.observer.handshake_failed();
                tracing::debug!(%remote, %error, "TLS handshake failed");
            }
            Err(_) => {
                self.observer.handshake_failed();
                tracing::debug!(%remote, "TLS handshake took too long");
            }
        }
    }

    async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(&self, stream: S, connection: Connection, place: Place) {
        let remote = connection.remote;
        let router = self.router.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(connection.clone());
            request.extensions_mut().insert(place.clone());
            router.clone().oneshot(request)
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        if !self.http2 {
            builder = builder.http1_only();
        }
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.limits.header_read).max_buf_size(self.limits.buffer_bytes);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.streams)
            .max_header_list_size(self.limits.header_bytes)
            .max_send_buf_size(self.limits.buffer_bytes)
            // Streams that are opened only to be reset again cost the server work and the client nothing: few of them end the connection.
            .max_pending_accept_reset_streams(Some(RESETS))
            .max_local_error_reset_streams(Some(RESETS))
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(20));
        let served = builder.serve_connection_with_upgrades(TokioIo::new(Stalled::new(stream, self.limits.write_stall)), service);
        tokio::pin!(served);
        let ended = tokio::select! {
            ended = served.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%remote, %error, "connection broke off");
        }
    }
}
