//! The ClusterExtension controller.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use mainstay_api::lifecycle::ChangePlanPhase;
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_apply::{WriteError, Writer};
use mainstay_runtime::{AccountError, Accounts, Backoff, Cache, Change, Env, Key, Kinds, Outcome, Queue, Scope};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::act::{ActError, Actor, FIELD_MANAGER};
use super::approval::{APPLIED, Mark};
use super::facts::{Answer, Snapshot};
use super::lifecycle::{self, LifecycleObjects};
use super::object;
use super::observe::{BundleSource, CatalogSource, Observer};
use super::plan::{Action, FINALIZERS, Plan, Verdict, account_name, finalizing, plan, with_bundle};
use super::record::{History, State};
use super::roles::Policy;
use super::status::status;
use super::watches::{Identity, Watches};
use crate::events::Events;
use crate::gates::FeatureGates;
use crate::text::chain;

/// What the controller works with.
pub struct Extensions {
    /// Writes as the controller itself.
    pub writer: Writer,
    /// Clients of ServiceAccounts.
    pub accounts: Accounts,
    /// Kinds as the server serves them.
    pub kinds: Kinds,
    /// Clock and chance.
    pub env: Env,
    /// The feature gates.
    pub gates: FeatureGates,
    /// Whether the controller's own identity installs (OLM1-API-07).
    pub ignore_service_account: bool,
    /// Where bundles come from.
    pub bundles: Arc<dyn BundleSource>,
    /// Where catalogs come from.
    pub catalogs: Arc<dyn CatalogSource>,
    /// All ClusterCatalogs.
    pub catalog_cache: Cache,
    /// Roles and bindings.
    pub policy: Policy,
    /// The namespace of the install records.
    pub system_namespace: String,
    /// Where events go.
    pub events: Events,
}

/// Why a reconcile failed in a way that no condition can show.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The object is no ClusterExtension.
    #[error("clusterextension {name} cannot be read")]
    Form {
        /// The extension.
        name: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// What was unpacked could not be dropped.
    #[error("clusterextension {name}: dropping what was unpacked failed: {problem}")]
    Forget {
        /// The extension.
        name: String,
        /// Why.
        problem: String,
    },
    /// The plan asked for facts again and again.
    #[error("clusterextension {name}: the plan did not come to an end")]
    Endless {
        /// The extension.
        name: String,
    },
}

/// Extensions that are reconciled at a time.
const WORKERS: usize = 4;
/// How often a plan may ask for facts: account, Deployments, CRDs, custom resources, bundle, policy, live objects, and some to spare.
const ROUNDS: usize = 12;
/// Times are kept in whole seconds, so that one is over a moment later.
const LOOK: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_secs(1);
/// Failures are retried soon at first, since most wait for somebody to grant a right or push an image.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(60) };

/// The cache of all ClusterCatalogs, started.
pub fn catalog_cache(client: &Client, stop: &CancellationToken) -> Cache {
    Cache::start(client, &ApiResource::erase::<ClusterCatalog>(&()), &Scope::default(), stop)
}

/// Runs the controller until `stop`.
pub async fn run(extensions: Arc<Extensions>, stop: CancellationToken) {
    let resource = ApiResource::erase::<ClusterExtension>(&());
    let cache = Cache::start(extensions.writer.client(), &resource, &Scope::default(), &stop);
    let known = async {
        cache.ready().await;
        extensions.catalog_cache.ready().await;
    };
    // A copy that was told to end before its first list never becomes ready.
    if stop.run_until_cancelled(known).await.is_none() {
        return;
    }
    let queue: Queue<Key> = Queue::new(BACKOFF);
    let watches = Watches::new(
        queue.clone(),
        extensions.writer.client().clone(),
        extensions.accounts.clone(),
        extensions.kinds.clone(),
        stop.clone(),
    );
    let woken = queue.clone();
    cache.on_change(move |change| {
        if wakes(change)
            && let Some(object) = change.object()
        {
            woken.add(Key::of(object));
        }
    });
    let (woken, all) = (queue.clone(), cache.clone());
    extensions.catalog_cache.on_change(move |change| {
        if catalog_wakes(change) {
            for object in all.all() {
                woken.add(Key::of(&object));
            }
        }
    });
    let lifecycle = LifecycleObjects::start(extensions.writer.client(), &cache, &queue, &stop);
    let (woken, objects) = (queue.clone(), lifecycle.clone());
    cache.on_change(move |change| {
        if peers_wake(change) {
            objects.joint().into_iter().for_each(|key| woken.add(key));
        }
    });
    for roles in &extensions.policy.caches {
        let (woken, all) = (queue.clone(), cache.clone());
        // A right that is granted is what a refused extension waits for (OLM1-PERM-02).
        roles.on_change(move |_| {
            for object in all.all().iter().filter(|object| retries(object)) {
                woken.add(Key::of(object));
            }
        });
    }
    let (worker, ending) = (extensions.clone(), stop.clone());
    let reconcile = move |key: Key| {
        let (extensions, cache, watches, lifecycle) = (worker.clone(), cache.clone(), watches.clone(), lifecycle.clone());
        let ending = ending.clone();
        async move { extensions.reconcile(&cache, &watches, &lifecycle, &key, &ending).await }
    };
    mainstay_runtime::run("clusterextension", queue, WORKERS, extensions.env.clone(), stop, reconcile).await;
}

