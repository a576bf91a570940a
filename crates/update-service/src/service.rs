//! The service: listeners, and the builder that replaces the graph.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstay_diagnostics::chain;
use mainstay_oci::{Client, ClientConfig};
use mainstay_serve::{Server, Tls};
use mainstay_update_graph::graph_data::Files;
use mainstay_update_graph::{GraphData, GraphLimits, Release, build};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::graph_data::{self, GraphDataPlace};
use crate::kept::Kept;
use crate::routes::{self, Shared};
use crate::snapshot::Snapshot;
use crate::sources::Place;

/// The longest time of one build, by default that of many registries' whole answer.
const BUILD_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Where to listen; `None` is off.
#[derive(Debug, Clone, Copy, Default)]
pub struct Addresses {
    /// Graphs for clusters (8081).
    pub policy: Option<SocketAddr>,
    /// Health and metrics of that (9081).
    pub policy_status: Option<SocketAddr>,
    /// The whole graph (8080).
    pub builder: Option<SocketAddr>,
    /// Graph-data for everybody (8090).
    pub public: Option<SocketAddr>,
    /// Health and metrics of the builder (9080).
    pub builder_status: Option<SocketAddr>,
}

/// The settings.
#[derive(Clone)]
pub struct Config {
    /// Where releases are.
    pub releases: Vec<Place>,
    /// Where graph-data is.
    pub graph_data: GraphDataPlace,
    /// The prefix of paths, such as `/api/upgrades_info`.
    pub prefix: String,
    /// Where to listen.
    pub addresses: Addresses,
    /// TLS of the listeners for clusters and of graph-data; plain HTTP without.
    pub tls: Option<Tls>,
    /// The time between two builds.
    pub interval: Duration,
    /// The folder of what is kept between starts.
    pub cache: Option<PathBuf>,
    /// The folder of signatures.
    pub signatures: Option<PathBuf>,
    /// The architecture of releases that name none.
    pub architecture: String,
    /// The commit that this program was built of.
    pub commit: String,
    /// Settings of registries.
    pub registries: ClientConfig,
}

/// A service that listens, but does not answer yet.
pub struct Service {
    shared: Arc<Shared>,
    builder: Builder,
    servers: Vec<(Server, axum::Router)>,
    bound: Bound,
}

/// The addresses with the ports that were picked.
pub type Bound = Addresses;

struct Builder {
    releases: Vec<Place>,
    graph_data: GraphDataPlace,
    interval: Duration,
    architecture: String,
    client: Client,
    kept: Kept,
    /// The input of the served graph: nothing is built of the same again.
    last: Option<(Vec<Release>, Files)>,
}

impl Service {
    /// Opens the listeners, and serves the last graph at once if its input was kept.
    pub async fn open(config: Config) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(&config.commit, config.signatures.clone()));
        let prefix = match config.prefix.trim_matches('/') {
            "" => String::new(),
            inner => format!("/{inner}"),
        };
        let Addresses { policy, policy_status, builder, public, builder_status } = config.addresses;
        let mut servers = Vec::new();
        let mut bound = Bound::default();
        for (address, router, tls, at) in [
            (policy, routes::policy(shared.clone(), &prefix), config.tls.clone(), &mut bound.policy),
            (policy_status, routes::policy_status(shared.clone()), None, &mut bound.policy_status),
            (builder, routes::builder(shared.clone(), &prefix), None, &mut bound.builder),
            (public, routes::public(shared.clone(), &prefix), config.tls.clone(), &mut bound.public),
            (builder_status, routes::builder_status(shared.clone()), None, &mut bound.builder_status),
        ] {
            let Some(address) = address else { continue };
            let mut server = Server::bind(address).await?;
            if let Some(tls) = tls {
                server = server.tls(tls);
            }
            *at = Some(server.address());
            servers.push((server, router));
        }
        let mut builder = Builder {
            releases: config.releases,
            graph_data: config.graph_data,
            interval: config.interval,
            architecture: config.architecture,
            client: Client::new(config.registries)?,
            kept: Kept::open(config.cache)?,
            last: None,
        };
        if let Err(error) = builder.restore(&shared).await {
            tracing::warn!(error = chain(&error), "the last graph could not be restored");
        }
        Ok(Self { shared, builder, servers, bound })
    }

    /// Where it listens.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// The graph that is served.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.shared.snapshot()
    }

    /// Builds the graph once, as [`Service::run`] does again and again.
    pub async fn build_once(&mut self) -> Result<(), Error> {
        self.builder.once(&self.shared).await
    }

    /// Serves until cancelled.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { shared, builder, servers, .. } = self;
        let mut serving = JoinSet::new();
        for (server, router) in servers {
            serving.spawn(server.run(router, shutdown.clone()));
        }
        let building = tokio::spawn({
            let (shared, shutdown) = (shared.clone(), shutdown.clone());
            async move { shutdown.run_until_cancelled(builder.run(&shared)).await }
        });
        shutdown.cancelled().await;
        while serving.join_next().await.is_some() {}
        if let Err(error) = building.await {
            tracing::error!(%error, "the builder broke off");
        }
        shared.live.store(false, Ordering::Relaxed);
    }
}

