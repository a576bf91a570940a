//! The controller: it watches the inputs of the plan, and carries the plan out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use mainstay_api::cluster_operator::{self, Inertia};
use mainstay_apply::{EventKind, Reason, Recorder, WriteError, Writer};
use mainstay_diagnostics::chain;
use mainstay_objects::ObjectRef;
use mainstay_olm_classic_core::hub::{self, DefaultCatalog};
use mainstay_runtime::{Cluster, Env, Kinds, Optional, Outcome, Queue};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::report::{self, Facts};
use crate::{ACCOUNT, Error};

/// The name of the ClusterOperator.
const OPERATOR: &str = "marketplace";
/// The interval at which everything is looked at, beside changes.
const LOOK: Duration = Duration::from_secs(3600);

/// The settings of the marketplace.
#[derive(Clone, Debug)]
pub struct Config {
    /// The default catalogs.
    pub catalogs: Vec<DefaultCatalog>,
    /// The release that the cluster runs, such as `4.19.0`; a change of it changes the images of the default catalogs (OLM0-HUB-11).
    pub release: watch::Receiver<String>,
}

/// Runs the marketplace until `stop` is cancelled.
///
/// # Errors
/// No client of the cluster can be made.
pub async fn run(cluster: Cluster, env: Env, config: Config, stop: CancellationToken) -> Result<(), Error> {
    run_as(cluster.client()?, env, config, stop).await;
    Ok(())
}

/// Runs the marketplace with a client of its own account until `stop` is cancelled.
pub async fn run_as(client: Client, env: Env, config: Config, stop: CancellationToken) {
    let queue: Queue<Work> = Queue::default();
    let mut release = config.release.clone();
    let marketplace = Arc::new(Marketplace::start(&client, env.clone(), config, &queue, &stop));
    queue.add(Work::Catalogs);
    let woken = queue.clone();
    let follow = async move {
        // Ends when the release can no longer change.
        while release.changed().await.is_ok() {
            woken.add(Work::Catalogs);
        }
        std::future::pending::<()>().await;
    };
    let reconcile = move |work: Work| {
        let marketplace = marketplace.clone();
        async move { marketplace.reconcile(work).await }
    };
    tokio::select! {
        () = mainstay_runtime::run("marketplace", queue, 1, env, stop, reconcile) => {}
        () = follow => {}
    }
}

/// The items of the work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// The default catalogs and the status of the OperatorHub.
    Catalogs,
    /// The ClusterOperator.
    Report,
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Catalogs => out.write_str("OperatorHub cluster"),
            Self::Report => write!(out, "ClusterOperator {OPERATOR}"),
        }
    }
}

struct Marketplace {
    writer: Writer,
    env: Env,
    config: Config,
    queue: Queue<Work>,
    hubs: Optional,
    sources: Optional,
    operators: Optional,
    recorder: Recorder,
    state: Mutex<State>,
}

/// The state since the start.
#[derive(Default)]
struct State {
    facts: Facts,
    inertia: Inertia,
}

