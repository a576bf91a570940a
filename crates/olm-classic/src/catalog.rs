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
//! Catalogs are pulled and read in this process (`in-process` of OLM0-CAT-34).

mod bundles;
mod caches;
mod configmap;
mod contents;
mod execute;
mod images;
mod metrics;
mod namespaces;
mod parts;
mod plans;
mod remote;
mod snapshot;
mod sources;
mod versions;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mainstay_apply::{Recorder, Writer};
use mainstay_catalog_store::{CatalogStore, SourceContents, StoreError};
use mainstay_image_source::mirrors::RefusedRules;
use mainstay_image_source::mirrors::watch::MirrorController;
use mainstay_image_source::registries::RegistrySettings;
use mainstay_image_source::{ImageError, ImageSource};
use mainstay_oci::{ClientConfig, Settings};
use mainstay_olm_classic_core::resolve::{Isolation, UnhealthyCatalogs};
use mainstay_runtime::{Accounts, Cluster, ConnectError, Env, Kinds};
use tokio_util::sync::CancellationToken;

use parts::Parts;

pub use contents::resolver_content;
pub use parts::FIELD_MANAGER;

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
}

/// Runs the catalog operator until `stop`.
pub async fn run(setup: Setup, stop: CancellationToken) -> Result<(), SetupError> {
    let client = setup.cluster.client()?;
    let kinds = Kinds::new(client.clone());
    let writer = Writer::new(client.clone(), kinds.clone(), FIELD_MANAGER);
    let recorder = Recorder::new(writer.clone(), setup.env.clone(), "catalog-operator", "mainstay");
    let store = Arc::new(CatalogStore::open(&setup.cache.join("catalogs"))?);
    let settings = RegistrySettings { base: setup.registries, files: setup.files, authorities: setup.authorities, auth_file: None };
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
    let work = async {
        // Without rules the first pulls would contact registries that may be forbidden to them.
        let known = async { tokio::join!(mirrors.known(), parts.caches.ready()) };
        if stop.run_until_cancelled(known).await.is_none() {
            return;
        }
        let resolving = namespaces::Controller::new(parts.clone());
        tokio::join!(
            sources::run(parts.clone(), resolving.clone(), stop.clone()),
            plans::run(parts.clone(), resolving.clone(), stop.clone()),
            resolving.run(stop.clone()),
        );
    };
    tokio::join!(mirrors.clone().run(stop.clone()), work);
    Ok(())
}
