//! The parts of kube-controller-manager, kube-scheduler and kubelet that operators' lifecycles need. Every controller is an
//! ordinary client of the API; nothing here depends on whether the API is embedded.
//!
//! ```text
//!   World (one live copy a kind) ──► controllers: deployment, replicaset, garbage collection, namespaces, accounts, roles ...
//!                                ──► scheduler: binds pods to nodes
//!                                ──► nodes: simulated kubelets
//! ```
//! Requirements: KAPI-WL-01..04, KAPI-AUTH-03.

mod aggregation;
pub mod api;
pub mod autoscaler;
mod budgets;
pub mod certificates;
pub mod claim;
pub mod cronjob;
pub mod daemonset;
pub mod deployment;
mod discovery;
mod endpoints;
mod error;
pub mod events;
pub mod gc;
pub mod hash;
pub mod job;
pub mod lifecycle;
pub mod live;
mod namespaces;
pub mod node;
pub mod object;
pub mod pod;
mod quota;
pub mod replicaset;
mod revision;
pub mod scheduler;
mod service_accounts;
pub mod statefulset;
pub mod volumes;
mod world;

use std::sync::Arc;
use std::time::Duration;

use mainstay_runtime::{Cluster, Env};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use error::{Error, Result};

pub use crate::certificates::issue::Authority;
use crate::discovery::Discovery;
pub use crate::node::behaviour::{ImageFault, Script, duration};
use crate::node::images::Images;
pub use crate::node::images::{PullError, Registries};
pub use crate::node::object::NODE_ANNOTATIONS;
pub use crate::node::process;
pub use crate::node::pulls::{ImagePuller, Pulled};
use crate::replicaset::Flavour;
use crate::scheduler::Followed;
use crate::volumes::Storage;
use crate::world::World;

/// The components to run, and their settings.
#[derive(Clone)]
pub struct Options {
    /// Runs the controllers.
    pub controllers: bool,
    /// Runs the scheduler, which binds pods to nodes.
    pub scheduler: bool,
    /// Simulates nodes.
    pub nodes: bool,
    /// The number of simulated nodes that are there from the start; instances of the simulated provider bring more.
    pub node_count: u32,
    /// The behaviour of simulated pods.
    pub script: Script,
    /// The registries that are asked if images exist; without them every image exists.
    pub registries: Option<Arc<dyn Registries>>,
    /// The programs of this machine that stand for images; without them every container is simulated.
    pub machine: Option<process::Machine>,
    /// The pulls of images whose content matters, and the work of the containers that read it; without it all containers are simulated.
    pub puller: Option<Arc<dyn ImagePuller>>,
    /// The CA's certificate (PEM), which every namespace receives.
    pub ca_pem: Vec<u8>,
    /// The CA that signs CertificateSigningRequests; without it none is signed.
    pub authority: Option<Arc<Authority>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: true,
            scheduler: true,
            nodes: true,
            node_count: 3,
            script: Script::default(),
            registries: None,
            machine: None,
            puller: None,
            ca_pem: Vec::new(),
            authority: None,
        }
    }
}

/// The time that components have to finish their current work after `stop`.
const END_WITHIN: Duration = Duration::from_millis(500);
/// The same, if processes of this machine are to end, too.
const PROCESSES_END_WITHIN: Duration = Duration::from_millis(1_700);

/// Runs the selected components until `stop` is cancelled.
pub async fn run(cluster: Cluster, options: Options, env: Env, stop: CancellationToken) -> Result<()> {
    if !options.controllers && !options.scheduler && !options.nodes {
        return Ok(());
    }
    let end_within = if options.machine.is_some() { PROCESSES_END_WITHIN } else { END_WITHIN };
    let world = World::start(cluster.client()?, env, stop.clone());
    let mut components = JoinSet::new();
    if options.controllers || options.scheduler {
        let followed = Followed {
            namespaces: world.follow("v1", "Namespace", "namespaces", false),
            budgets: world.follow("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
            storage: Storage::follow(&world),
        };
        if options.controllers {
            start_controllers(&world, &options, &followed, &mut components);
        }
        if options.scheduler {
            components.spawn(scheduler::run(world.clone(), followed));
        }
    }
    if options.nodes {
        let place = node::Options { images: Images::new(options.registries), machine: options.machine, puller: options.puller };
        components.spawn(node::run(world.clone(), options.node_count, options.script, place));
    }
    // A component that still waits for its first list at the stop would wait for ever. Cutting it off is the same as a crash.
    let patience = async {
        stop.cancelled().await;
        tokio::time::sleep(end_within).await;
    };
    tokio::select! {
        () = all_of(&mut components) => {}
        () = patience => {}
    }
    Ok(())
}

async fn all_of(components: &mut JoinSet<()>) {
    while let Some(ended) = components.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a component ended abnormally");
        }
    }
}

fn start_controllers(world: &World, options: &Options, followed: &Followed, components: &mut JoinSet<()>) {
    let Followed { namespaces, budgets, storage } = followed.clone();
    let accounts = world.follow("v1", "ServiceAccount", "serviceaccounts", true);
    let replicasets = world.follow("apps/v1", "ReplicaSet", "replicasets", true);
    let deployments = world.follow("apps/v1", "Deployment", "deployments", true);
    let controllers = world.follow("v1", "ReplicationController", "replicationcontrollers", true);
    let cronjobs = world.follow("batch/v1", "CronJob", "cronjobs", true);
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
    components.spawn(cronjob::run(world.clone(), cronjobs.clone(), jobs.clone()));
    components.spawn(statefulset::run(world.clone(), statefulsets.clone(), revisions.clone(), storage.claims.clone()));
    components.spawn(daemonset::run(world.clone(), daemonsets.clone(), revisions.clone()));
    components.spawn(endpoints::run(world.clone()));
    let scaled = vec![replicasets.clone(), deployments.clone(), controllers.clone(), statefulsets.clone()];
    components.spawn(budgets::run(world.clone(), budgets.clone(), scaled));
    components.spawn(deployment::run(world.clone(), deployments.clone(), replicasets.clone()));
    components.spawn(aggregation::run(world.clone()));
    components.spawn(autoscaler::run(world.clone(), discovery.clone()));
    components.spawn(quota::run(world.clone(), discovery.clone()));
    components.spawn(lifecycle::run(world.clone()));
    components.spawn(volumes::run(world.clone(), storage.clone()));
    components.spawn(certificates::run(world.clone(), options.authority.clone()));
    let mut shared = vec![world.pods.clone(), world.nodes.clone(), namespaces, accounts, replicasets, deployments];
    shared.extend([budgets, storage.claims, storage.volumes, storage.classes]);
    shared.extend([controllers, cronjobs, jobs, statefulsets, daemonsets, revisions]);
    components.spawn(gc::run(world.clone(), discovery, shared));
}
