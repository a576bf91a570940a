//! The embedded cluster, composed: the only module that knows all of its parts.
//!
//! ```text
//!   data directory ─► api: store, API server, HTTPS listener ◄── /catalogs/... ──┐
//!                        │ in process                                            │
//!                        └─► components: controllers, scheduler, nodes, olm-v1 ──┘
//!   registration: where other commands find it      kubeconfig: how clients reach it
//! ```

mod alerting;
mod api;
mod catalog_names;
pub mod classic;
pub mod components;
pub mod config;
pub mod kubeconfig;
pub mod machine_config;
pub mod platform;
mod platform_release;
mod pod_images;
pub mod processes;
mod registries;
pub mod release;
pub mod simulation;
pub mod storage;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay_apiserver::admission::Plugins;
use mainstay_apiserver::remote::LocalService;
use mainstay_olm_v1_core::gates::FeatureGates;
use mainstay_runtime::leader::{self, Candidate, Times};
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use api::Apis;
pub use components::Components;

use mainstay_terminal::errors::Failure;
use mainstay_terminal::registration::{Entry, Registration};

/// Settings of an embedded cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of everything that lasts.
    pub data_dir: PathBuf,
    /// The address of the API.
    pub listen: SocketAddr,
    /// The address of catalogs, unless they are served beside the API.
    pub catalogs_listen: Option<SocketAddr>,
    /// The components that run besides the API.
    pub components: Components,
    /// Number of simulated nodes.
    pub nodes: u32,
    /// The behaviour of the simulated nodes.
    pub simulation: simulation::Arguments,
    /// The images that are programs of this machine.
    pub processes: processes::Arguments,
    /// The store of objects, and the settings of servers that share one store.
    pub sharing: storage::Sharing,
    /// The enabled admission plugins.
    pub plugins: Plugins,
    /// Services that are processes of this machine (KAPI-WL-06).
    pub local_services: Vec<LocalService>,
    /// True if admission webhooks whose pods are simulated are skipped.
    pub skip_simulated_webhooks: bool,
    /// The version of Kubernetes that the API reports (CVO-SIM-05).
    pub reported: mainstay_apiserver::ReportedVersion,
    /// Feature gates of OLM v1.
    pub gates: FeatureGates,
    /// Settings of OLM classic.
    pub classic: classic::Arguments,
    /// The platform and its networks.
    pub platform: platform::Arguments,
    /// Releases.
    pub release: release::Arguments,
    /// The config server of nodes.
    pub machine_config: machine_config::Arguments,
    /// Objects to apply at the start.
    pub manifests: Vec<Value>,
}

/// A running embedded cluster.
pub struct Cluster {
    /// The API and its listener.
    pub apis: Arc<Apis>,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    running: Parts,
    registration: Registration,
}

/// Time for components to stop; the API gets the rest of the five seconds (KAPI-SRV-04).
const COMPONENTS_END: Duration = Duration::from_secs(2);

impl Cluster {
    /// Starts the cluster; `tell` gets the name of each part that is up, and the time it took.
    pub async fn start(options: Options, mut tell: impl FnMut(&str, &str, Duration)) -> Result<Self, Failure> {
        let begun = Instant::now();
        // Other commands look for it, and for its kubeconfig, from their own working directories.
        let options = Options { data_dir: absolute(&options.data_dir), ..options };
        let apis = Arc::new(Apis::open(&options).await?);
        let kubeconfig = apis.server.write_kubeconfig(&apis.url).map_err(|error| Failure::failed("kubeconfig", &error))?;
        tell("api", &apis.url, begun.elapsed());
        let running = if options.sharing.leader_elect {
            tell("components", "on the server that holds the Lease", Duration::ZERO);
            Parts::campaign(apis.clone(), options.clone())?
        } else {
            Parts::Running(components::start(&apis, &options, &mut tell).await?)
        };
        let registration = Registration::write(&Entry {
            pid: std::process::id(),
            server: apis.url.clone(),
            kubeconfig: kubeconfig.clone(),
            data_dir: options.data_dir.clone(),
            components: options.components.names(),
            nodes: options.nodes,
        })?;
        Ok(Self { apis, kubeconfig, running, registration })
    }

    /// Stops the cluster: components, watches, requests in flight, store.
    pub async fn stop(self) {
        self.registration.remove();
        self.running.end().await;
        // The campaign, the only other holder, has stopped.
        if let Ok(apis) = Arc::try_unwrap(self.apis) {
            apis.close().await;
        } else {
            tracing::error!("the API is still in use; it is not closed politely");
        }
    }
}

/// The namespace and name of the Lease of the components, and its times.
const LEASE: (&str, &str, Times) = (
    "kube-system",
    "mainstay-components",
    Times { lease: Duration::from_secs(15), renew: Duration::from_secs(10), retry: Duration::from_secs(2) },
);

/// The components of a cluster: running, or waiting for the Lease.
enum Parts {
    Running(components::Running),
    Candidate { stop: CancellationToken, task: JoinHandle<()> },
}

impl Parts {
    /// Runs the components whenever this server holds the Lease.
    fn campaign(apis: Arc<Apis>, options: Options) -> Result<Self, Failure> {
        let client = components::client(&apis)?;
        let stop = CancellationToken::new();
        let until = stop.clone();
        let task = tokio::spawn(async move {
            let host = mainstay_apiserver::access::pki::host_name().unwrap_or_else(|| "mainstay".to_owned());
            let (namespace, name, times) = LEASE;
            let mut candidate = Candidate::new(client, namespace, name, &leader::identity(&host), times);
            while candidate.elected(&until).await {
                let mut tell = |name: &str, detail: &str, _| tracing::info!(component = name, detail, "started");
                match components::start(&apis, &options, &mut tell).await {
                    Ok(running) => {
                        candidate.hold(&until).await;
                        running.end(COMPONENTS_END).await;
                    }
                    // Another server may succeed; this one tries again when it has the Lease again.
                    Err(failure) => failure.report(),
                }
                candidate.resign().await;
                if until.is_cancelled() {
                    break;
                }
            }
        });
        Ok(Self::Candidate { stop, task })
    }

    async fn end(self) {
        match self {
            Self::Running(running) => running.end(COMPONENTS_END).await,
            Self::Candidate { stop, task } => {
                stop.cancel();
                if task.await.is_err() {
                    tracing::error!("the components ended abnormally");
                }
            }
        }
    }
}

/// SIGINT and SIGTERM, handled while this exists: before, they end the process.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts to handle the signals.
    pub fn take() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::failed("signals", &error);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Stops the cluster; a second signal ends the process at once (KAPI-SRV-04).
pub async fn stop_unless_impatient(cluster: Cluster, signals: &mut Signals) -> Result<(), Failure> {
    tokio::select! {
        () = cluster.stop() => Ok(()),
        () = signals.next() => Err(Failure::silent(mainstay_terminal::errors::Exit::Failed)),
    }
}

fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