impl Builder {
    async fn run(mut self, shared: &Shared) {
        loop {
            if let Err(error) = self.once(shared).await {
                tracing::error!(error = chain(&error), "graph not built; the last one is kept");
            }
            tokio::time::sleep(self.interval).await;
        }
    }

    async fn once(&mut self, shared: &Shared) -> Result<(), Error> {
        let begin = Instant::now();
        let outcome = match tokio::time::timeout(BUILD_TIMEOUT, self.build(shared)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::Io { path: "build".into(), source: std::io::ErrorKind::TimedOut.into() }),
        };
        shared.builder.built(begin.elapsed(), outcome.as_ref().ok().copied());
        outcome.map(drop)
    }

    async fn build(&mut self, shared: &Shared) -> Result<(usize, usize), Error> {
        let files = self.graph_data.read(&self.client).await?;
        let mut releases = Vec::new();
        for place in &self.releases {
            releases.extend(place.read(&self.client, &self.kept, &self.architecture).await?);
        }
        releases.sort_by(|left, right| (&left.metadata.version, &left.payload).cmp(&(&right.metadata.version, &right.payload)));
        let raw = releases.len();
        if let (Some((last_releases, last_files)), Some(snapshot)) = (&self.last, shared.snapshot())
            && *last_releases == releases
            && *last_files == files
        {
            return Ok((raw, snapshot.len()));
        }
        let (snapshot, archive) = snapshot(releases.clone(), files.clone()).await?;
        let nodes = snapshot.len();
        shared.replace(snapshot);
        tracing::info!(releases = nodes, "graph built");
        self.kept.put_last(&releases, &archive)?;
        self.last = Some((releases, files));
        Ok((raw, nodes))
    }

    /// Serves the graph of the last run's input until the first build is done.
    async fn restore(&mut self, shared: &Shared) -> Result<(), Error> {
        let (Some(releases), Some(path)) = (self.kept.last_releases(), self.kept.last_graph_data()) else { return Ok(()) };
        let files = tokio::task::spawn_blocking(move || graph_data::from_archive(&path)).await??;
        let (snapshot, _) = snapshot(releases.clone(), files.clone()).await?;
        shared.replace(snapshot);
        self.last = Some((releases, files));
        Ok(())
    }
}

/// Builds the graph beside the threads that answer.
async fn snapshot(releases: Vec<Release>, files: Files) -> Result<(Arc<Snapshot>, Bytes), Error> {
    let work = move || {
        let data = GraphData::read(&files).map_err(Error::GraphData)?;
        if data.is_newer {
            tracing::info!("graph-data has a newer schema than this program implements");
        }
        let graph = build(releases, &data, &GraphLimits::default()).map_err(Error::Build)?;
        let archive = graph_data::archive(&files)?;
        Ok((Snapshot::new(graph, archive.clone()), archive))
    };
    tokio::task::spawn_blocking(work).await?
}