/// A change of the status alone is the controller's own, and wakes nobody.
fn wakes(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return true };
    let (old, new) = (&before.metadata, &now.metadata);
    old.generation != new.generation
        || old.annotations != new.annotations
        || old.labels != new.labels
        || old.finalizers != new.finalizers
        || old.deletion_timestamp != new.deletion_timestamp
}

/// What extensions that resolve together look at in each other: what is wanted, and what is installed.
fn peers_wake(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return true };
    let installed = |object: &kube::api::DynamicObject| object.data.pointer("/status/install").cloned();
    wakes(change) || installed(before) != installed(now)
}

fn retries(extension: &kube::api::DynamicObject) -> bool {
    let conditions = extension.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| all.iter().any(|each| each["type"] == "Progressing" && each["reason"] == "Retrying"))
}

/// OLM1-CTRL-08: every change of a catalog but one between two equal resolved images. Labels and priority decide the choice too, and so
/// does whether the catalog serves.
fn catalog_wakes(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return true };
    let facts = |object: &kube::api::DynamicObject| {
        let part = |pointer: &str| object.data.pointer(pointer).cloned().unwrap_or_default();
        let serving = part("/status/conditions")
            .as_array()
            .and_then(|all| all.iter().find(|each| each["type"] == "Serving").map(|each| each["status"].clone()));
        (part("/status/resolvedSource/image/ref"), part("/spec"), object.metadata.labels.clone(), serving)
    };
    facts(before) != facts(now)
}

impl Extensions {
    async fn reconcile(
        &self,
        cache: &Cache,
        watches: &Watches,
        lifecycle: &LifecycleObjects,
        key: &Key,
        ending: &CancellationToken,
    ) -> Result<Outcome, ExtensionError> {
        let Some(object) = cache.get(key) else {
            watches.forget(&key.name);
            return Ok(Outcome::Done);
        };
        let live = serde_json::to_value(&*object).map_err(|source| ExtensionError::Form { name: key.name.clone(), source })?;
        let extension: ClusterExtension =
            serde_json::from_value(live.clone()).map_err(|source| ExtensionError::Form { name: key.name.clone(), source })?;
        // Gathering facts changes nothing, and may wait for what comes no more once the process is to end; acting is finished.
        let Some(decided) = ending.run_until_cancelled(self.decide(Arc::new(extension), lifecycle)).await else {
            tracing::debug!(extension = key.name, "nothing is decided any more: the end was asked for");
            return Ok(Outcome::Done);
        };
        let (snapshot, plan, account) = decided?;
        tracing::debug!(extension = key.name, action = ?plan.action, steps = plan.steps.len(), verdict = ?plan.verdict, "decided");
        self.act(&live, snapshot, plan, account, watches).await
    }

    /// Gathers what the plan asks for until there is one; with it comes who acts.
    async fn decide(
        &self,
        extension: Arc<ClusterExtension>,
        lifecycle: &LifecycleObjects,
    ) -> Result<(Snapshot, Plan, Option<Writer>), ExtensionError> {
        let name = extension.name_any();
        let account = self.account(&extension).await;
        let observer = Observer {
            own: self.writer.client(),
            account: account.as_ref().ok(),
            bundles: &*self.bundles,
            policy: &self.policy,
            system_namespace: &self.system_namespace,
        };
        let catalogs = self.catalogs.catalogs().await;
        let mut snapshot = observer.begin(extension.clone(), self.gates.clone(), self.ignore_service_account, catalogs).await;
        if let Err(error) = &account
            && !matches!(error, AccountError::NotFound { .. })
        {
            snapshot.known.account = Some(Err(chain(error)));
        }
        snapshot.known.now = Some(self.env.now_seconds());
        // No policy has a say in finalizers, and an extension that goes is not to wait for them.
        if finalizing(&snapshot.extension).is_none() {
            snapshot.known.lifecycle = lifecycle.facts().await;
        }
        for _ in 0..ROUNDS {
            match plan(&snapshot) {
                Answer::Ready(plan) => return Ok((snapshot, plan, account.ok())),
                Answer::Need(facts) => {
                    tracing::debug!(extension = name, ?facts, "asked for");
                    observer.fetch(&mut snapshot, facts).await;
                }
            }
        }
        Err(ExtensionError::Endless { name })
    }

