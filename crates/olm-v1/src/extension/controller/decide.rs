//! The decision on one extension: hold what is installed, gather facts until there is a plan, and choose the account that executes it.
//!
//! ```text
//!   finalizers ─► records ─► hold what is installed ─► catalogs, policies ─► plan ◄──► facts ─► act
//!                            (needs neither catalog nor registry)             │
//!                                                                             └─ what is on its way holds no worker: `Pending`
//! ```

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::ResourceExt;
use kube::api::GroupVersionKind;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_apply::Writer;
use mainstay_bundle::Bundle;
use mainstay_diagnostics::{SharedError, chain};
use mainstay_lifecycle::change::Action;
use mainstay_lifecycle::object;
use mainstay_lifecycle::revision::{History, Record};
use mainstay_olm_v1_core::extension::FIELD_MANAGER;
use mainstay_olm_v1_core::extension::account_name;
use mainstay_olm_v1_core::extension::facts::{Answer, BundleImage, PullFailure, Snapshot};
use mainstay_olm_v1_core::extension::plan::{Plan, Verdict, finalizing, hold, plan, stays};
use mainstay_runtime::jobs::{Asked, origin};
use mainstay_runtime::{AccountError, Cache, Key, Outcome};
use serde::Deserialize as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::lifecycle::LifecycleObjects;
use super::super::observe::{BundleSource, Observer};
use super::super::watches::{Identity, Watches};
use super::{BundlePulls, ExtensionError, Extensions};

/// The most rounds in which a plan may ask for facts: account, Deployments, CRDs, custom resources, bundle, policy, live objects, and some to spare.
pub(super) const ROUNDS: usize = 12;
/// The longest time to compute a plan.
const THINKING: Duration = Duration::from_secs(60);
/// The time after which a pending fetch is reported. Reporting it sooner would make conditions flicker.
const TOLD: Duration = Duration::from_secs(15);

/// The decision, and the facts on which it rests.
pub(super) struct Decided {
    pub(super) snapshot: Snapshot,
    pub(super) plan: Plan,
    /// The account that acts; `None` if there is no usable account.
    pub(super) account: Option<Writer>,
    /// The result of holding the installed objects.
    pub(super) held: HoldOutcome,
}

/// The result of holding the installed objects, which comes before everything else.
#[derive(Default)]
pub(super) struct HoldOutcome {
    /// The record that is held; `None` if nothing is installed.
    pub(super) record: Option<Arc<Record>>,
    /// The reason why some objects could not be restored.
    pub(super) problem: Option<SharedError>,
}

/// The result of one look at an extension.
enum Looked {
    Decided(Box<Decided>),
    /// A fetch is pending; its end wakes the extension.
    Pending(Duration),
}

impl Extensions {
    pub(super) async fn reconcile(
        self: &Arc<Self>,
        cache: &Cache,
        watches: &Watches,
        lifecycle: &LifecycleObjects,
        key: &Key,
        ending: &CancellationToken,
    ) -> Result<Outcome, ExtensionError> {
        let Some(object) = cache.get(key) else {
            watches.forget(&key.name);
            self.forget(key);
            return Ok(Outcome::Done);
        };
        let live = serde_json::to_value(&*object).map_err(|source| ExtensionError::Form { name: key.name.clone(), source })?;
        let extension: ClusterExtension =
            ClusterExtension::deserialize(&live).map_err(|source| ExtensionError::Form { name: key.name.clone(), source })?;
        // Finalizing depends on nothing else: a deletion waits for nothing.
        if let Some(action) = finalizing(&extension) {
            let own = matches!(&action, Action::Finalize(present) if !present.is_empty());
            // Objects that are to stay are released first, one by one, so that this can stop at any moment. Everything else needs neither account nor
            // records.
            if own && stays(&extension) != Ok(None) {
                let Some(released) = ending.run_until_cancelled(Box::pin(self.release(&live, Arc::new(extension)))).await else {
                    return Ok(Outcome::Done);
                };
                if let Some(outcome) = released? {
                    return Ok(outcome);
                }
            }
            return self.finalizers(&live, key, &action, watches).await;
        }
        // Gathering facts changes nothing, and may wait in vain once the process stops; an execution is finished.
        let Some(looked) = ending.run_until_cancelled(Box::pin(self.decide(Arc::new(extension), lifecycle, watches, key))).await else {
            tracing::debug!(extension = key.name, "nothing is decided any more: the end was asked for");
            return Ok(Outcome::Done);
        };
        match looked? {
            Looked::Decided(decided) => {
                let Decided { plan, .. } = &*decided;
                tracing::debug!(extension = key.name, action = ?plan.action, steps = plan.steps.len(), verdict = ?plan.verdict, "decided");
                self.act(&live, *decided, watches).await
            }
            Looked::Pending(wait) => Ok(Outcome::After(wait)),
        }
    }

