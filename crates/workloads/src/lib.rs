//! What kube-controller-manager, kube-scheduler and kubelet do, as far as operators' lifecycles need it. Every controller is an
//! ordinary client of the API; nothing here knows whether the API is embedded.
//!
//! ```text
//!   World (one live copy a kind) ──► controllers: deployment, replicaset, garbage collection, namespaces, accounts, roles ...
//!                                ──► scheduler: binds pods to nodes
//!                                ──► nodes: simulated kubelets
//! ```
//! Requirements: KAPI-WL-01..04, KAPI-AUTH-03.

mod aggregation;
pub mod api;
mod budgets;
pub mod claim;
pub mod daemonset;
pub mod deployment;
mod discovery;
mod endpoints;
mod error;
mod events;
pub mod gc;
pub mod hash;
pub mod job;
pub mod live;
mod namespaces;
pub mod node;
pub mod object;
pub mod pod;
pub mod replicaset;
mod revision;
pub mod scheduler;
mod service_accounts;
pub mod statefulset;
mod world;

use std::time::Duration;

use mainstay_runtime::{Cluster, Env};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use error::{Error, Result};

use crate::discovery::Discovery;
use crate::replicaset::Flavour;
use crate::world::World;

/// Which components run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the controllers run.
    pub controllers: bool,
    /// Whether pods are bound to nodes.
    pub scheduler: bool,
    /// Whether nodes are simulated.
    pub nodes: bool,
    /// How many.
    pub node_count: u32,
    /// How long a pod takes to start.
    pub start_delay: Duration,
    /// The CA's certificate (PEM), which every namespace gets.
    pub ca_pem: Vec<u8>,
}

impl Default for Options {
    fn default() -> Self {
        Self { controllers: true, scheduler: true, nodes: true, node_count: 3, start_delay: Duration::ZERO, ca_pem: Vec::new() }
    }
}

/// Runs the components asked for until `stop`.
pub async fn run(cluster: Cluster, options: Options, env: Env, stop: CancellationToken) -> Result<()> {
    if !options.controllers && !options.scheduler && !options.nodes {
        return Ok(());
    }
    let world = World::start(cluster.client()?, env, stop.clone());
    let mut components = JoinSet::new();
    if options.controllers {
        start_controllers(&world, &options, &mut components);
    }
    if options.scheduler {
        components.spawn(scheduler::run(world.clone()));
    }
    if options.nodes && options.node_count > 0 {
        components.spawn(node::run(world.clone(), options.node_count, options.start_delay));
    }
    while let Some(ended) = components.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a component ended abnormally");
        }
    }
    Ok(())
}

fn start_controllers(world: &World, options: &Options, components: &mut JoinSet<()>) {
    let namespaces = world.follow("v1", "Namespace", "namespaces", false);
    let accounts = world.follow("v1", "ServiceAccount", "serviceaccounts", true);
    let replicasets = world.follow("apps/v1", "ReplicaSet", "replicasets", true);
    let deployments = world.follow("apps/v1", "Deployment", "deployments", true);
    let controllers = world.follow("v1", "ReplicationController", "replicationcontrollers", true);
    let jobs = world.follow("batch/v1", "Job", "jobs", true);
    let statefulsets = world.follow("apps/v1", "StatefulSet", "statefulsets", true);
    let daemonsets = world.follow("apps/v1", "DaemonSet", "daemonsets", true);
    let revisions = world.follow("apps/v1", "ControllerRevision", "controllerrevisions", true);
    let discovery = Discovery::new(world.api.client().clone());
    let ca = options.ca_pem.clone();
    let (w, n, a) = (world.clone(), namespaces.clone(), accounts.clone());
    components.spawn(async move { service_accounts::run_namespaces(w, n, a, &ca).await });
    let ca = options.ca_pem.clone();
    let (w, a) = (world.clone(), accounts.clone());
    components.spawn(async move { service_accounts::run_tokens(w, a, &ca).await });
    components.spawn(namespaces::run(world.clone(), namespaces.clone(), discovery.clone()));
    components.spawn(replicaset::run(world.clone(), replicasets.clone(), Flavour::ReplicaSet));
    components.spawn(replicaset::run(world.clone(), controllers.clone(), Flavour::ReplicationController));
    components.spawn(job::run(world.clone(), jobs.clone()));
    components.spawn(statefulset::run(world.clone(), statefulsets.clone(), revisions.clone()));
    components.spawn(daemonset::run(world.clone(), daemonsets.clone(), revisions.clone()));
    components.spawn(endpoints::run(world.clone()));
    let scaled = vec![replicasets.clone(), deployments.clone(), controllers.clone(), statefulsets.clone()];
    components.spawn(budgets::run(world.clone(), scaled));
    components.spawn(deployment::run(world.clone(), deployments.clone(), replicasets.clone()));
    components.spawn(aggregation::run(world.clone()));
    let mut shared = vec![world.pods.clone(), world.nodes.clone(), namespaces, accounts, replicasets, deployments];
    shared.extend([controllers, jobs, statefulsets, daemonsets, revisions]);
    components.spawn(gc::run(world.clone(), discovery, shared));
}
