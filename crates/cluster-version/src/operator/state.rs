//! The operator: its settings, its hands, and the state since its start.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use kube::Client;
use mainstay_api::config_v1::{Release, StatusCondition};
use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_cluster_version_core::activity::Activity;
use mainstay_cluster_version_core::load::{Event, EventType, Load};
use mainstay_cluster_version_core::wanted::Wanted;
use mainstay_runtime::{Env, Kinds, Outcome, Queue};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::observed::Observed;
use super::{Config, NAME};
use crate::accepted::Accepted;
use crate::metrics::Metrics;
use crate::pace::Reports;
use crate::pass::Job;
use crate::updates::Retrieval;
use crate::worker::Shared;
use crate::{ACCOUNT, Error, NAMESPACE};

/// The parts of the status, each kept by itself (CVO-SYNC-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// The wish, the release in force, and the status as a whole.
    Sync,
    /// Condition Upgradeable.
    Upgradeable,
    /// Available updates.
    Updates,
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Sync => "ClusterVersion version",
            Self::Upgradeable => "Upgradeable",
            Self::Updates => "available updates",
        })
    }
}

/// The operator.
pub(super) struct Operator {
    pub config: Config,
    pub writer: Writer,
    pub env: Env,
    pub queue: Queue<Part>,
    pub recorder: Recorder,
    pub shared: Arc<Shared>,
    pub metrics: Arc<Metrics>,
    pub jobs: watch::Sender<Option<Arc<Job>>>,
    pub observed: Observed,
    pub state: Mutex<State>,
    /// The pullspec of the operator's own release; set when a ClusterVersion is seen first.
    pub own_image: OnceLock<String>,
    /// Ends this turn of the operator.
    pub stop: CancellationToken,
}

/// The state since the start.
#[derive(Default)]
pub(super) struct State {
    /// The release in force.
    pub running: Option<Arc<Accepted>>,
    /// The feature set that it was loaded for.
    pub feature_set: Option<String>,
    /// The loading of the wish.
    pub load: Load,
    /// The attempt at a release, running or ended.
    pub attempt: Option<Attempt>,
    pub upgradeable: Vec<StatusCondition>,
    pub evaluated: Option<Timestamp>,
    pub failures: u32,
    pub reports: Reports,
    pub activity: Activity,
    pub retrieval: Retrieval,
}

/// An attempt to accept a release.
pub(super) struct Attempt {
    pub wanted: Wanted,
    pub generation: i64,
    pub stop: CancellationToken,
    pub ended: Option<Timestamp>,
}

impl Operator {
    pub fn start(
        client: &Client,
        env: Env,
        config: Config,
        queue: &Queue<Part>,
        jobs: watch::Sender<Option<Arc<Job>>>,
        stop: &CancellationToken,
    ) -> Self {
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
        let shared = Arc::new(Shared::default());
        Self {
            observed: Observed::start(client, &env, config.is_hosted, queue, stop),
            recorder: Recorder::new(writer.clone(), env.clone(), NAMESPACE, "mainstay"),
            metrics: Arc::default(),
            queue: queue.clone(),
            state: Mutex::default(),
            own_image: OnceLock::new(),
            stop: stop.clone(),
            config,
            writer,
            env,
            shared,
            jobs,
        }
    }

    /// Counts the transitions of conditions as they are seen, and wakes the worker when an operator did what it may wait for.
    pub fn note_conditions(&self) -> Result<(), Error> {
        let operators = self.observed.cluster_operators()?.unwrap_or_default();
        if self.state().activity.observe(&operators) {
            self.shared.wake.notify_one();
        }
        for operator in &operators {
            self.metrics.seen(operator.metadata.name.as_deref().unwrap_or_default(), &operator.status.conditions);
        }
        if let Some((_, cluster_version)) = self.observed.cluster_version()? {
            self.metrics.seen(NAME, &cluster_version.status.conditions);
        }
        Ok(())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn reconcile(self: Arc<Self>, part: Part) -> Result<Outcome, Error> {
        let outcome = match part {
            Part::Sync => self.clone().sync().await,
            Part::Upgradeable => self.evaluate_upgradeable(),
            Part::Updates => self.updates().await,
        };
        if part == Part::Sync {
            match &outcome {
                Ok(_) => self.state().failures = 0,
                Err(error) => self.failed(error).await,
            }
        }
        outcome
    }

    /// The operator's own release, as far as it is known.
    pub fn own(&self) -> Release {
        let state = self.state();
        let image = self.own_image.get().map_or("", String::as_str);
        let running = state.running.as_ref().filter(|running| running.image() == image);
        running.map_or_else(|| Release { image: image.to_owned(), ..Release::default() }, |running| running.release())
    }

    pub fn event(&self, subject: &Value, event: &Event) {
        let kind = match event.kind {
            EventType::Normal => EventKind::Normal,
            EventType::Warning => EventKind::Warning,
        };
        if let Err(error) = self.recorder.record(subject, kind, event.reason, "Update", &event.message) {
            tracing::debug!(%error, "no event");
        }
    }
}