    /// Forgets everything for which an extension waits.
    pub(super) fn forget(&self, key: &Key) {
        self.pulls.forget(key);
        self.catalogs.forget(key);
    }

    /// Holds what is installed, then gathers facts until the plan is complete. Chooses the account that executes it.
    async fn decide(
        self: &Arc<Self>,
        extension: Arc<ClusterExtension>,
        lifecycle: &LifecycleObjects,
        watches: &Watches,
        key: &Key,
    ) -> Result<Looked, ExtensionError> {
        let name = extension.name_any();
        let account = self.account(&extension).await;
        let bundles = Asking { bundles: self.bundles.clone(), pulls: &self.pulls, who: key, pending: std::sync::Mutex::default() };
        let observer = Observer {
            own: self.writer.client(),
            account: account.as_ref().ok(),
            bundles: &bundles,
            policy: &self.policy,
            system_namespace: &self.system_namespace,
        };
        let known = self.known_account(&account);
        let mut snapshot = observer.begin(extension.clone(), self.gates.clone(), self.ignore_service_account, Vec::new(), known).await;
        snapshot.known.now = Some(self.env.now_seconds());
        // An attempt in progress decides what is live. The installed version is held only if the attempt does not continue.
        let whole = snapshot.history.as_ref().is_ok_and(History::is_whole);
        let mut held = HoldOutcome::default();
        if whole {
            held = self.hold(&observer, &mut snapshot, account.as_ref().ok(), watches).await;
        }
        let stocked = self.catalogs.catalogs(key).await;
        snapshot.catalogs = stocked.catalogs;
        snapshot.known.lifecycle = lifecycle.facts().await;
        for _ in 0..ROUNDS {
            let (thought, answer) =
                think(snapshot, plan).await.map_err(|source| ExtensionError::Thinking { name: name.clone(), source })?;
            snapshot = thought;
            let plan = match answer {
                Answer::Ready(plan) => plan,
                Answer::Need(facts) => {
                    tracing::debug!(extension = name, ?facts, "asked for");
                    observer.fetch(&mut snapshot, facts).await;
                    continue;
                }
            };
            // A change that waits for an approval is not executed; the action done meanwhile counts.
            let done_now = plan.consent.meanwhile.as_ref().map_or(&plan.action, |meanwhile| &meanwhile.action);
            let stands_still = *done_now == Action::Report;
            if stands_still && !whole {
                held = self.hold(&observer, &mut snapshot, account.as_ref().ok(), watches).await;
            }
            // The missing fact may be in the pending fetch.
            let pending = [stocked.pending, bundles.pending()].into_iter().flatten().min();
            if let (true, Some(since)) = (plan.verdict != Verdict::Reached, pending)
                && let Some(left) = TOLD.checked_sub(since.elapsed())
            {
                return Ok(Looked::Pending(left));
            }
            return Ok(Looked::Decided(Box::new(Decided { snapshot, plan, account: account.ok(), held })));
        }
        Err(ExtensionError::Endless { name })
    }

