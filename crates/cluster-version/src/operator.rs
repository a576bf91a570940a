//! The loop over the ClusterVersion: its wish, the release in force, and its status.

mod acceptance;
mod observed;
mod samples;
mod state;
mod sync;
mod updates;
mod upgradeable;

use std::fmt;
use std::sync::Arc;

use kube::Client;
use mainstay_cluster_version_core::stand_in::Candidate;
use mainstay_runtime::{Cluster, Env, Kinds, Queue};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::state::{Operator, Part};
use crate::Error;
use crate::metrics::Page;
use crate::pace::Pace;
use crate::source::Releases;
use crate::updates::UpdateService;
use crate::worker::Worker;

/// The name of the ClusterVersion that counts (CVO-API-01).
pub(crate) const NAME: &str = "version";
const API_VERSION: &str = "config.openshift.io/v1";
/// Keys that are worked on at once.
const WORKERS: usize = 3;

/// The settings of the operator.
#[derive(Clone)]
pub struct Config {
    /// The pullspec of the operator's own release while the ClusterVersion does not say at which one the cluster is; with `None` that is the one
    /// that the ClusterVersion asks for.
    pub release_image: Option<String>,
    /// Where releases come from.
    pub releases: Arc<dyn Releases>,
    /// The update service and the metrics.
    pub updates: Arc<dyn UpdateService>,
    /// The endpoint that wins over the ClusterVersion's.
    pub update_service: Option<String>,
    /// Every recommended update is taken, the highest version first (CVO-AUTO-01).
    pub is_automatic: bool,
    /// The profile of the cluster.
    pub profile: String,
    /// The identifier of the installation whose exclusions count.
    pub exclude_identifier: String,
    /// Capabilities that are enabled in any case.
    pub always_enabled: Vec<String>,
    /// The control plane runs elsewhere: the API's internal address is left alone.
    pub is_hosted: bool,
    /// Operators are played: what they would make and a release takes for granted is made here, and says that it is simulated.
    pub plays: bool,
    /// Objects that the played operators would make beside it: settings and their definitions.
    pub candidates: Arc<[Candidate]>,
    /// The times.
    pub pace: Pace,
    /// Gets what the release in force says of its operators: ClusterOperators, and FeatureGates by feature set.
    pub expected: watch::Sender<Arc<[Value]>>,
}

impl fmt::Debug for Config {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Config").field("release_image", &self.release_image).field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// Runs until `stop` is cancelled. When the feature set changes the operator starts anew, as the set of manifests is another (CVO-INC-04).
///
/// # Errors
/// No client of the cluster can be made.
pub async fn run(cluster: Cluster, env: Env, config: Config, stop: CancellationToken) -> Result<(), Error> {
    while !stop.is_cancelled() {
        let turn = stop.child_token();
        run_once(&cluster.client()?, env.clone(), config.clone(), &turn).await;
        turn.cancel();
    }
    Ok(())
}

async fn run_once(client: &Client, env: Env, config: Config, stop: &CancellationToken) {
    let queue: Queue<Part> = Queue::default();
    let (jobs, received) = watch::channel(None);
    let operator = Arc::new(Operator::start(client, env.clone(), config, &queue, jobs, stop));
    env.metrics().register(|registry| registry.register_collector(Box::new(Page(Arc::downgrade(&operator)))));
    let worker = Worker {
        writer: operator.writer.clone(),
        kinds: Kinds::new(client.clone()),
        env: env.clone(),
        pace: operator.config.pace,
        shared: operator.shared.clone(),
        metrics: operator.metrics.clone(),
        plays: operator.config.plays,
        candidates: operator.config.candidates.clone(),
        stand_ins: std::sync::Mutex::default(),
        reported: Box::new({
            let operator = operator.clone();
            move || operator.reported()
        }),
    };
    let working = tokio::spawn({
        let stop = stop.clone();
        async move { worker.run(received, stop).await }
    });
    for key in [Part::Sync, Part::Upgradeable, Part::Updates] {
        queue.add(key);
    }
    let reconcile = move |key: Part| {
        let operator = operator.clone();
        async move { operator.reconcile(key).await }
    };
    mainstay_runtime::run("cluster-version", queue, WORKERS, env, stop.clone(), reconcile).await;
    if let Err(error) = working.await {
        tracing::error!(%error, "the worker of the Cluster Version Operator ended");
    }
}
