//! The embedded cluster, composed: the one place that knows all of its parts.
//!
//! ```text
//!   data directory ─► api: store, API server, HTTPS listener ◄── /catalogs/... ──┐
//!                        │ in process                                            │
//!                        └─► components: controllers, scheduler, nodes, olm-v1 ──┘
//!   registration: where other commands find it      kubeconfig: how clients reach it
//! ```

mod api;
pub mod components;
pub mod kubeconfig;
pub mod registration;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mainstay_olm_v1::gates::FeatureGates;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use api::Apis;
pub use components::Components;

use crate::errors::Failure;

/// How an embedded cluster is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Holds everything that lasts.
    pub data_dir: PathBuf,
    /// Where the API listens.
    pub listen: SocketAddr,
    /// What runs besides the API.
    pub components: Components,
    /// Simulated nodes.
    pub nodes: u32,
    /// Gates of OLM v1.
    pub gates: FeatureGates,
    /// Objects to apply at the start.
    pub manifests: Vec<Value>,
}

/// A running embedded cluster.
pub struct Cluster {
    /// The API and its listener.
    pub apis: Apis,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    running: components::Running,
    registration: registration::Registration,
}

/// How long components may take to end; the API gets the rest of the five seconds (KAPI-SRV-04).
const COMPONENTS_END: Duration = Duration::from_secs(2);

impl Cluster {
    /// Starts it; `tell` hears what has come up, with the time it took.
    pub async fn start(options: Options, mut tell: impl FnMut(&str, &str, Duration)) -> Result<Self, Failure> {
        let begun = Instant::now();
        let apis = Apis::open(&options).await?;
        let kubeconfig = apis.server.write_kubeconfig(&apis.url).map_err(|error| Failure::failed("kubeconfig", &error))?;
        tell("api", &apis.url, begun.elapsed());
        let running = components::start(&apis, &options, &mut tell).await?;
        let registration = registration::Registration::write(&registration::Entry {
            pid: std::process::id(),
            server: apis.url.clone(),
            kubeconfig: kubeconfig.clone(),
            data_dir: absolute(&options.data_dir),
            components: options.components.names(),
            nodes: options.nodes,
        })?;
        Ok(Self { apis, kubeconfig, running, registration })
    }

    /// Ends it: components, watches, requests in flight, store.
    pub async fn stop(self) {
        self.registration.remove();
        self.running.end(COMPONENTS_END).await;
        self.apis.close().await;
    }
}

/// Waits for SIGINT or SIGTERM.
pub async fn signal() -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed("signals", &error);
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        outcome = tokio::signal::ctrl_c() => outcome.map_err(failed),
        _ = terminate.recv() => Ok(()),
    }
}

/// Ends the cluster; a second signal ends the process at once (KAPI-SRV-04).
pub async fn stop_unless_impatient(cluster: Cluster) -> Result<(), Failure> {
    let impatient = CancellationToken::new();
    let told = impatient.clone();
    let watching = tokio::spawn(async move {
        if signal().await.is_ok() {
            told.cancel();
        }
    });
    tokio::select! {
        () = cluster.stop() => {}
        () = impatient.cancelled() => return Err(Failure::silent(crate::errors::Exit::Failed)),
    }
    watching.abort();
    Ok(())
}

fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