impl Marketplace {
    fn start(client: &Client, env: Env, config: Config, queue: &Queue<Work>, stop: &CancellationToken) -> Self {
        let optional = |group: &str, version: &str, kind: &str, plural: &str, work: Work| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let woken = queue.clone();
            Optional::start(client, resource, stop, move || woken.add(work)).shown(env.metrics())
        };
        let writer = Writer::new(client.clone(), Kinds::new(client.clone()), ACCOUNT);
        Self {
            hubs: optional("config.openshift.io", "v1", "OperatorHub", "operatorhubs", Work::Catalogs),
            sources: optional("operators.coreos.com", "v1alpha1", "CatalogSource", "catalogsources", Work::Catalogs),
            operators: optional("config.openshift.io", "v1", "ClusterOperator", "clusteroperators", Work::Report),
            recorder: Recorder::new(writer.clone(), env.clone(), ACCOUNT, "mainstay"),
            writer,
            env,
            config,
            queue: queue.clone(),
            state: Mutex::default(),
        }
    }

    async fn reconcile(&self, work: Work) -> Result<Outcome, Error> {
        match work {
            Work::Catalogs => {
                let release = self.config.release.borrow().clone();
                match self.catalogs(&release).await {
                    Ok(None) => Ok(Outcome::Done),
                    Ok(Some(wait)) => {
                        self.note(&release, None);
                        Ok(Outcome::After(wait))
                    }
                    // A write that came between; the next attempt sees it.
                    Err(Error::Write(error)) if is_conflict(&error) => Err(error.into()),
                    Err(error) => {
                        self.note(&release, Some(chain(&error)));
                        Err(error)
                    }
                }
            }
            Work::Report => self.report().await,
        }
    }

    /// Makes the default catalogs what they should be. `None` as long as it is not known what is wanted; what is missing wakes this item.
    async fn catalogs(&self, release: &str) -> Result<Option<Duration>, Error> {
        if !self.hubs.is_known() || !self.sources.is_known() || self.sources.objects().is_none() {
            return Ok(None);
        }
        if self.hubs.named(hub::NAME).is_none() {
            return Ok(None);
        }
        let definitions = hub::definitions(&self.config.catalogs, release)?;
        // Caches lag behind; a plan is made of what is there now.
        let Some(hub) = self.writer.get(&hub_place()).await? else { return Ok(None) };
        let mut live = Vec::new();
        for definition in &definitions {
            live.extend(self.writer.get(&ObjectRef::of(definition)?).await?);
        }
        let mut failures = BTreeMap::new();
        for change in hub::plan(&hub, &definitions, &live)? {
            match self.writer.execute(&[change.step], |_| {}).await {
                Ok(_) => tracing::info!(catalog = change.catalog, "a default catalog was changed to what it should be"),
                Err(failed) => drop(failures.insert(change.catalog, failed.error.to_string())),
            }
        }
        self.writer.update_status(&hub, &hub::status(&hub, &definitions, &failures)).await?;
        let Some(message) = failures.values().next().cloned() else { return Ok(Some(LOOK)) };
        Err(Error::Catalogs { names: failures.into_keys().collect(), message })
    }

    /// Records the outcome, and wakes the report if it changed.
    fn note(&self, release: &str, failing: Option<String>) {
        let changed = self.with(|state| {
            let reached = if failing.is_none() { Some(release.to_owned()) } else { state.facts.release.clone() };
            let facts = Facts { release: reached, failing };
            std::mem::replace(&mut state.facts, facts.clone()) != facts
        });
        if changed {
            self.queue.add(Work::Report);
        }
    }

    async fn report(&self) -> Result<Outcome, Error> {
        if !self.operators.is_known() || self.operators.objects().is_none() {
            return Ok(Outcome::Done);
        }
        let now = self.env.now_seconds();
        let (facts, (degraded, wait)) = self.with(|state| {
            let facts = state.facts.clone();
            let problem = facts.problem();
            (facts, state.inertia.judge(problem, now).split())
        });
        let report = report::report(&facts, degraded);
        let written =
            self.writer.keep_status(&cluster_operator::object(OPERATOR), |live| cluster_operator::status(live, &report, now)).await?;
        if let Some((live, status)) = written
            && let Some(note) = cluster_operator::transitions(&live, &status)
        {
            self.tell(&live, &note);
        }
        Ok(wait.map_or(Outcome::Done, Outcome::After))
    }

    /// Reports an event; failing to report never fails the work.
    fn tell(&self, about: &Value, note: &str) {
        if let Err(error) = self.recorder.record(about, EventKind::Normal, "OperatorStatusChanged", "Reconciling", note) {
            tracing::warn!(%error, "an event could not be reported");
        }
    }

    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn is_conflict(error: &WriteError) -> bool {
    error.reason() == Some(&Reason::Conflict)
}

fn hub_place() -> ObjectRef {
    ObjectRef {
        api_version: hub::API_VERSION.to_owned(),
        kind: "OperatorHub".to_owned(),
        namespace: String::new(),
        name: hub::NAME.to_owned(),
    }
}