    /// Restores what is installed from its record alone (OLM1-CTRL-01), and ensures that it is watched.
    async fn hold(&self, observer: &Observer<'_>, snapshot: &mut Snapshot, account: Option<&Writer>, watches: &Watches) -> HoldOutcome {
        let mut asked = 0;
        let plan = loop {
            match hold(snapshot) {
                Answer::Ready(plan) => break plan,
                Answer::Need(_) if asked == ROUNDS => return HoldOutcome::default(),
                Answer::Need(facts) => observer.fetch(snapshot, facts).await,
            }
            asked += 1;
        };
        let (Some(plan), Some(account), Ok(history)) = (plan, account, &snapshot.history) else { return HoldOutcome::default() };
        let extension = snapshot.extension.clone();
        let problem = self.repair(&extension, &plan, account, history).await;
        if let Some(record) = &plan.record {
            watches.keep(&extension.name_any(), &self.identity(&extension), &kinds(record));
        }
        // The objects have changed since they were read.
        for planned in &plan.steps {
            snapshot.known.live.remove(&planned.target);
        }
        HoldOutcome { record: plan.record, problem }
    }

    /// Returns the identity that watches the extension's objects.
    pub(super) fn identity(&self, extension: &ClusterExtension) -> Identity {
        if self.ignore_service_account {
            return Identity::Own;
        }
        Identity::Account(Key::new(extension.spec.namespace.clone(), account_name(extension)))
    }

    /// Returns what the use of the extension's account has shown of it; none if the controller's own identity is used.
    pub(super) fn known_account(&self, account: &Result<Writer, AccountError>) -> Option<Result<bool, SharedError>> {
        match account {
            _ if self.ignore_service_account => None,
            Ok(_) => Some(Ok(true)),
            Err(AccountError::NotFound { .. }) => Some(Ok(false)),
            Err(error) => Some(Err(chain(error).into())),
        }
    }

    /// Returns the identity that changes the extension's objects (OLM1-PERM-01, OLM1-API-07).
    pub(super) async fn account(&self, extension: &ClusterExtension) -> Result<Writer, AccountError> {
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
}

/// Returns the kinds of a record's objects.
pub(super) fn kinds(record: &Record) -> HashSet<GroupVersionKind> {
    record.objects.iter().map(|object| mainstay_apply::gvk(&object::place(object))).collect()
}

/// Why a decision could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum ThinkError {
    /// The computation itself failed.
    #[error(transparent)]
    Broken(tokio::task::JoinError),
    /// It took too long.
    #[error("it took longer than {} s", THINKING.as_secs())]
    TooLong,
}

/// Computes a decision outside the async workers, since the content decides how long it takes.
async fn think(snapshot: Snapshot, decide: fn(&Snapshot) -> Answer<Plan>) -> Result<(Snapshot, Answer<Plan>), ThinkError> {
    let thinking = tokio::task::spawn_blocking(move || {
        let answer = decide(&snapshot);
        (snapshot, answer)
    });
    match tokio::time::timeout(THINKING, thinking).await {
        Ok(thought) => thought.map_err(ThinkError::Broken),
        Err(_) => Err(ThinkError::TooLong),
    }
}

/// A source of bundles that returns those present and pulls the others in the background.
struct Asking<'a> {
    bundles: Arc<dyn BundleSource>,
    pulls: &'a BundlePulls,
    who: &'a Key,
    pending: std::sync::Mutex<Option<Instant>>,
}

impl Asking<'_> {
    /// Returns the start of the earliest pending pull.
    fn pending(&self) -> Option<Instant> {
        *self.pending.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[async_trait]
impl BundleSource for Asking<'_> {
    async fn bundle(&self, extension: &str, image: &BundleImage) -> Result<Arc<Bundle>, PullFailure> {
        let BundleImage { reference, pull_secret } = image;
        let (bundles, names) = (self.bundles.clone(), (extension.to_owned(), image.clone()));
        let pull = move || async move { bundles.bundle(&names.0, &names.1).await };
        let job = format!("{extension} {reference} {}", pull_secret.as_deref().unwrap_or_default());
        match self.pulls.ask(&job, origin(reference), self.who, pull).await {
            Asked::Ended(pulled) => pulled,
            Asked::Running(since) => {
                *self.pending.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(since);
                // The message is the same each time, so that conditions do not flicker.
                let message = format!("the image {reference} is still being pulled and read");
                Err(PullFailure::other(message))
            }
        }
    }

    async fn forget(&self, extension: &str) -> Result<(), SharedError> {
        self.bundles.forget(extension).await
    }
}
