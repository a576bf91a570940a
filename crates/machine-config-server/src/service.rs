//! The listeners.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mainstay_runtime::Cluster;
use mainstay_serve::{Limits, Server, Tls};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::following::Following;
use crate::routes::router;
use crate::snapshot::Snapshot;

/// The port of the listener with TLS, which machines know.
pub const SECURE_PORT: u16 = 22623;
/// The port of the listener without.
pub const PLAIN_PORT: u16 = 22624;
/// Limit for the head of a request to arrive, and for a handshake.
const READ: Duration = Duration::from_secs(10);
/// Connections at once: as many machines as boot together.
const CONNECTIONS: usize = 1024;
/// Bytes of the head of a request.
const HEAD: usize = 16 * 1024;

/// The settings.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where it listens with TLS.
    pub secure: Option<(SocketAddr, Tls)>,
    /// Where it listens without.
    pub plain: Option<SocketAddr>,
    /// The URL of the API for machines; that of Infrastructure `cluster` without one.
    pub api_url: Option<String>,
}

/// The addresses with the ports that were picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// With TLS.
    pub secure: Option<SocketAddr>,
    /// Without.
    pub plain: Option<SocketAddr>,
}

/// A server that listens, but does not answer yet.
#[derive(Debug)]
pub struct Service {
    servers: Vec<Server>,
    bound: Bound,
    api_url: Option<String>,
}

impl Service {
    /// Opens the listeners.
    ///
    /// # Errors
    /// An address is taken.
    pub async fn open(config: Config) -> Result<Self, Error> {
        let (mut servers, mut bound) = (Vec::new(), Bound::default());
        if let Some((address, tls)) = config.secure {
            let server = Server::bind(address).await?.tls(tls);
            bound.secure = Some(server.address());
            servers.push(server);
        }
        if let Some(address) = config.plain {
            let server = Server::bind(address).await?;
            bound.plain = Some(server.address());
            servers.push(server);
        }
        Ok(Self { servers, bound, api_url: config.api_url })
    }

    /// Where it listens.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Serves until cancelled.
    ///
    /// # Errors
    /// No client can be made.
    pub async fn run(self, cluster: &Cluster, stop: CancellationToken) -> Result<(), Error> {
        let following = Following::start(&cluster.client()?, self.api_url, &stop);
        let (sender, receiver) = watch::channel(Arc::new(Snapshot::default()));
        let mut serving = JoinSet::new();
        for server in self.servers {
            // Machines speak HTTP/1.1, as upstream's server does.
            let server = server.without_http2().limits(limits());
            let (router, stop) = (router(receiver.clone()), stop.clone());
            serving.spawn(async move { _ = server.run(router, stop).await });
        }
        following.run(sender, stop).await;
        while serving.join_next().await.is_some() {}
        Ok(())
    }
}

fn limits() -> Limits {
    Limits { connections: CONNECTIONS, handshake: READ, header_read: READ, buffer_bytes: HEAD, ..Limits::default() }
}
