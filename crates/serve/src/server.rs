//! One listener, from bind to drain.

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
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::places::{Place, Places, Seat};
use crate::sent::Answering;
use crate::stalled::Stalled;
use crate::steps::{Portion, Portioned, Steps};
use crate::{Error, Tls};

/// The properties of a connection, found in the request's extensions.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The remote address.
    pub remote: SocketAddr,
    /// The local address.
    pub local: SocketAddr,
    /// True if the connection is encrypted.
    pub encrypted: bool,
    /// The certificates of the client, leaf first, with a proven key and an unverified issuer. Empty if the client sent none.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// Bounds of a listener.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections open at once; a further one takes the place of another ([`Place`]).
    pub connections: usize,
    /// The longest time of a handshake.
    pub handshake: Duration,
    /// The longest time to receive the head of a request, and the longest idle time of an HTTP/1.1 connection.
    pub header_read: Duration,
    /// The longest time that an answer waits for a client that reads nothing.
    pub write_stall: Duration,
    /// The longest idle time of a connection without a proven name.
    pub idle_stranger: Duration,
    /// The longest idle time of any other connection.
    pub idle: Duration,
    /// Bytes of answers that all connections together hold and their clients do not take, before the largest is cut.
    pub unsent_bytes: usize,
    /// Bytes of the head of one HTTP/1.1 request, and of data that waits to be written.
    pub buffer_bytes: usize,
    /// Streams open at once on one HTTP/2 connection.
    pub streams: u32,
    /// Bytes of the headers of one HTTP/2 request.
    pub header_bytes: u32,
    /// The longest time for requests in flight to finish after the shutdown was requested.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            handshake: Duration::from_secs(10),
            header_read: Duration::from_secs(60),
            write_stall: Duration::from_secs(60),
            idle_stranger: Duration::from_secs(60),
            idle: Duration::from_secs(300),
            unsent_bytes: 64 << 20,
            buffer_bytes: 256 * 1024,
            // As in kube-apiserver: a client that needs more opens another connection.
            streams: 100,
            header_bytes: 64 * 1024,
            drain: Duration::from_secs(4),
        }
    }
}

/// Streams that a client may have reset before they were processed.
const RESETS: usize = 64;

/// Bytes that a client may send of one stream's body before it is read.
const WINDOW: u32 = 256 * 1024;
/// The interval of the search for idle and unread connections.
const SWEEP: Duration = Duration::from_secs(1);
/// The time that an idle connection has for a graceful close.
const GOODBYE: Duration = Duration::from_secs(5);

/// An observer of connections, for metrics.
pub trait Observer: Send + Sync + 'static {
    /// Called when a connection was accepted.
    fn opened(&self) {}
    /// Called when a connection ended.
    fn closed(&self) {}
    /// Called when a handshake failed or took too long.
    fn handshake_failed(&self) {}
}

/// Runs work in a task of its own, which is aborted when its caller stops waiting. A panic propagates to the caller.
async fn apart<F>(work: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut task = AbortOnDrop(tokio::spawn(work));
    match (&mut task.0).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The task is aborted only with this future or with the whole runtime.
            Err(_) => std::future::pending().await,
        },
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Unobserved;

impl Observer for Unobserved {}