    /// Who watches the extension's objects.
    fn identity(&self, extension: &ClusterExtension) -> Identity {
        if self.ignore_service_account {
            return Identity::Own;
        }
        Identity::Account(Key::new(extension.spec.namespace.clone(), account_name(extension)))
    }

    /// The identity that touches the extension's objects (OLM1-PERM-01, OLM1-API-07).
    async fn account(&self, extension: &ClusterExtension) -> Result<Writer, AccountError> {
        if self.ignore_service_account {
            return Ok(self.writer.clone());
        }
        let account = Key::new(extension.spec.namespace.clone(), account_name(extension));
        if account.name.is_empty() {
            return Err(AccountError::NotFound { account });
        }
        let client = self.accounts.client(&account).await?;
        Ok(Writer::new(client, self.kinds.clone(), FIELD_MANAGER))
    }

    async fn act(
        &self,
        live: &Value,
        snapshot: Snapshot,
        plan: Plan,
        account: Option<Writer>,
        watches: &Watches,
    ) -> Result<Outcome, ExtensionError> {
        let extension = &*snapshot.extension;
        let name = extension.name_any();
        match &plan.action {
            Action::AddFinalizers(missing) => {
                let mut live = live.clone();
                for finalizer in missing {
                    live = self.writer.add_finalizer(&live, finalizer).await?.unwrap_or(live);
                }
                return Ok(Outcome::Done);
            }
            Action::Finalize(present) => {
                watches.forget(&name);
                if present.iter().any(|finalizer| finalizer == FINALIZERS[0]) {
                    self.bundles.forget(&name).await.map_err(|problem| ExtensionError::Forget { name, problem })?;
                }
                let mut live = live.clone();
                for finalizer in present {
                    match self.writer.remove_finalizer(&live, finalizer).await? {
                        Some(now) => live = now,
                        None => break,
                    }
                }
                return Ok(Outcome::Done);
            }
            Action::Report | Action::Install | Action::Upgrade | Action::Reassert => {}
        }
        let gate = plan.consent.gate.clone();
        let plan = self.consented(&snapshot, plan).await?;
        let Snapshot { history, .. } = &snapshot;
        let mut history = history.clone();
        let (verdict, applied) = match (&mut history, &account) {
            (Ok(history), Some(account)) if plan.action != Action::Report => self.execute(extension, &plan, account, history).await,
            _ => (plan.verdict.clone(), false),
        };
        if let (Some(record), true) = (&plan.record, applied) {
            let kinds: HashSet<GroupVersionKind> = record.objects.iter().map(|object| object::place(object).gvk()).collect();
            watches.keep(&name, &self.identity(extension), &kinds);
        }
        self.report(live, extension, &plan, &verdict, history.as_ref().map_err(String::as_str)).await?;
        if let (Some(gate), Verdict::Reached) = (gate, &verdict) {
            let applied = Mark { name: gate.name, phase: ChangePlanPhase::Applied, message: APPLIED.to_owned() };
            lifecycle::mark(&self.writer, &snapshot.known.lifecycle, &applied).await?;
        }
        Ok(match verdict {
            // A direct successor is one step; the next one may be waiting (OLM1-UPG-07).
            Verdict::Reached if matches!(plan.action, Action::Install | Action::Upgrade) => Outcome::After(Duration::ZERO),
            // A time in which the new Deployments have to become healthy runs.
            Verdict::Reached | Verdict::Blocked(_) if plan.gate.until.is_some() => Outcome::After(self.left(&plan)),
            // The attempt waits for its workloads; their watch wakes it, and so does the end of their time.
            Verdict::Retrying(_) if applied && plan.gate.until.is_some() => Outcome::After(self.left(&plan).min(LOOK)),
            Verdict::Reached | Verdict::Blocked(_) => Outcome::Done,
            Verdict::Retrying(_) | Verdict::NoAccount { .. } | Verdict::Unreadable(_) => Outcome::Retry,
        })
    }

