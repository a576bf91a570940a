//! The catalog operator: CatalogSources, Subscriptions and InstallPlans.
//!
//! ```text
//!   CatalogSource ── sources ──► images: pull ──► SourceContents ──► package server
//!                                                     │
//!   Subscription, CSV, OperatorGroup ── namespaces: resolve, unpack bundles ──► InstallPlan
//!                                                                                  │
//!                                          plans: approve, execute steps as OLM or as the group's account
//! ```
//!
//! Catalogs are pulled and read in this process, or pods serve them and Jobs unpack bundles ([`CatalogServing`], OLM0-CAT-34).

mod bundles;
mod caches;
mod configmap;
mod contents;
mod execute;
mod images;
mod metrics;
mod namespaces;
mod objects;
mod parts;
mod plans;
mod pod_images;
mod registry_words;
mod remote;
mod serving;
mod snapshot;
mod sources;
mod unfinished;
mod versions;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mainstay_apply::{Recorder, Writer};
use mainstay_catalog_store::{CatalogStore, SourceContents, StoreError};
use mainstay_image_source::global_pull_secret::{GlobalPullSecret, GlobalPullSecretError};
use mainstay_image_source::mirrors::RefusedRules;
use mainstay_image_source::mirrors::watch::MirrorController;
use mainstay_image_source::registries::RegistrySettings;
use mainstay_image_source::{ImageError, ImageSource};
use mainstay_oci::{ClientConfig, Settings};
use mainstay_olm_classic_core::resolve::{Isolation, UnhealthyCatalogs};
use mainstay_runtime::{Accounts, Cluster, ConnectError, Env, Key, Kinds};
use tokio_util::sync::CancellationToken;

use parts::Parts;

pub use contents::resolver_content;
pub use parts::FIELD_MANAGER;
pub use pod_images::{PodImages, PulledImage};
pub use serving::{CatalogServing, PodContent};

/// Its Lease, where several processes could run it.
pub const LEASE: &str = "catalog-operator-lock";

/// The settings of the catalog operator (OLM0-CAT-33).
pub struct Setup {
    /// The cluster, with the operator's identity.
    pub cluster: Cluster,
    /// Clock and randomness.
    pub env: Env,
    /// The namespace whose catalogs every namespace sees.
    pub global_namespace: String,
    /// The folder for catalogs and bundles.
    pub cache: PathBuf,
    /// Credentials, mirrors and authorities for registries.
    pub registries: ClientConfig,
    /// The files of container tools, read again before each pull.
    pub files: Option<Settings>,
    /// A folder of authorities to trust for registries.
    pub authorities: Option<PathBuf>,
    /// The content of ready catalogs, for the package server.
    pub contents: SourceContents,
    /// The time for which a failing InstallPlan is tried again (OLM0-IP-11).
    pub retry_for: Duration,
    /// The time in which a bundle must be unpacked (OLM0-CAT-31).
    pub unpack_timeout: Duration,
    /// The reach of a failed resolution (OLM0-RES-32).
    pub isolation: Isolation,
    /// The reach of a catalog that cannot be read (OLM0-CAT-35).
    pub unhealthy_catalogs: UnhealthyCatalogs,
    /// The way in which catalogs are served and bundles unpacked (OLM0-CAT-34).
    pub serving: CatalogServing,
    /// The images of simulated pods, which this operator pulls (OLM0-CAT-36).
    pub pod_images: Option<PodImages>,
    /// The Secret with credentials for every pull (OLM0-CAT-10).
    pub global_pull_secret: Option<Key>,
}

impl Setup {
    /// The settings that upstream has by default.
    pub fn new(cluster: Cluster, env: Env, cache: PathBuf, registries: ClientConfig) -> Self {
        Self {
            cluster,
            env,
            global_namespace: "openshift-marketplace".to_owned(),
            cache,
            registries,
            files: None,
            authorities: None,
            contents: SourceContents::default(),
            retry_for: Duration::from_secs(60),
            unpack_timeout: Duration::from_secs(600),
            isolation: Isolation::default(),
            unhealthy_catalogs: UnhealthyCatalogs::default(),
            serving: CatalogServing::default(),
            pod_images: None,
            global_pull_secret: None,
        }
    }
}

