//! The cluster autoscaler: sets of machines grow for pods that the scheduler finds no node for, and shrink when nodes are not needed (COP-04,
//! COP-CAS-01 to COP-CAS-05, MACH-SET-06).
//!
//! ```text
//!   MachineAutoscaler ── targets ──► bounds and owner on its MachineSet
//!   ClusterAutoscaler default ── scaler: every 10 s ── look ──► Snapshot, Rehearsed (the scheduler's own filter)
//!                                                     plan (autoscaler-core) ── act ──► replicas, marks on Machines, events
//!                                                     ConfigMap cluster-autoscaler-status, metrics      ClusterOperator ◄── report
//! ```
//!
//! Every decision is `mainstay-autoscaler-core`'s. Nodes are removed by way of their machines, so that hooks and drains apply (MACH-DEL). While there is
//! no ClusterAutoscaler, no pod or node is watched.

mod act;
mod error;
mod kinds;
mod look;
mod manifests;
mod metrics;
pub mod rehearsal;
mod report;
mod scaler;
mod shared;
mod targets;

use std::sync::Arc;

use mainstay_apply::Writer;
use mainstay_runtime::{Cluster, Env, Key, Kinds};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use error::Error;
pub use kinds::NAMESPACE;
pub use manifests::{ACCOUNT, LEASE, OPERATOR, OTHER, definitions, manifests, permissions};

use crate::shared::Shared;

/// The settings of a process.
#[derive(Clone, Default)]
pub struct Config {
    /// The namespace in which sets are scaled; [`NAMESPACE`] unless set.
    pub namespace: Option<String>,
    /// The operators as the release that is being applied names them, where a Cluster Version Operator applies one.
    pub release: Option<watch::Receiver<Arc<[Value]>>>,
}

/// Runs the autoscaler until `stop` is cancelled.
///
/// # Errors
/// No client can be made, or a real cluster has an autoscaler of its own.
pub async fn run(cluster: Cluster, env: Env, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let client = cluster.client()?;
    let writer = Writer::new(client.clone(), Kinds::new(client), ACCOUNT);
    // On the embedded cluster a release brings the Deployment, and nothing runs in its pods.
    if !cluster.is_embedded() && writer.get(&DEPLOYMENT.at(&Key::new(NAMESPACE, OTHER))).await?.is_some() {
        return Err(Error::Other { namespace: NAMESPACE, name: OTHER });
    }
    let namespace = config.namespace.unwrap_or_else(|| NAMESPACE.to_owned());
    let shared = Shared { writer, env, stop, namespace };
    let mut tasks = JoinSet::new();
    tasks.spawn(targets::run(shared.clone()));
    tasks.spawn(report::run(shared.clone(), config.release));
    tasks.spawn(scaler::run(shared));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a part of the autoscaler ended abnormally");
        }
    }
    Ok(())
}

const DEPLOYMENT: kinds::KnownKind = kinds::KnownKind { api_version: "apps/v1", kind: "Deployment", plural: "deployments" };
