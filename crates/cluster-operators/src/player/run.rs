//! The loop: it follows ClusterOperators and the manifests of the release, and writes what the state machine says.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_api::cluster_operator;
use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_objects::{ObjectRef, Patch};
use mainstay_runtime::{Cluster, Env, Kinds, Optional, Outcome, Queue};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::script::Script;
use super::status::{self, Reporter, SIMULATED};
use crate::embedded::is_embedded;
use crate::follow::follow;
use crate::{ACCOUNT, Error};

/// ClusterOperators that are reconciled concurrently.
const WORKERS: usize = 4;

/// The settings of the player.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The script.
    pub script: Script,
    /// The names of the ClusterOperators that other parts of this program report.
    pub reported: BTreeSet<String>,
}

/// Plays until `stop` is cancelled. `expected` is what the release that is being applied says of its operators, ClusterOperators among it.
///
/// # Errors
/// The cluster is not embedded, or no client of it can be made.
pub async fn run(
    cluster: Cluster,
    env: Env,
    config: Config,
    expected: watch::Receiver<Arc<[Value]>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    if !is_embedded(&cluster) {
        return Err(Error::RealCluster(cluster.server()));
    }
    let queue: Queue<Work> = Queue::default();
    let player = Arc::new(Player::start(&cluster.client()?, env.clone(), config, expected.clone(), &queue, &stop));
    queue.add(Work::All);
    let woken = queue.clone();
    let followed = follow(expected, stop.clone(), move || woken.add(Work::All));
    let reconcile = move |work: Work| {
        let player = player.clone();
        async move { player.reconcile(work).await }
    };
    let work = mainstay_runtime::run("status-player", queue, WORKERS, env, stop, reconcile);
    tokio::join!(work, followed);
    Ok(())
}

/// The items of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// Every operator of the release.
    All,
    /// One operator.
    One(String),
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => out.write_str("ClusterOperators"),
            Self::One(name) => write!(out, "ClusterOperator {name}"),
        }
    }
}

struct Player {
    writer: Writer,
    recorder: Recorder,
    env: Env,
    config: Config,
    queue: Queue<Work>,
    operators: Optional,
    expected: watch::Receiver<Arc<[Value]>>,
    /// The updates in progress: the versions they go to and when they began, by operator.
    updates: Mutex<HashMap<String, (Value, Timestamp)>>,
}

impl Player {
    fn start(
        client: &Client,
        env: Env,
        config: Config,
        expected: watch::Receiver<Arc<[Value]>>,
        queue: &Queue<Work>,
        stop: &CancellationToken,
    ) -> Self {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator"), "clusteroperators");
        let woken = queue.clone();
        let operators = Optional::start(client, resource, stop, move || woken.add(Work::All)).shown(env.metrics());
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
        Self {
            recorder: Recorder::new(writer.clone(), env.clone(), ACCOUNT, "mainstay"),
            writer,
            env,
            config,
            queue: queue.clone(),
            operators,
            expected,
            updates: Mutex::default(),
        }
    }

    async fn reconcile(&self, work: Work) -> Result<Outcome, Error> {
        match work {
            Work::All => self.all(),
            Work::One(name) => return self.one(&name).await,
        }
        Ok(Outcome::Done)
    }

    /// Wakes the operators that have something to play; the others cost no request.
    fn all(&self) {
        if self.operators.objects().is_none() {
            return;
        }
        for manifest in self.expected.borrow().iter() {
            let Some(name) = name_of(manifest).filter(|name| !self.config.reported.contains(*name)) else { continue };
            if self.operators.named(name).is_some() {
                self.queue.add(Work::One(name.to_owned()));
            }
        }
    }

    async fn one(&self, name: &str) -> Result<Outcome, Error> {
        let expected = self.expected.borrow().iter().find(|manifest| name_of(manifest) == Some(name)).cloned();
        let Some(expected) = expected else { return Ok(Outcome::Done) };
        let place = ObjectRef::of(&cluster_operator::object(name)).map_err(mainstay_apply::WriteError::from)?;
        let Some(mut live) = self.writer.get(&place).await? else { return Ok(Outcome::Done) };
        let mark = |value: Value| Patch::Merge(json!({"metadata": {"annotations": {SIMULATED: value}}}));
        match (status::reporter(&live), status::is_marked(&live)) {
            (Reporter::Other, is_marked) => {
                self.with(|updates| updates.remove(name));
                if is_marked {
                    live = self.writer.patch(&place, "", &mark(Value::Null)).await?;
                }
                if let Some(status) = status::at_versions(&live, &expected) {
                    self.writer.update_status(&live, &status).await?;
                }
                return Ok(Outcome::Done);
            }
            (Reporter::Player, true) => {}
            (Reporter::Player, false) => live = self.writer.patch(&place, "", &mark("true".into())).await?,
        }
        let now = self.env.now();
        let since = self.since(name, &live, &expected, now);
        let next = status::next_status(&live, &expected, &self.config.script.play(name), since, now);
        if self.writer.update_status(&live, &next.status).await?.is_some()
            && let Some(note) = cluster_operator::transitions(&live, &next.status)
            && let Err(error) = self.recorder.record(&live, EventKind::Normal, "OperatorStatusChanged", "Reconciling", &note)
        {
            tracing::warn!(%error, name, "an event could not be reported");
        }
        Ok(next.wait.map_or(Outcome::Done, Outcome::After))
    }

    /// The time at which the update to the manifest's versions began.
    fn since(&self, name: &str, live: &Value, expected: &Value, now: Timestamp) -> Timestamp {
        let versions = &expected["status"]["versions"];
        self.with(|updates| {
            if status::has_versions(live, expected) {
                updates.remove(name);
                return now;
            }
            match updates.get(name) {
                Some((known, since)) if known == versions => *since,
                known => {
                    // After a restart the condition tells when the update began.
                    let began = if known.is_none() { status::began(live) } else { None };
                    let since = began.unwrap_or(now);
                    updates.insert(name.to_owned(), (versions.clone(), since));
                    since
                }
            }
        })
    }

    fn with<T>(&self, what: impl FnOnce(&mut HashMap<String, (Value, Timestamp)>) -> T) -> T {
        what(&mut self.updates.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The name of a ClusterOperator; `None` for what is none.
fn name_of(manifest: &Value) -> Option<&str> {
    manifest.pointer("/metadata/name").and_then(Value::as_str).filter(|_| manifest["kind"] == "ClusterOperator")
}