/// The result of a listener's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every request in flight was answered.
    Drained,
    /// The drain took too long, and this many connections were cut.
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

    /// Returns the bound address, with the port that was picked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets TLS: the listener serves HTTPS.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Sets other limits than the defaults.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Disables HTTP/2 (OLM1-GEN-05).
    #[must_use]
    pub fn without_http2(mut self) -> Self {
        self.http2 = false;
        self
    }

    /// Sets the observer of connections.
    #[must_use]
    pub fn observe(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Serves until cancelled. Then it stops accepting, lets requests in flight finish, and cuts the rest after the drain time.
    ///
    /// The caller must end answers that never end by themselves (watches).
    pub async fn run(self, router: Router, shutdown: CancellationToken) -> Ended {
        let Self { tcp, tls, limits, http2, observer, .. } = self;
        let tls = tls.map(|tls| if http2 { tls } else { tls.without_http2() });
        let places = Places::new(limits.connections, limits.unsent_bytes);
        let mut connections = JoinSet::new();
        let context = Arc::new(Context { http2, observer, ..Context::new(tls, limits, router, shutdown) });
        let sweeping = tokio::spawn(sweep(places.clone(), context.limits.clone()));
        loop {
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
                    let Some(place) = places.enter(remote.ip()) else {
                        tracing::warn!(%remote, "connection refused: all places are reserved");
                        continue;
                    };
                    let context = context.clone();
                    connections.spawn(async move {
                        context.observer.opened();
                        let cut = place.seat().cut.clone();
                        // The rest of the connection ends with its task.
                        let _ended = cut.run_until_cancelled(Box::pin(context.connection(stream, remote, place))).await;
                        context.observer.closed();
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    if no_files(&error) {
                        places.make_room();
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(tcp);
        let drained = tokio::time::timeout(context.limits.drain, async {
            while let Some(ended) = connections.join_next().await {
                report_panic(ended);
            }
            // An upgraded connection is no longer served here, but keeps its place.
            places.all_left().await;
        })
        .await;
        sweeping.abort();
        if drained.is_ok() {
            return Ended::Drained;
        }
        let left = places.len();
        connections.shutdown().await;
        Ended::Cut(left)
    }
}

/// Returns true if no file descriptor is left: another connection must be cut.
fn no_files(error: &std::io::Error) -> bool {
    matches!(rustix::io::Errno::from_io_error(error), Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// Closes idle connections and cuts unread ones, until it is aborted.
async fn sweep(places: Arc<Places>, limits: Limits) {
    loop {
        tokio::time::sleep(SWEEP.min(limits.write_stall)).await;
        places.cut_unread(limits.write_stall, SWEEP);
        places.end_idle(limits.idle_stranger, limits.idle);
    }
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "connection ended by a panic in a handler");
    }
}

/// Returns when a connection that was asked to close had enough time and is no longer active.
async fn goodbye(seat: &Seat) {
    tokio::time::sleep(GOODBYE).await;
    while seat.is_active() {
        tokio::time::sleep(SWEEP).await;
    }
}

/// The settings that the connections of a listener share.
pub(crate) struct Context {
    acceptor: Option<TlsAcceptor>,
    limits: Limits,
    http2: bool,
    observer: Arc<dyn Observer>,
    router: Router,
    shutdown: CancellationToken,
    steps: Steps,
}

impl Context {
    /// Creates the default context: HTTP/2 beside HTTP/1.1, no observer of connections.
    pub(crate) fn new(tls: Option<Tls>, limits: Limits, router: Router, shutdown: CancellationToken) -> Self {
        let acceptor = tls.map(|tls| TlsAcceptor::from(tls.config));
        Self { acceptor, limits, http2: true, observer: Arc::new(Unobserved), router, shutdown, steps: Steps::default() }
    }

    async fn connection(&self, stream: TcpStream, remote: SocketAddr, place: Place) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%remote, %error, "connection without nodelay");
        }
        let Ok(local) = stream.local_addr() else { return };
        self.greet(stream, Connection { remote, local, encrypted: false, certificates: Arc::from([]) }, place).await;
    }

    /// Performs the TLS handshake, if any, and serves the connection.
    pub(crate) async fn greet<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(&self, stream: S, plain: Connection, place: Place) {
        let remote = plain.remote;
        let Some(acceptor) = &self.acceptor else {
            self.serve(stream, plain, place).await;
            return;
        };
        let (seat, portion) = (place.seat().clone(), Portion::default());
        let handshake = std::pin::pin!(acceptor.accept(stream));
        let handshake = tokio::select! {
            () = self.shutdown.cancelled() => return,
            handshake = tokio::time::timeout(self.limits.handshake, self.steps.take(&seat, &portion, handshake)) => handshake,
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
        let seat = place.seat().clone();
        let close = seat.close.clone();
        let router = self.router.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(connection.clone());
            request.extensions_mut().insert(place.clone());
            let answering = Answering::begin(place.clone());
            let beside = request.version() < http::Version::HTTP_2;
            let answer = router.clone().oneshot(request);
            async move {
                // HTTP/2 requests have tasks of their own; an HTTP/1.1 request must not spend its time in a step of its connection.
                let answer = if beside { apart(answer).await } else { answer.await };
                answer.map(|response| response.map(|body| answering.send(body)))
            }
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
            .initial_stream_window_size(WINDOW)
            // Streams that are opened only to be reset cost the server work and the client nothing: a few of them end the connection.
            .max_pending_accept_reset_streams(Some(RESETS))
            .max_local_error_reset_streams(Some(RESETS))
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(20));
        let portion = Arc::new(Portion::default());
        let stream = Portioned::new(Stalled::new(stream, self.limits.write_stall), portion.clone());
        let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::pin!(served);
        let ended = tokio::select! {
            ended = self.steps.take(&seat, &portion, served.as_mut()) => ended,
            () = self.shutdown.cancelled() => {
                served.as_mut().graceful_shutdown();
                self.steps.take(&seat, &portion, served).await
            }
            () = close.cancelled() => {
                served.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = self.steps.take(&seat, &portion, served) => ended,
                    () = goodbye(&seat) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%remote, %error, "connection broke off");
        }
    }
}
