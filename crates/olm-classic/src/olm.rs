//! The OLM operator: ClusterServiceVersions, OperatorGroups, OperatorConditions and OLMConfig.
//!
//! ```text
//!   world   caches; what an object concerns is found by index, and only that is woken
//!     │
//!   Work ── Csv ───────► csv, facts, install, certificates, removal
//!        ├─ Group, Namespace ──► groups
//!        ├─ Copies, Copy, Config ──► copies
//!        ├─ Condition ──► conditions
//!        └─ Operator, Adopt ──► operators
//! ```
//!
//! Decisions are made in `olm-classic-core`; these modules gather facts and carry decisions out.

mod accounts;
mod certificates;
mod conditions;
mod copies;
mod csv;
mod error;
mod facts;
mod groups;
mod index;
mod install;
mod manifests;
mod metrics;
mod operators;
mod removal;
mod state;
mod wakes;
mod work;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use mainstay_runtime::{Cluster, Env};
use tokio_util::sync::CancellationToken;

pub use error::Error;
pub use manifests::manifests;

/// The field manager, and the name under which events are reported.
pub const MANAGER: &str = "operator-lifecycle-manager";
/// The account of the controller.
pub const ACCOUNT: &str = "olm-operator-serviceaccount";
/// The default namespace of OLM itself.
pub const NAMESPACE: &str = "openshift-operator-lifecycle-manager";
/// Its Lease, where several processes could run it.
pub const LEASE: &str = "olm-operator-lock";
/// Keys that are reconciled concurrently.
const WORKERS: usize = 4;
/// Copies that are written concurrently.
const COPIERS: usize = 4;

/// The settings of the OLM operator.
#[derive(Clone)]
pub struct Setup {
    /// The cluster, with the controller's identity.
    pub cluster: Cluster,
    /// Clock, randomness and metrics.
    pub env: Env,
    /// OLM's own namespace, by which events name their reporter.
    pub namespace: String,
    /// The only namespaces whose CSVs and groups are looked after; empty for all.
    pub watched_namespaces: Vec<String>,
    /// The namespaces that keep copies when copies are disabled (OLM0-OG-20).
    pub protected_copied_csv_namespaces: Vec<String>,
}

impl Setup {
    /// The settings of a platform with default namespaces.
    pub fn new(cluster: Cluster, env: Env) -> Self {
        Self {
            cluster,
            env,
            namespace: NAMESPACE.to_owned(),
            watched_namespaces: Vec::new(),
            protected_copied_csv_namespaces: vec!["openshift".to_owned()],
        }
    }
}

/// Runs the OLM operator until `stop` is cancelled.
pub async fn run(setup: Setup, stop: CancellationToken) -> Result<(), Error> {
    let queue = work::Queues::default();
    let env = setup.env.clone();
    let watched: BTreeSet<String> = setup.watched_namespaces.iter().cloned().collect();
    let world = Arc::new(world::World::start(&setup, watched, &queue, &stop)?);
    // Decisions about an object rest on others: nothing is decided before all are known.
    if stop.run_until_cancelled(world.ready()).await.is_none() {
        return Ok(());
    }
    let reconcile = move |work: work::Work| {
        let world = world.clone();
        async move { world.reconcile(work).await }
    };
    let copies = mainstay_runtime::run("olm-copies", queue.copies, COPIERS, env.clone(), stop.clone(), reconcile.clone());
    let main = mainstay_runtime::run("olm-operator", queue.main, WORKERS, env, stop, reconcile);
    tokio::join!(main, copies);
    Ok(())
}
