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
use mainstay_diagnostics::SharedError;
use mainstay_olm_v1_core::extension::facts::PullFailure;
use mainstay_olm_v1_core::gates::FeatureGates;
use mainstay_runtime::jobs::{Jobs, Terms};
use mainstay_runtime::{Accounts, Backoff, Cache, Env, Key, Kinds, Queue, Scope};
use tokio_util::sync::CancellationToken;

use self::decide::ThinkError;
use self::wake::{Retrying, catalog_wakes, peers_wake, wakes};
use super::lifecycle::LifecycleObjects;
use super::observe::{BundleSource, CatalogSource};
use super::roles::Policy;
use super::watches::Watches;
use crate::events::Events;

/// The parts that the controller works with.
pub struct Extensions {
    /// The writer with the controller's own identity.
    pub writer: Writer,
    /// The clients that act as ServiceAccounts.
    pub accounts: Accounts,
    /// The kinds that the server serves.
    pub kinds: Kinds,
    /// Clock and randomness.
    pub env: Env,
    /// The feature gates.
    pub gates: FeatureGates,
    /// True if the controller's own identity installs (OLM1-API-07).
    pub ignore_service_account: bool,
    /// The source of bundles.
    pub bundles: Arc<dyn BundleSource>,
    /// The source of catalogs.
    pub catalogs: Arc<dyn CatalogSource>,
    /// All ClusterCatalogs.
    pub catalog_cache: Cache,
    /// The roles and bindings.
    pub policy: Policy,
    /// The namespace of the install records.
    pub system_namespace: String,
    /// The recorder of events.
    pub events: Events,
    /// The running pulls of bundles.
    pub pulls: BundlePulls,
}

/// The pulls of bundles.
pub type BundlePulls = Jobs<Result<Arc<Bundle>, PullFailure>>;

/// Returns an empty set of pulls.
pub fn bundle_pulls() -> BundlePulls {
    let overdue = |after: Duration| Err(PullFailure::other(format!("the pull was given up after {} s", after.as_secs())));
    Jobs::new(Terms { deadline: PULL, fresh: Duration::ZERO }, overdue)
}

/// A failure of a reconcile that no condition can show.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The object is not a ClusterExtension.
    #[error("clusterextension {name} cannot be read")]
    Form {
        /// The extension.
        name: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The unpacked bundles could not be dropped.
    #[error("clusterextension {name}: dropping what was unpacked failed")]
    Forget {
        /// The extension.
        name: String,
        /// The cause.
        source: SharedError,
    },
    /// The plan could not be computed.
    #[error("clusterextension {name}: the plan could not be made")]
    Thinking {
        /// The extension.
        name: String,
        /// The cause.
        source: ThinkError,
    },
    /// The plan asked for facts more often than the limit allows.
    #[error("clusterextension {name}: the plan did not come to an end")]
    Endless {
        /// The extension.
        name: String,
    },
}

/// Extensions that are reconciled at a time.
const WORKERS: usize = 4;
/// The longest time of a pull of a bundle, including unpacking and reading.
const PULL: Duration = Duration::from_secs(600);
/// The back-off of failures. The first retries come soon, since most failures wait for a permission or for an image to be pushed.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(60) };

/// Starts the cache of all ClusterCatalogs.
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
    // If the process is told to stop before the first list, the cache never becomes ready.
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
        // A refused extension waits for a permission to be granted (OLM1-PERM-02).
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