/// An error that keeps the catalog operator from starting.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No client could be made.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The store of catalogs cannot be opened.
    #[error("the store of catalogs cannot be opened")]
    Store(#[from] StoreError),
    /// The cache of images cannot be opened.
    #[error("the cache of images cannot be opened")]
    Images(#[from] ImageError),
    /// The global pull secret cannot be used.
    #[error("the global pull secret cannot be used")]
    PullSecret(#[from] GlobalPullSecretError),
}

/// Runs the catalog operator until `stop`.
pub async fn run(setup: Setup, stop: CancellationToken) -> Result<(), SetupError> {
    let client = setup.cluster.client()?;
    let kinds = Kinds::new(client.clone());
    let writer = Writer::new(client.clone(), kinds.clone(), FIELD_MANAGER);
    let recorder = Recorder::new(writer.clone(), setup.env.clone(), "catalog-operator", "mainstay");
    let store = Arc::new(CatalogStore::open(&setup.cache.join("catalogs"))?);
    let pull_secret =
        setup.global_pull_secret.map(|secret| GlobalPullSecret::new(client.clone(), secret, setup.env.clone())).transpose()?;
    let pull_secret = pull_secret.map(Arc::new);
    let auth_file = pull_secret.as_ref().map(|secret| secret.auth_file());
    let settings = RegistrySettings { base: setup.registries, files: setup.files, authorities: setup.authorities, auth_file };
    let source = ImageSource::open(&setup.cache, settings, |removed| {
        tracing::info!(path = %removed.path.display(), reason = removed.reason, "removed from the cache of unpacked bundles");
    })?;
    let source = Arc::new(source);
    let told = recorder.clone();
    let report = move |refused: &RefusedRules| {
        let note = refused.note();
        let kind = mainstay_apply::EventKind::Warning;
        if let Err(error) = told.record(&refused.object, kind, RefusedRules::REASON, "Reading", &note) {
            tracing::warn!(%error, "an event could not be recorded");
        }
    };
    let mirrors = Arc::new(MirrorController::new(client.clone(), source.clone(), Box::new(report), setup.env.clone()));
    let caches = caches::Caches::start(&client, &setup.env, &stop);
    let parts = Arc::new(Parts {
        accounts: Accounts::new(setup.cluster, client.clone(), setup.env.clone()),
        images: images::Images::new(source, store.clone(), client),
        serving: setup.serving,
        contents: contents::Contents::new(setup.contents, setup.unhealthy_catalogs == UnhealthyCatalogs::Isolate),
        metrics: metrics::Metrics::registered(&setup.env, &caches),
        writer,
        recorder,
        kinds,
        env: setup.env,
        global_namespace: setup.global_namespace,
        store,
        caches,
        retry_for: setup.retry_for,
        unpack_timeout: setup.unpack_timeout,
        isolation: setup.isolation,
        unhealthy_catalogs: setup.unhealthy_catalogs,
    });
    let pull_secret = pull_secret.map(|secret| secret.watch(stop.clone()));
    let work = async {
        // Without rules the first pulls would contact registries that may be forbidden to them.
        let secret = async {
            if let Some(secret) = &pull_secret {
                secret.known().await;
            }
        };
        let known = async { tokio::join!(mirrors.known(), parts.caches.ready(), secret) };
        if stop.run_until_cancelled(known).await.is_none() {
            return;
        }
        if let Some(secret) = pull_secret {
            tokio::spawn(secret.run());
        }
        if let Some(pod_images) = &setup.pod_images {
            pod_images.begin(parts.clone());
        }
        let resolving = namespaces::Controller::new(parts.clone());
        tokio::join!(
            sources::run(parts.clone(), resolving.clone(), stop.clone()),
            plans::run(parts.clone(), resolving.clone(), stop.clone()),
            resolving.run(stop.clone()),
        );
    };
    tokio::join!(mirrors.clone().run(stop.clone()), work);
    if let Some(pod_images) = &setup.pod_images {
        pod_images.end();
    }
    Ok(())
}
