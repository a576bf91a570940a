//! The Machine API: machines have instances and nodes, sets have machines, unhealthy machines are replaced (MACH-RUN, MACH-DEL, MACH-SET,
//! MACH-MHC, MACH-CPMS, MACH-CSR).
//!
//! ```text
//!   MachineSet ── set ──► Machine ── machine ──► Provider: an instance ──► Node
//!   ControlPlaneMachineSet ── control_plane ──► replaces the Machines of the control plane one by one
//!   MachineHealthCheck ── health ──► deletes Machines     node_link ──► Machine knows its Node, Node gets labels and taints
//!   Machine, deleted: hooks ── draining ──► node emptied ── hooks ── machine ──► instance, Node and finalizer go
//!   Machine of the control plane ── etcd ──► hook EtcdQuorumOperator until its member is removed (the member model alone)
//!   CertificateSigningRequest of a node ── approver ──► approved if a Machine says so
//! ```
//!
//! Every decision is `mainstay-machine-core`'s; these loops read, decide and write. All state is in the cluster, so a kill at any moment is
//! continued by the next reconcile. Providers are behind [`provider::Provider`]; `simulated` is the one that the embedded cluster has, `exec`
//! lets programs be providers, and `cluster_api` has instances made by Cluster API.

mod approver;
pub mod cluster_api;
mod control_plane;
mod draining;
mod error;
mod etcd;
pub mod exec;
mod health;
pub mod hook_owner;
mod kinds;
mod machine;
mod manifests;
mod metrics;
mod node_link;
pub mod provider;
mod reports;
mod set;
mod shared;
pub mod simulated;
mod user_data;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use mainstay_apply::Writer;
use mainstay_machine_core::cloud;
use mainstay_node_agent::boot::ConfigServer;
use mainstay_runtime::{Cluster, Env, Key, Kinds, Queue};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use error::Error;
pub use kinds::NAMESPACE;
pub use manifests::{ACCOUNT, LEASE, OPERATORS, OTHER, definitions, manifests, simulation_manifests};

use crate::kinds::DEPLOYMENT;
use crate::metrics::Measures;
use crate::provider::Providers;
use crate::shared::Shared;

/// The label and annotation of objects that are played.
pub const SIMULATED: &str = "mainstay.dev/simulated";

/// The settings of the Machine API.
#[derive(Clone, Default)]
pub struct Config {
    /// The providers besides the simulated one.
    pub providers: Providers,
    /// The simulated provider is served, and its instances live. Only for the embedded cluster.
    pub simulation: Option<Simulation>,
    /// Programs that are providers, by the names that machines use (MACH-PROV-08).
    pub programs: BTreeMap<String, PathBuf>,
    /// The operators as the release that is being applied names them, where a Cluster Version Operator applies one.
    pub release: Option<watch::Receiver<Arc<[Value]>>>,
}

/// The settings of the simulated provider.
#[derive(Clone)]
pub struct Simulation {
    /// The cluster as an identity that may act as kubelets.
    pub cluster: Cluster,
    /// True if it also answers for the provider specs of clouds: a rehearsal (MACH-PROV-10).
    pub clouds: bool,
    /// The config server that instances boot from (MACH-MCS-03). Without one they boot with nothing, and nodes find their configuration later.
    pub config_server: Option<ConfigServer>,
}

/// Runs the Machine API until `stop` is cancelled.
///
/// # Errors
/// No client can be made, or a real cluster has a Machine API of its own.
pub async fn run(cluster: Cluster, env: Env, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let client = cluster.client()?;
    refuse_other(&cluster, &client).await?;
    let shared = Shared::start(&client, cluster.asking_once().client()?, &env, &stop);
    let measures = Measures::shown(&env, &shared);
    let machines: Queue<Key> = Queue::default();
    let mut tasks = JoinSet::new();
    let mut providers = config.providers;
    if !config.programs.is_empty() {
        let provider = exec::ExecProvider::new(config.programs, shared.writer.clone());
        providers = providers.with(exec::GROUP, exec::KIND, Arc::new(provider));
    }
    let by_cluster_api = cluster_api::ClusterApiProvider::new(shared.writer.clone());
    providers =
        providers.with(mainstay_machine_core::cluster_api::GROUP, mainstay_machine_core::cluster_api::KIND, Arc::new(by_cluster_api));
    tasks.spawn(cluster_api::follow(client, machines.clone(), stop.clone()));
    let is_simulated = config.simulation.is_some();
    if let Some(simulation) = &config.simulation {
        let provider = Arc::new(simulated::SimulatedProvider::new(shared.writer.clone()));
        providers = providers.with(simulated::GROUP, simulated::KIND, provider.clone());
        if simulation.clouds {
            providers = cloud::kinds().fold(providers, |providers, (group, kind)| providers.with(group, kind, provider.clone()));
        }
        let config_server = simulation.config_server.clone();
        tasks.spawn(simulated::run(simulation.cluster.client()?, env.clone(), config_server, machines.clone(), stop.clone()));
    }
    // A decision about what is not read yet would be wrong.
    shared.ready().await;
    tasks.spawn(machine::run(shared.clone(), providers, machines, measures.clone()));
    tasks.spawn(draining::run(shared.clone()));
    tasks.spawn(node_link::run(shared.clone()));
    tasks.spawn(set::run(shared.clone()));
    tasks.spawn(health::run(shared.clone(), measures));
    tasks.spawn(control_plane::run(shared.clone()));
    if is_simulated {
        tasks.spawn(etcd::run(shared.clone()));
    }
    tasks.spawn(reports::run(shared.clone(), config.release));
    tasks.spawn(approver::run(shared));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller of the Machine API ended abnormally");
        }
    }
    Ok(())
}

/// A real cluster with its own operator is left alone (MACH-PROV-12). On the embedded one a release brings the Deployment, and nothing runs in its
/// pods.
async fn refuse_other(cluster: &Cluster, client: &Client) -> Result<(), Error> {
    if cluster.is_embedded() {
        return Ok(());
    }
    let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
    match writer.get(&DEPLOYMENT.at(&Key::new(NAMESPACE, OTHER))).await? {
        Some(_) => Err(Error::Other { namespace: NAMESPACE, name: OTHER }),
        None => Ok(()),
    }
}
