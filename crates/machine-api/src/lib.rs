//! The Machine API: machines have instances and nodes, sets have machines, unhealthy machines are replaced (MACH-RUN, MACH-DEL, MACH-SET,
//! MACH-MHC, MACH-CSR).
//!
//! ```text
//!   MachineSet ── set ──► Machine ── machine ──► Provider: an instance ──► Node
//!   MachineHealthCheck ── health ──► deletes Machines     node_link ──► Machine knows its Node, Node gets labels and taints
//!   Machine, deleted: hooks ── draining ──► node emptied ── hooks ── machine ──► instance, Node and finalizer go
//!   CertificateSigningRequest of a node ── approver ──► approved if a Machine says so
//! ```
//!
//! Every decision is `mainstay-machine-core`'s; these loops read, decide and write. All state is in the cluster, so a kill at any moment is
//! continued by the next reconcile. Providers are behind [`provider::Provider`]; `simulated` is the one that the embedded cluster has.

mod approver;
mod draining;
mod error;
mod health;
mod kinds;
mod machine;
mod manifests;
mod metrics;
mod node_link;
pub mod provider;
mod set;
mod shared;
pub mod simulated;

use std::sync::Arc;

use mainstay_runtime::{Cluster, Env, Key, Queue};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use error::Error;
pub use kinds::NAMESPACE;
pub use manifests::{ACCOUNT, LEASE, definitions, manifests, simulation_manifests};

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
    /// The cluster as an identity that may act as kubelets: the simulated provider is served, and its instances live. Only for the embedded
    /// cluster.
    pub simulation: Option<Cluster>,
}

/// Runs the Machine API until `stop` is cancelled.
///
/// # Errors
/// No client can be made.
pub async fn run(cluster: Cluster, env: Env, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let shared = Shared::start(&cluster.client()?, &env, &stop);
    let measures = Measures::shown(&env, &shared);
    let machines: Queue<Key> = Queue::default();
    let mut tasks = JoinSet::new();
    let mut providers = config.providers;
    if let Some(simulation) = &config.simulation {
        let provider = simulated::SimulatedProvider::new(shared.writer.clone());
        providers = providers.with(simulated::GROUP, simulated::KIND, Arc::new(provider));
        tasks.spawn(simulated::run(simulation.client()?, env.clone(), machines.clone(), stop.clone()));
    }
    // A decision about what is not read yet would be wrong.
    shared.ready().await;
    tasks.spawn(machine::run(shared.clone(), providers, machines, measures.clone()));
    tasks.spawn(draining::run(shared.clone()));
    tasks.spawn(node_link::run(shared.clone()));
    tasks.spawn(set::run(shared.clone()));
    tasks.spawn(health::run(shared.clone(), measures));
    tasks.spawn(approver::run(shared));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller of the Machine API ended abnormally");
        }
    }
    Ok(())
}
