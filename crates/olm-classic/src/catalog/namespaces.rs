//! The controller of namespaces: it keeps the status of their Subscriptions, resolves them, and makes InstallPlans (OLM0-RES-04, OLM0-IP-01).
//!
//! ```text
//!   Subscriptions ── observed ── written? ──► woken again
//!        │ all as the cluster is
//!        ▼
//!   some not pending ── decide ──► refusals: told        parts: bundles unpacked ──► one InstallPlan ──► statuses
//! ```

mod planned;
mod requested;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mainstay_apply::{EventKind, WriteError};
use mainstay_golang::parse_duration;
use mainstay_objects::{Expect, ObjectRef, Propagation};
use mainstay_olm_classic_core::install_plan;
use mainstay_olm_classic_core::resolve::{self, Outcome as Verdict, ResolveError, UnhealthyCatalogs};
use mainstay_olm_classic_core::subscription::{
    Facts as Observed, GENERATED_BY, Resolution, VisibleCatalog, is_pending, observed, resolved,
};
use mainstay_olm_classic_core::unpack::LABEL;
use mainstay_runtime::{Cache, Key, Outcome, Queue, Scope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::bundles::{Bundles, UnpackTerms};
use super::caches::GROUP;
use super::metrics::SubscriptionLabels;
use super::objects;
use super::parts::Parts;
use super::serving::CatalogServing;
use super::snapshot::{self, Facts};
use super::versions::Versions;

/// Namespaces that are reconciled at a time.
const WORKERS: usize = 4;
/// The interval at which a namespace is looked at without a change.
const RESYNC: Duration = Duration::from_secs(900);
/// The time after which a lagging copy is looked at again.
const LAG: Duration = Duration::from_millis(20);
/// The time after which a copy that does not show what was made is trusted nevertheless.
const LONGEST_LAG: Duration = Duration::from_secs(5);
/// Annotations of an OperatorGroup about unpacking (OLM0-API-23).
const UNPACK_TIMEOUT: &str = "operatorframework.io/bundle-unpack-timeout";
const UNPACK_RETRY: &str = "operatorframework.io/bundle-unpack-min-retry-interval";

/// A failure of a reconcile that no status can show.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object cannot be read.
    #[error("an object of namespace {0} cannot be read")]
    Form(String, #[source] serde_json::Error),
    /// The resolution ended abnormally.
    #[error("the resolution of namespace {0} ended abnormally")]
    Abnormal(String, #[source] tokio::task::JoinError),
    /// Others write to an object all the time.
    #[error("{0} changes faster than its status can be written")]
    Busy(ObjectRef),
}

/// A verdict, and the hash of the facts that it rests on.
struct Reached {
    identity: [u8; 32],
    verdict: Arc<Verdict>,
}

/// The controller of namespaces.
pub struct Controller {
    parts: Arc<Parts>,
    queue: Queue<Key>,
    bundles: Bundles,
    /// The last verdict of each namespace.
    verdicts: Mutex<HashMap<String, Reached>>,
    /// Versions of Subscriptions that were written and that the copies may not show yet.
    written: Versions,
    /// InstallPlans that were made and that the copies may not show yet, with the time.
    made: Mutex<HashMap<Key, Instant>>,
}

impl Controller {
    /// Makes the controller.
    pub fn new(parts: Arc<Parts>) -> Arc<Self> {
        let queue: Queue<Key> = Queue::default();
        let woken = queue.clone();
        let bundles = Bundles::new(move |namespace| woken.add(Key::new("", namespace)));
        Arc::new(Self { parts, queue, bundles, verdicts: Mutex::default(), written: Versions::default(), made: Mutex::default() })
    }

    /// Wakes a namespace.
    pub fn wake(&self, namespace: &str) {
        self.queue.add(Key::new("", namespace));
    }

    /// Wakes the namespaces that see the catalogs of a namespace.
    pub fn wake_for(&self, namespace: &str) {
        if namespace != self.parts.global_namespace {
            return self.wake(namespace);
        }
        for namespace in self.parts.caches.subscriptions.namespaces() {
            self.wake(&namespace);
        }
    }

    /// Runs the controller until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let caches = &self.parts.caches;
        for cache in [&caches.plans, &caches.csvs, &caches.groups] {
            let woken = self.queue.clone();
            cache.on_change(move |change| {
                if let Some(namespace) = change.object().and_then(|object| object.metadata.namespace.as_deref()) {
                    woken.add(Key::new("", namespace));
                }
            });
        }
        let controller = self.clone();
        caches.subscriptions.on_change(move |change| {
            let Some(object) = change.object() else { return };
            let key = Key::of(object);
            let generation = |object: &Option<Arc<kube::api::DynamicObject>>| object.as_ref().and_then(|object| object.metadata.generation);
            // A Subscription that the user changed begins its unpacking again.
            if change.now.is_none() || generation(&change.before) != generation(&change.now) {
                controller.bundles.forget(&key.namespace);
            }
            if change.now.is_none() {
                controller.parts.metrics.subscription_gone(&key);
                controller.written.forget(&key);
            }
            controller.wake(&key.namespace);
        });
        if matches!(self.parts.serving, CatalogServing::Pods { .. }) {
            self.clone().wake_by_jobs(&stop);
        }
        let controller = self.clone();
        caches.sources.on_change(move |change| {
            if let Some(object) = change.object() {
                controller.wake_for(object.metadata.namespace.as_deref().unwrap_or_default());
            }
        });
        let (queue, env) = (self.queue.clone(), self.parts.env.clone());
        let reconcile = move |key: Key| {
            let controller = self.clone();
            async move { controller.reconcile(&key.name).await }
        };
        mainstay_runtime::run("subscriptions", queue, WORKERS, env, stop, reconcile).await;
    }

    /// Wakes the namespaces that wait for an unpack Job when it, its pods or its ConfigMap change.
    fn wake_by_jobs(self: Arc<Self>, stop: &CancellationToken) {
        for kind in [objects::jobs(), objects::pods()] {
            let scope = Scope { labels: Some(LABEL.to_owned()), ..Scope::default() };
            let controller = self.clone();
            Cache::start(self.parts.writer.client(), &kind, &scope, stop).on_change(move |change| {
                let Some(object) = change.object() else { return };
                let name = object.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL)).cloned().unwrap_or_default();
                let place = Key::new(object.metadata.namespace.clone().unwrap_or_default(), name);
                controller.bundles.waiting_for(&place).iter().for_each(|namespace| controller.wake(namespace));
            });
        }
    }

    async fn reconcile(&self, namespace: &str) -> Result<Outcome, NamespaceError> {
        let subscriptions = Self::values(namespace, &self.parts.caches.subscriptions)?;
        if self.written.lag(&subscriptions) {
            return Ok(Outcome::After(LAG));
        }
        let plans = Self::values(namespace, &self.parts.caches.plans)?;
        if self.lacks_plan(namespace, &plans) {
            return Ok(Outcome::After(LAG));
        }
        if self.undo(namespace, &plans).await? {
            // Their deletion wakes the namespace again.
            return Ok(Outcome::After(LAG));
        }
        self.collect(namespace, &plans).await?;
        let written = self.fill(namespace, &plans).await?;
        let living = |one: &Value| one["metadata"]["deletionTimestamp"].is_null();
        let subscriptions: Vec<Value> = subscriptions.into_iter().filter(living).collect();
        if subscriptions.is_empty() {
            self.verdicts().remove(namespace);
            return Ok(written.unwrap_or(Outcome::Done));
        }
        let visible = snapshot::visible(&self.parts, namespace);
        if self.observe(namespace, &subscriptions, &plans, &visible).await? {
            // What was written wakes the namespace again.
            return Ok(Outcome::Done);
        }
        if subscriptions.iter().all(|one| is_pending(&one["status"])) {
            return Ok(written.unwrap_or(Outcome::After(RESYNC)));
        }
        let is_read = |catalog: &VisibleCatalog| self.parts.contents.get(&catalog.namespace, &catalog.name).is_some();
        if visible.iter().any(|catalog| catalog.healthy && !is_read(catalog)) {
            // A source that was ready before this process began is being read.
            return Ok(Outcome::After(RESYNC));
        }
        let verdict = self.verdict(namespace, &subscriptions).await?;
        self.refuse(namespace, &subscriptions, &verdict).await?;
        let carried = self.carry_out(namespace, &subscriptions, &plans, &verdict).await?;
        Ok(written.unwrap_or(carried))
    }

    /// Writes the statuses as the cluster shows them; true if any differed.
    async fn observe(
        &self,
        namespace: &str,
        subscriptions: &[Value],
        plans: &[Value],
        visible: &[VisibleCatalog],
    ) -> Result<bool, NamespaceError> {
        let groups = self.parts.caches.groups.in_namespace(namespace);
        let fails_forward = groups.iter().any(|group| group.data["spec"]["upgradeStrategy"] == "TechPreviewUnsafeFailForward");
        let named = |name: &Value| plans.iter().find(|plan| !name.is_null() && plan["metadata"]["name"] == *name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut changed = false;
        for one in subscriptions {
            let (spec, status) = (&one["spec"], &one["status"]);
            let current = text(&status["currentCSV"]);
            let content = self.parts.contents.get(&text(&spec["sourceNamespace"]), &text(&spec["source"]));
            let installed = text(&status["installedCSV"]);
            let deprecations = content.as_ref().filter(|_| !installed.is_empty());
            let deprecations =
                deprecations.and_then(|content| content.deprecations(&text(&spec["name"]), &text(&spec["channel"]), &installed));
            let facts = Observed {
                catalogs: visible,
                install_plan: named(&status["installPlanRef"]["name"]),
                generated_by: named(&one["metadata"]["annotations"][GENERATED_BY]),
                current_csv_exists: !current.is_empty() && self.parts.caches.csvs.get(&Key::new(namespace, &*current)).is_some(),
                fails_forward,
                deprecations,
            };
            self.count(namespace, one);
            changed |= self.write_status(one, &observed(one, &facts, self.parts.env.now_seconds())).await?;
        }
        Ok(changed)
    }

    fn count(&self, namespace: &str, subscription: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (spec, name) = (&subscription["spec"], text(&subscription["metadata"]["name"]));
        let labels = SubscriptionLabels {
            installed: text(&subscription["status"]["installedCSV"]),
            channel: text(&spec["channel"]),
            package: text(&spec["name"]),
            approval: spec["installPlanApproval"].as_str().unwrap_or("Automatic").to_owned(),
            name: name.clone(),
        };
        self.parts.metrics.synced(&Key::new(namespace, name), &labels);
    }

    /// Resolves a namespace, unless nothing that counts has changed since the last time.
    async fn verdict(&self, namespace: &str, subscriptions: &[Value]) -> Result<Arc<Verdict>, NamespaceError> {
        let Facts { snapshot, last, identity } = snapshot::snapshot(&self.parts, namespace, subscriptions);
        if let Some(reached) = self.verdicts().get(namespace)
            && reached.identity == identity
        {
            return Ok(reached.verdict.clone());
        }
        let (isolation, unhealthy, begun) = (self.parts.isolation, self.parts.unhealthy_catalogs, Instant::now());
        let decide = move || match unhealthy {
            UnhealthyCatalogs::Block => resolve::decide(&snapshot, isolation),
            UnhealthyCatalogs::Isolate => resolve::decide_isolated(&snapshot, isolation, &last),
        };
        let verdict = tokio::task::spawn_blocking(decide).await;
        let verdict = Arc::new(verdict.map_err(|error| NamespaceError::Abnormal(namespace.to_owned(), error))?);
        self.parts.metrics.resolved(verdict.refusals.is_empty(), begun.elapsed());
        self.verdicts().insert(namespace.to_owned(), Reached { identity, verdict: verdict.clone() });
        Ok(verdict)
    }

    /// Tells Subscriptions why they cannot be resolved (OLM0-RES-25).
    async fn refuse(&self, namespace: &str, subscriptions: &[Value], verdict: &Verdict) -> Result<(), NamespaceError> {
        for refusal in &verdict.refusals {
            let message = refusal.error.to_string();
            let unsatisfiable = matches!(refusal.error, ResolveError::Unsatisfiable(_));
            let mut news = false;
            for one in subscriptions.iter().filter(|one| refusal.subscriptions.iter().any(|name| one["metadata"]["name"] == **name)) {
                let failed = Resolution::Failed { unsatisfiable, message: &message };
                news |= self.write_status(one, &resolved(one, &failed, self.parts.env.now_seconds())).await?;
            }
            if news {
                self.tell_namespace(namespace, &message);
            }
        }
        Ok(())
    }

    fn tell_namespace(&self, namespace: &str, note: &str) {
        let Some(object) = self.parts.caches.namespaces.get(&Key::new("", namespace)) else { return };
        let about = serde_json::json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "uid": object.metadata.uid},
        });
        if let Err(error) = self.parts.recorder.record(&about, EventKind::Warning, "ResolutionFailed", "Resolving", note) {
            tracing::warn!(%error, "an event could not be recorded");
        }
    }

    /// The limits for unpacking in a namespace; an annotation that cannot be read counts as absent.
    fn unpack_terms(&self, namespace: &str) -> UnpackTerms {
        let groups = self.parts.caches.groups.in_namespace(namespace);
        let read = |key: &str| {
            let text = groups.first()?.metadata.annotations.as_ref()?.get(key)?.clone();
            match parse_duration(&text) {
                Ok(duration) => Some(duration),
                Err(error) => {
                    tracing::warn!(namespace, annotation = key, %error, "an annotation of the OperatorGroup cannot be read");
                    None
                }
            }
        };
        let timeout = match read(UNPACK_TIMEOUT) {
            Some(Duration::ZERO) => None,
            Some(timeout) => Some(timeout),
            None => Some(self.parts.unpack_timeout),
        };
        UnpackTerms { timeout, retry: read(UNPACK_RETRY) }
    }

    /// Deletes InstallPlans that were never finished, so that their Subscriptions are resolved again; true if there were any.
    async fn undo(&self, namespace: &str, plans: &[Value]) -> Result<bool, NamespaceError> {
        let mut found = false;
        for plan in plans.iter().filter(|plan| install_plan::is_unfinished(plan)) {
            found = true;
            let place = plan_at(namespace, plan["metadata"]["name"].as_str().unwrap_or_default());
            // A copy that lags shows a plan as it was before its end.
            match self.parts.writer.delete(&place, &Expect::exactly(plan), Propagation::Background).await {
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                deleted => {
                    deleted?;
                }
            }
        }
        Ok(found)
    }

    /// Deletes old InstallPlans (OLM0-IP-16).
    async fn collect(&self, namespace: &str, plans: &[Value]) -> Result<(), NamespaceError> {
        for name in install_plan::collect(plans) {
            let place = plan_at(namespace, name);
            match self.parts.writer.delete(&place, &Expect::default(), Propagation::Background).await {
                Err(error) if error.is_not_found() => {}
                deleted => drop(deleted?),
            }
        }
        Ok(())
    }

    /// Writes a status if it differs; false if it does not. A write on top of a newer version is left to the next reconcile.
    async fn write_status(&self, live: &Value, status: &Value) -> Result<bool, NamespaceError> {
        match self.parts.writer.update_status(live, status).await {
            Ok(None) => Ok(false),
            Ok(Some(object)) => {
                self.written.note(&object);
                Ok(true)
            }
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes an InstallPlan that was made.
    fn note_plan(&self, plan: &Value) {
        if let Ok(place) = ObjectRef::of(plan) {
            self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(Key::new(place.namespace, place.name), Instant::now());
        }
    }

    /// Returns whether an InstallPlan that was made is not among the copies yet. One that stays away was deleted in the meantime.
    fn lacks_plan(&self, namespace: &str, plans: &[Value]) -> bool {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = |name: &str| plans.iter().any(|plan| plan["metadata"]["name"] == *name);
        made.retain(|key, at| at.elapsed() < LONGEST_LAG && (key.namespace != namespace || !shown(&key.name)));
        made.keys().any(|key| key.namespace == namespace)
    }

    fn values(namespace: &str, cache: &mainstay_runtime::Cache) -> Result<Vec<Value>, NamespaceError> {
        let objects = cache.in_namespace(namespace);
        let values: Result<_, _> = objects.iter().map(|object| serde_json::to_value(&**object)).collect();
        values.map_err(|error| NamespaceError::Form(namespace.to_owned(), error))
    }

    fn verdicts(&self) -> MutexGuard<'_, HashMap<String, Reached>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn plan_at(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: format!("{GROUP}/v1alpha1"),
        kind: "InstallPlan".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
