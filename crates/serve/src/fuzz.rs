//! Entry points for `tests/fuzz`: connections without a socket. Nothing else uses them.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::Tls;
use crate::places::Places;
use crate::server::{Connection, Context, Limits};

/// A listener without a socket.
pub struct Listener {
    context: Arc<Context>,
    places: Arc<Places>,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Listener {
    /// Creates a listener for `router`, with or without TLS.
    pub fn new(router: Router, tls: Option<Tls>, limits: Limits) -> Self {
        let places = Places::new(limits.connections, limits.unsent_bytes);
        Self { context: Arc::new(Context::new(tls, limits, router, CancellationToken::new())), places }
    }

    /// Serves a connection to its end. Returns `None` if all places are reserved.
    pub fn connect<S>(&self, stream: S, remote: IpAddr) -> Option<impl Future<Output = ()> + Send + 'static>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let place = self.places.enter(remote)?;
        let context = self.context.clone();
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
        let connection = Connection { remote: SocketAddr::new(remote, 2), local, encrypted: false, certificates: Arc::from([]) };
        Some(async move {
            let cut = place.seat().cut.clone();
            let _ended = cut.run_until_cancelled(context.greet(stream, connection, place)).await;
        })
    }

    /// Returns the number of connections with a place.
    pub fn open(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of connections with reserved places.
    pub fn reserved(&self) -> usize {
        self.places.reserved()
    }

    /// Returns the bytes of answers that are held and not taken.
    pub fn held(&self) -> usize {
        self.places.held()
    }

    /// Ends idle connections, and cuts those that leave answers unread for longer than `patience`.
    pub fn sweep(&self, patience: Duration) {
        self.places.cut_unread(patience, Duration::ZERO);
        self.places.end_idle(patience, patience);
    }
}
