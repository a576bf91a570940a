//! The ClusterOperators of OLM classic (OLM0-MET-05, OLM0-MET-06): what the parts that run here say of themselves, where a cluster has the kind.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, GroupVersionKind};
use mainstay_api::cluster_operator;
use mainstay_apply::{EventKind, Recorder, WriteError, Writer};
use mainstay_olm_classic_core::cluster_operators::{Facts, Installed, Part, report};
use mainstay_runtime::{Cache, Cluster, ConnectError, Env, Kinds, Optional, Outcome, Part as Shown, Queue, Scope};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The APIService of the package server.
const PACKAGES: &str = "v1.packages.operators.coreos.com";
/// The annotation of a CSV with its properties.
const PROPERTIES: &str = "operatorframework.io/properties";
/// The interval at which everything is looked at, beside changes.
const LOOK: Duration = Duration::from_secs(3600);

/// The settings of the reports.
#[derive(Clone)]
pub struct Setup {
    /// The cluster, with OLM's identity.
    pub cluster: Cluster,
    /// Clock, randomness and metrics.
    pub env: Env,
    /// OLM's own namespace.
    pub namespace: String,
    /// The parts that run in this process, with the names of their ClusterOperators.
    pub parts: Vec<(Part, String)>,
    /// The release of the platform.
    pub release: watch::Receiver<String>,
}

/// An item of the queue: the report of a part, by its place in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Work(usize);

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClusterOperator of part {}", self.0)
    }
}

struct Reports {
    setup: Setup,
    writer: Writer,
    recorder: Recorder,
    operators: Optional,
    services: Cache,
    csvs: Cache,
    subscriptions: Cache,
    plans: Cache,
}

/// Reports until `stop` is cancelled. Nothing is read while the cluster has no ClusterOperators.
///
/// # Errors
/// No client of the cluster can be made.
pub async fn run(setup: Setup, stop: CancellationToken) -> Result<(), ConnectError> {
    let client = setup.cluster.client()?;
    let queue: Queue<Work> = Queue::default();
    let served = Arc::new(Notify::new());
    let (woken, told, count) = (queue.clone(), served.clone(), setup.parts.len());
    let wake = move || {
        told.notify_one();
        (0..count).for_each(|at| woken.add(Work(at)));
    };
    let kind = resource("config.openshift.io", "v1", "ClusterOperator", "clusteroperators");
    let operators = Optional::start(&client, kind, &stop, wake.clone());
    while operators.objects().is_none() {
        if stop.run_until_cancelled(served.notified()).await.is_none() {
            return Ok(());
        }
    }
    let cache = |group: &str, version: &str, kind: &str, plural: &str, scope: &Scope| {
        let cache = Cache::start(&client, &resource(group, version, kind, plural), scope, &stop);
        let wake = wake.clone();
        cache.on_change(move |_| wake());
        cache
    };
    let (olm, own) =
        ("operators.coreos.com", Scope { part: Shown::Metadata, labels: Some("!olm.copiedFrom".to_owned()), ..Scope::default() });
    let writer = Writer::new(client.clone(), Kinds::new(client.clone()), crate::olm::MANAGER);
    let reports = Arc::new(Reports {
        services: cache("apiregistration.k8s.io", "v1", "APIService", "apiservices", &Scope::default()),
        csvs: cache(olm, "v1alpha1", "ClusterServiceVersion", "clusterserviceversions", &own),
        subscriptions: cache(olm, "v1alpha1", "Subscription", "subscriptions", &own),
        plans: cache(olm, "v1alpha1", "InstallPlan", "installplans", &own),
        recorder: Recorder::new(writer.clone(), setup.env.clone(), crate::olm::MANAGER, "mainstay"),
        operators,
        writer,
        setup: setup.clone(),
    });
    let known =
        async { tokio::join!(reports.services.ready(), reports.csvs.ready(), reports.subscriptions.ready(), reports.plans.ready()) };
    if stop.run_until_cancelled(known).await.is_none() {
        return Ok(());
    }
    wake();
    let mut release = setup.release.clone();
    let follow = async {
        while release.changed().await.is_ok() {
            wake();
        }
        std::future::pending::<()>().await;
    };
    let reconcile = move |work: Work| {
        let reports = reports.clone();
        async move { reports.reconcile(work).await }
    };
    tokio::select! {
        () = mainstay_runtime::run("olm-reports", queue, 1, setup.env.clone(), stop.clone(), reconcile) => {}
        () = follow => {}
    }
    Ok(())
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

impl Reports {
    async fn reconcile(&self, work: Work) -> Result<Outcome, WriteError> {
        let Some((part, name)) = self.setup.parts.get(work.0) else { return Ok(Outcome::Done) };
        if !self.operators.is_known() || self.operators.objects().is_none() {
            return Ok(Outcome::Done);
        }
        let wanted = report(*part, &self.setup.namespace, &self.facts(*part));
        let now = self.setup.env.now_seconds();
        let written = self.writer.keep_status(&cluster_operator::object(name), |live| cluster_operator::status(live, &wanted, now)).await?;
        if let Some((live, status)) = written
            && let Some(note) = cluster_operator::transitions(&live, &status)
            && let Err(error) = self.recorder.record(&live, EventKind::Normal, "OperatorStatusChanged", "Reconciling", &note)
        {
            tracing::warn!(%error, "an event could not be reported");
        }
        Ok(Outcome::After(LOOK))
    }

    fn facts(&self, part: Part) -> Facts {
        let (works, problem) = match part {
            // Copies of the cluster are complete, and every decision rests on them.
            Part::Olm | Part::Catalog => (true, None),
            Part::Packages => self.served(),
        };
        let csvs = self.csvs.all();
        let place = |object: &kube::api::DynamicObject| {
            (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default())
        };
        let in_own = |cache: &Cache, resource: &'static str| {
            let own = cache.in_namespace(&self.setup.namespace);
            own.iter().map(|object| (resource, place(object))).collect::<Vec<_>>()
        };
        let related = match part {
            Part::Olm => in_own(&self.csvs, "clusterserviceversions"),
            Part::Catalog => {
                let mut all = in_own(&self.subscriptions, "subscriptions");
                all.extend(in_own(&self.plans, "installplans"));
                all
            }
            Part::Packages => Vec::new(),
        };
        let mut related: Vec<_> = related.into_iter().map(|(resource, (namespace, name))| (resource, namespace, name)).collect();
        related.sort();
        let installed = csvs.iter().map(|csv| {
            let (namespace, name) = place(csv);
            let properties = csv.metadata.annotations.as_ref().and_then(|all| all.get(PROPERTIES).cloned());
            Installed { namespace, name, properties }
        });
        Facts { works, problem, release: self.setup.release.borrow().clone(), installed: installed.collect(), related }
    }

    /// Returns whether the API server reaches the package server, and why not.
    fn served(&self) -> (bool, Option<String>) {
        let Some(service) = self.services.get(&mainstay_runtime::Key::new("", PACKAGES)) else {
            return (false, Some(format!("APIService {PACKAGES} does not exist")));
        };
        let conditions = service.data["status"]["conditions"].as_array();
        match conditions.and_then(|all| all.iter().find(|each| each["type"] == "Available")) {
            Some(available) if available["status"] == "True" => (true, None),
            Some(available) => (false, available["message"].as_str().map(str::to_owned)),
            None => (false, Some(format!("APIService {PACKAGES} was not looked at yet"))),
        }
    }
}
