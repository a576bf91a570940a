//! The assembly of both controllers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use mainstay_apply::{Recorder, Writer};
use mainstay_catalog_serve::content::{self, Queries};
use mainstay_catalog_store::{CatalogStore, StoreError};
use mainstay_image_source::ImageError;
use mainstay_image_source::global_pull_secret::{GlobalPullSecret, GlobalPullSecretError};
use mainstay_image_source::mirrors::RefusedRules;
use mainstay_image_source::mirrors::watch::MirrorController;
use mainstay_image_source::registries::RegistrySettings;
use mainstay_oci::{ClientConfig, Settings};
use mainstay_olm_v1_core::extension::FIELD_MANAGER;
use mainstay_olm_v1_core::gates::FeatureGates;
use mainstay_runtime::{Accounts, Cluster, ConnectError, Env, Key, Kinds};
use tokio_util::sync::CancellationToken;

use crate::catalog::controller::{Catalogs, pulls, run as run_catalogs};
use crate::catalog::served::ServedCatalogs;
use crate::catalog_secrets::CatalogSecrets;
use crate::events::Events;
use crate::extension::catalogs::{CatalogCache, CatalogClient};
use crate::extension::controller::{Extensions, bundle_pulls, catalog_cache, run as run_extensions};
use crate::extension::roles::Policy;
use crate::images::Images;
use crate::{serving, sizes};

/// The settings of both controllers.
pub struct Setup {
    /// The cluster, with catalogd's identity.
    pub catalogd: Cluster,
    /// The cluster, with operator-controller's identity.
    pub operator_controller: Cluster,
    /// Clock and randomness.
    pub env: Env,
    /// The feature gates.
    pub gates: FeatureGates,
    /// The namespace of the install records.
    pub system_namespace: String,
    /// The folder for caches. Only `catalogs` and `unpack` below it are touched.
    pub cache: PathBuf,
    /// The address of the router, `https://HOST:PORT` (OLM1-CAT-19).
    pub external_address: String,
    /// The authority that signed that address's certificate, as PEM.
    pub authority: Vec<u8>,
    /// Credentials, mirrors and authorities for registries.
    pub registries: ClientConfig,
    /// The interval at which unreferenced catalogs are removed.
    pub gc_interval: Duration,
    /// True if the controller's own identity installs (OLM1-API-07).
    pub ignore_service_account: bool,
}

/// The controllers of a process (OLM1-GEN-01).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parts {
    /// Both controllers, which share what they store.
    #[default]
    Both,
    /// Only catalogd.
    Catalogd,
    /// Only operator-controller.
    OperatorController,
}

/// The further settings of a process on a real cluster.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The controllers to run.
    pub parts: Parts,
    /// The files of container tools, read again before each pull (OLM1-GEN-12).
    pub files: Option<Settings>,
    /// A folder with authorities of registries (OLM1-GEN-06).
    pub pull_authorities: Option<PathBuf>,
    /// A folder with authorities of catalogd.
    pub catalog_authorities: Option<PathBuf>,
    /// The global pull secret (OLM1-GEN-10).
    pub pull_secret: Option<Key>,
}