    /// Keeps what has to be approved, shows how far kept plans are, and gives what may be done now.
    async fn consented(&self, snapshot: &Snapshot, mut plan: Plan) -> Result<Plan, ExtensionError> {
        for mark in &plan.consent.marks {
            lifecycle::mark(&self.writer, &snapshot.known.lifecycle, mark).await?;
        }
        let Some(mut meanwhile) = plan.consent.meanwhile.take() else { return Ok(plan) };
        if let Some(gate) = plan.consent.gate.as_ref().filter(|gate| !gate.kept)
            && let Err(error) = lifecycle::keep(&self.writer, &snapshot.extension, gate).await
        {
            meanwhile.verdict = Verdict::Retrying(format!("change plan {} could not be kept for approval: {}", gate.name, chain(&error)));
        }
        meanwhile.warnings = plan.warnings;
        Ok(*meanwhile)
    }

    /// How long until the plan's time to become healthy is over.
    fn left(&self, plan: &Plan) -> Duration {
        let until = plan.gate.until.unwrap_or_default();
        // A time that is over is negative, and no `Duration`.
        Duration::try_from(until.duration_since(self.env.now())).unwrap_or(Duration::ZERO) + MOMENT
    }

    async fn execute(&self, extension: &ClusterExtension, plan: &Plan, account: &Writer, history: &mut History) -> (Verdict, bool) {
        let owner = object::owner(extension);
        let actor =
            Actor { own: &self.writer, account, system_namespace: &self.system_namespace, owner: &owner, now: self.env.now_seconds() };
        let resolution = plan.resolution.as_ref();
        let bundle = resolution.map(|resolution| resolution.choice.to_string()).unwrap_or_default();
        // An attempt that is tried again was told of when it was begun.
        let begun = history.latest().is_some_and(|latest| latest.state != State::Deployed && plan.record.as_ref() == Some(&latest.record));
        if matches!(plan.action, Action::Install | Action::Upgrade) && plan.gate.rolled_back.is_none() && !begun {
            let reason =
                resolution.and_then(|resolution| resolution.reasons.first()).map(|reason| format!(": {reason}")).unwrap_or_default();
            self.events.normal(extension, "Resolved", &format!("{bundle}{reason}")).await;
        }
        match actor.act(plan, history).await {
            Ok(changed) => {
                match plan.action {
                    Action::Upgrade if plan.gate.rolled_back.is_some() => {
                        let message = plan.gate.rolled_back.as_ref().map(|back| back.message.clone()).unwrap_or_default();
                        self.events.warning(extension, "RolledBack", &message).await;
                    }
                    Action::Install => self.events.normal(extension, "Installed", &format!("{bundle}: {changed} objects")).await,
                    Action::Upgrade => self.events.normal(extension, "Upgraded", &format!("{bundle}: {changed} objects changed")).await,
                    Action::Reassert if changed > 0 => {
                        self.events.normal(extension, "Repaired", &format!("{changed} objects that were missing or changed")).await;
                    }
                    _ => {}
                }
                // An attempt that was stuck has come to its end after all.
                let ended = plan.action == Action::Upgrade && plan.gate.rolled_back.is_none();
                (if ended { Verdict::Reached } else { plan.verdict.clone() }, true)
            }
            // What was applied is watched: its becoming healthy wakes the extension.
            Err(ActError::Waiting(_)) if matches!(plan.verdict, Verdict::Blocked(_)) && plan.gate.rolled_back.is_none() => {
                (plan.verdict.clone(), true)
            }
            Err(error @ ActError::Waiting(_)) => (Verdict::Retrying(with_bundle(&error.to_string(), resolution)), true),
            Err(error) => (Verdict::Retrying(with_bundle(&chain(&error), resolution)), false),
        }
    }

    async fn report(
        &self,
        live: &Value,
        extension: &ClusterExtension,
        plan: &Plan,
        verdict: &Verdict,
        history: Result<&History, &str>,
    ) -> Result<(), ExtensionError> {
        let wanted = status(extension, plan, verdict, history, self.env.now_seconds());
        let wanted = serde_json::to_value(&wanted).map_err(|source| ExtensionError::Form { name: extension.name_any(), source })?;
        let changed = match self.writer.update_status(live, &wanted).await {
            Ok(written) => written.is_some(),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if changed {
            match verdict {
                Verdict::Retrying(problem) => self.events.warning(extension, "Retrying", problem).await,
                Verdict::Blocked(problem) => self.events.warning(extension, "Blocked", problem).await,
                Verdict::NoAccount { account, namespace } => {
                    self.events
                        .warning(
                            extension,
                            "ServiceAccountMissing",
                            &format!("service account {account:?} not found in namespace {namespace:?}"),
                        )
                        .await;
                }
                Verdict::Unreadable(problem) => self.events.warning(extension, "RecordUnreadable", problem).await,
                Verdict::Reached => {}
            }
            for warning in &plan.warnings {
                self.events.warning(extension, "Warning", warning).await;
            }
        }
        Ok(())
    }
}
