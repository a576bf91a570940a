//! The ClusterExtension controller.

mod decide;
mod execute;
mod release;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::ApiResource;
use mainstay_api::olm_v1::{ClusterCatalog, ClusterExtension};
use mainstay_apply::{WriteError, Writer};
use mainstay_bundle::Bundle;
use mainstay_olm_v1_core::extension::facts::PullFailure;
use mainstay_olm_v1_core::gates::FeatureGates;
use mainstay_runtime::{Accounts, Backoff, Cache, Env, Key, Kinds, Queue, Scope};
use tokio_util::sync::CancellationToken;

use self::wake::{Retrying, catalog_wakes, peers_wake, wakes};
use super::lifecycle::LifecycleObjects;
use super::observe::{BundleSource, CatalogSource};
use super::roles::Policy;
use super::watches::Watches;
use crate::events::Events;
use crate::jobs::{Jobs, Terms};

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
    /// Pulls of bundles that run.
    pub pulls: BundlePulls,
}

/// What a pull of a bundle gives.
pub type BundlePulls = Jobs<Result<Arc<Bundle>, PullFailure>>;

/// No pulls of bundles yet.
pub fn bundle_pulls() -> BundlePulls {
    let overdue = |after: Duration| Err(PullFailure::other(format!("the pull was given up after {} s", after.as_secs())));
    Jobs::new(Terms { deadline: PULL, fresh: Duration::ZERO }, overdue)
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
    /// The plan could not be made.
    #[error("clusterextension {name}: the plan could not be made: {problem}")]
    Thinking {
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
/// How long a pull of a bundle may take, unpacking and reading included.
const PULL: Duration = Duration::from_secs(600);
/// Failures are retried soon at first, since most wait for somebody to grant a right or push an image.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(60) };

/// The cache of all ClusterCatalogs, started.
pub fn catalog_cache(client: &Client, stop: &CancellationToken) -> Cache {
    Cache::start(client, &ApiResource::erase::<ClusterCatalog>(&()), &Scope::default(), stop)
}

/// Runs the controller until `stop`.
pub async fn run(extensions: Arc<Extensions>, stop: CancellationToken) {
    let resource = ApiResource::erase::<ClusterExtension>(&());
    let metrics = extensions.env.metrics();
    let cache = Cache::start(extensions.writer.client(), &resource, &Scope::default(), &stop).shown(metrics);
    let known = async {
        cache.ready().await;
        extensions.catalog_cache.ready().await;
    };
    // A copy that was told to end before its first list never becomes ready.
    if stop.run_until_cancelled(known).await.is_none() {
        return;
    }
    let queue: Queue<Key> = Queue::new(BACKOFF);
    let woken = queue.clone();
    extensions.pulls.wake_by(move |key| woken.add(key));
    let woken = queue.clone();
    extensions.catalogs.wake_by(Box::new(move |key| woken.add(key)));
    let watches = Watches::new(
        queue.clone(),
        extensions.writer.client().clone(),
        extensions.accounts.clone(),
        extensions.kinds.clone(),
        stop.clone(),
        metrics.clone(),
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
    let lifecycle = LifecycleObjects::start(extensions.writer.client(), &cache, &queue, &stop).shown(metrics);
    let (woken, objects) = (queue.clone(), lifecycle.clone());
    cache.on_change(move |change| {
        if peers_wake(change) {
            objects.joint().into_iter().for_each(|key| woken.add(key));
        }
    });
    let retrying = Retrying::follow(&cache);
    for roles in &extensions.policy.caches {
        let (woken, retrying) = (queue.clone(), retrying.clone());
        // A right that is granted is what a refused extension waits for (OLM1-PERM-02).
        roles.on_change(move |_| retrying.keys().into_iter().for_each(|key| woken.add(key)));
    }
    let (worker, ending) = (extensions.clone(), stop.clone());
    let reconcile = move |key: Key| {
        let (extensions, cache, watches, lifecycle) = (worker.clone(), cache.clone(), watches.clone(), lifecycle.clone());
        let ending = ending.clone();
        async move { Box::pin(extensions.reconcile(&cache, &watches, &lifecycle, &key, &ending)).await }
    };
    mainstay_runtime::run("clusterextension", queue, WORKERS, extensions.env.clone(), stop, reconcile).await;
}