/// An error that keeps the controllers from starting.
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
    /// The authority is not a certificate.
    #[error("the authority of the catalogs' address cannot be used")]
    Authority(#[from] reqwest::Error),
    /// The authorities of catalogd cannot be read.
    #[error("the authorities of catalogd cannot be used")]
    Authorities(#[source] mainstay_oci::Error),
    /// The auth file of the global pull secret cannot be written.
    #[error(transparent)]
    PullSecret(#[from] GlobalPullSecretError),
}

/// The controllers, ready to run.
pub struct Ready {
    /// The routes of catalogd, below `/catalogs`.
    pub router: Router,
    pull_secret: Option<Arc<GlobalPullSecret>>,
    catalogs: Option<(Arc<MirrorController>, Arc<Catalogs>)>,
    extensions: Option<ExtensionsReady>,
}

/// The extension controller, with the copies of catalogs that it keeps.
type Started = (Arc<Extensions>, Arc<CatalogCache>);

/// The deferred start of the extension controller's caches.
struct ExtensionsReady {
    start: Box<dyn FnOnce(&CancellationToken) -> Started + Send>,
    /// True if this part removes unreferenced copies. If it shares the store with catalogd, catalogd removes them.
    collects: bool,
}

impl Setup {
    /// Opens both controllers with the default surroundings; see [`Setup::open_in`].
    pub fn open(self) -> Result<Ready, SetupError> {
        self.open_in(Surroundings::default())
    }

    /// Opens the caches and makes the clients. No request is sent to the cluster yet.
    pub fn open_in(self, around: Surroundings) -> Result<Ready, SetupError> {
        for gate in self.gates.unimplemented() {
            tracing::warn!(gate, "the feature gate is on, but what it turns on is not implemented");
        }
        tracing::info!(gates = %self.gates, "feature gates");
        let (has_catalogs, has_extensions) = (around.parts != Parts::OperatorController, around.parts != Parts::Catalogd);
        let pull_secret = around.pull_secret.map(|secret| {
            let cluster = if has_catalogs { &self.catalogd } else { &self.operator_controller };
            Ok::<_, SetupError>(Arc::new(GlobalPullSecret::new(cluster.client()?, secret, self.env.clone())?))
        });
        let pull_secret = pull_secret.transpose()?;
        let store = Arc::new(CatalogStore::open(&self.cache.join("catalogs"))?);
        let settings = RegistrySettings {
            base: self.registries,
            files: around.files,
            authorities: around.pull_authorities,
            auth_file: pull_secret.as_ref().map(|secret| secret.auth_file()),
        };
        let reads = if has_catalogs { &self.catalogd } else { &self.operator_controller };
        let secrets = Arc::new(CatalogSecrets::new(reads.client()?, self.system_namespace.clone()));
        let images = Arc::new(Images::open(&self.cache, store.clone(), settings)?.with_secrets(secrets.clone()));
        sizes::show(self.env.metrics(), &store, self.cache.join("unpack"));
        let events =
            |writer: &Writer, controller: &str| Events::new(Recorder::new(writer.clone(), self.env.clone(), controller, "mainstay"));

        let (mut router, mut catalogs) = (Router::new(), None);
        if has_catalogs {
            let served = ServedCatalogs::default();
            let queries = if self.gates.on("APIV1MetasHandler") { Queries::Answered } else { Queries::Unknown };
            router = serving::measured(content::router(Arc::new(served.clone()), queries), self.env.metrics());
            let client = self.catalogd.client()?;
            let writer = Writer::new(client.clone(), Kinds::new(client), "catalogd");
            let events = events(&writer, "catalogd");
            let told = events.clone();
            let report = move |refused: &RefusedRules| told.warning(&refused.object, RefusedRules::REASON, &refused.note());
            let mirrors = MirrorController::new(writer.client().clone(), images.source().clone(), Box::new(report), self.env.clone());
            let controller = Catalogs {
                events,
                writer,
                env: self.env.clone(),
                images: images.clone(),
                store: store.clone(),
                served,
                external_address: self.external_address,
                gc_interval: self.gc_interval,
                pulls: pulls(),
                secrets,
            };
            catalogs = Some((Arc::new(mirrors), Arc::new(controller)));
        }

        let mut extensions = None;
        if has_extensions {
            let client = self.operator_controller.client()?;
            let kinds = Kinds::new(client.clone());
            let http = CatalogClient::new(self.authority, around.catalog_authorities)?;
            let writer = Writer::new(client.clone(), kinds.clone(), FIELD_MANAGER);
            let events = events(&writer, FIELD_MANAGER);
            let start = move |stop: &CancellationToken| {
                let metrics = &self.env.metrics().clone();
                let catalog_cache = catalog_cache(&client, stop).shown(metrics);
                let copies = Arc::new(CatalogCache::new(catalog_cache.clone(), store, http));
                let extensions = Extensions {
                    writer,
                    accounts: Accounts::new(self.operator_controller, client.clone(), self.env.clone()),
                    kinds,
                    env: self.env,
                    gates: self.gates,
                    ignore_service_account: self.ignore_service_account,
                    pulls: bundle_pulls(),
                    bundles: images,
                    catalogs: copies.clone(),
                    catalog_cache,
                    policy: Policy::start(&client, stop).shown(metrics),
                    system_namespace: self.system_namespace,
                    events,
                };
                (Arc::new(extensions), copies)
            };
            extensions = Some(ExtensionsReady { start: Box::new(start), collects: !has_catalogs });
        }
        Ok(Ready { router, pull_secret, catalogs, extensions })
    }
}

impl Ready {
    /// Runs the controllers until `stop`, and keeps the settings for pulls current.
    pub async fn run(self, stop: CancellationToken) {
        let Self { pull_secret, catalogs, extensions, .. } = self;
        let pull_secret = pull_secret.map(|secret| secret.watch(stop.clone()));
        let (mirrors, catalogs) = catalogs.unzip();
        let rules = mirrors.clone();
        let mirroring = async {
            if let Some(mirrors) = mirrors {
                mirrors.run(stop.clone()).await;
            }
        };
        let extensions = extensions.map(|ready| ((ready.start)(&stop), ready.collects));
        let controllers = async {
            // Without rules and credentials the first pulls would contact registries that may be forbidden to them.
            let known = async {
                if let Some(mirrors) = rules {
                    mirrors.known().await;
                }
                if let Some(secret) = &pull_secret {
                    secret.known().await;
                }
            };
            if stop.run_until_cancelled(known).await.is_none() {
                return;
            }
            let secret = async {
                if let Some(secret) = pull_secret {
                    secret.run().await;
                }
            };
            let catalogs = async {
                if let Some(catalogs) = catalogs {
                    run_catalogs(catalogs, stop.clone()).await;
                }
            };
            let extensions = async {
                let Some(((extensions, copies), collects)) = extensions else { return };
                let collecting = async {
                    if collects {
                        copies.collect_when_changed(&stop).await;
                    }
                };
                tokio::join!(run_extensions(extensions, stop.clone()), collecting);
            };
            tokio::join!(secret, catalogs, extensions);
        };
        tokio::join!(mirroring, controllers);
    }
}
