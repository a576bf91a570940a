//! One pass over the manifests of a release (CVO-SYNC-01, CVO-GRAPH-05 to CVO-GRAPH-08).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::deletion::DELETE;
use mainstay_cluster_version_core::error::{Effect, Task as TaskName, UpdateError, summarized};
use mainstay_release::{Capabilities, Filter, Manifest, Override, Reconcile, TaskGraph};

use crate::accepted::Accepted;
use crate::graph_run;
use crate::task::{Hand, TaskError, TaskFailed};

/// What is to be applied.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The generation of the ClusterVersion's spec.
    pub generation: i64,
    /// The release.
    pub release: Arc<Accepted>,
    /// The objects that are left to the administrator.
    pub overrides: Vec<Override>,
    /// The optional parts of the cluster.
    pub capabilities: Capabilities,
    /// The way in which it begins.
    pub mode: Mode,
    /// Name and uid of the ClusterVersion.
    pub owner: (String, String),
}

impl Job {
    /// Returns whether a pass over the one job does all that the other asks for (CVO-SYNC-04).
    pub fn is_same_work(&self, other: &Self) -> bool {
        self.release.image() == other.release.image()
            && self.overrides == other.overrides
            && self.capabilities == other.capabilities
            && self.owner == other.owner
    }

    /// The manifests that belong to the cluster, by their place in the release.
    pub fn included(&self) -> BTreeSet<usize> {
        let filter = Filter { capabilities: Some(&self.capabilities), overrides: &self.overrides, ..Filter::default() };
        let manifests = self.release.manifests().iter().enumerate();
        manifests.filter(|(_, manifest)| filter.exclusion(manifest).is_none()).map(|(place, _)| place).collect()
    }
}

/// The end of a pass.
#[derive(Debug)]
pub(crate) enum End {
    /// Every manifest was applied; what is only reported is said.
    Complete(Option<UpdateError>),
    /// Something failed.
    Failed(UpdateError),
    /// It was stopped, and nothing failed before.
    Stopped,
}

/// Applies every manifest of the job. `progress` hears how many are done, `failed` of every failed attempt.
pub(crate) async fn run(hand: Hand<'_>, job: &Job, attempt: u32, progress: impl Fn(usize), failed: impl Fn(&Manifest, &TaskError)) -> End {
    let manifests = job.release.manifests();
    let (included, total) = (job.included(), manifests.len());
    let mode = match hand.mode {
        Mode::Initializing => mainstay_release::Mode::Initializing,
        Mode::Updating => mainstay_release::Mode::Updating,
        Mode::Reconciling => mainstay_release::Mode::Reconciling(Reconcile { attempt }),
    };
    let graph = TaskGraph::new(manifests, mode);
    let done = Mutex::new(0_usize);
    let reported = Mutex::new(Vec::new());
    // A pass has its own end, so that its limit does not stop the operator.
    let stop = hand.stop.child_token();
    let hand = Hand { stop: &stop, ..hand };
    let node = |number: usize| {
        let (graph, included, done, reported, progress, failed) = (&graph, &included, &done, &reported, &progress, &failed);
        async move {
            let tasks = || graph.nodes()[number].tasks.iter().copied().filter(|task| included.contains(task));
            for task in tasks().filter(|task| is_cluster_operator(&manifests[*task])) {
                hand.precreate(&manifests[task]).await;
            }
            for task in tasks() {
                if hand.stop.is_cancelled() {
                    return Err(TaskFailed::Interrupted);
                }
                let manifest = &manifests[task];
                match hand.apply(manifest, task + 1, total, |error| failed(manifest, error)).await {
                    Err(TaskFailed::Failed(error)) if error.effect() == Some(Effect::Report) => {
                        reported.lock().unwrap_or_else(PoisonError::into_inner).push(TaskFailed::Failed(error));
                    }
                    other => other?,
                }
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                *done += 1;
                progress(*done);
            }
            Ok(())
        }
    };
    let work = graph_run::run(&graph, mode.workers(graph.nodes().len()), &stop, node);
    tokio::pin!(work);
    let mut is_late = false;
    let outcome = tokio::select! {
        outcome = &mut work => outcome,
        () = tokio::time::sleep(hand.pace.limit(hand.mode)) => {
            is_late = true;
            stop.cancel();
            work.await
        }
    };
    let mut failures = outcome.errors;
    let has_failed = failures.iter().any(|failure| matches!(failure, TaskFailed::Failed(_)));
    if !has_failed && !outcome.incomplete.is_empty() {
        let first = outcome.incomplete.iter().flat_map(|node| &graph.nodes()[*node].tasks).next();
        match first {
            // A pass that took too long tells how far it came.
            Some(&first) if is_late => {
                let id = manifests[first].id();
                let (kind, namespace, name) = (id.kind.clone(), id.namespace.clone(), id.name.clone());
                let first = TaskName { kind, namespace, name, index: first + 1, total };
                failures.push(TaskFailed::Failed(UpdateError::Incomplete { nodes: outcome.incomplete.len(), first }));
                failures.push(TaskFailed::Failed(UpdateError::DeadlineExceeded));
            }
            _ => return End::Stopped,
        }
    }
    failures.append(&mut reported.lock().unwrap_or_else(PoisonError::into_inner));
    let is_complete = outcome.incomplete.is_empty();
    match summarized(failures) {
        error if is_complete => End::Complete(error),
        Some(error) => End::Failed(error),
        None => End::Stopped,
    }
}

/// Returns whether it is a ClusterOperator that the release has; a tombstone is none.
pub(crate) fn is_cluster_operator(manifest: &Manifest) -> bool {
    let id = manifest.id();
    (id.group.as_str(), id.kind.as_str()) == ("config.openshift.io", "ClusterOperator") && manifest.annotation(DELETE).is_none()
}
