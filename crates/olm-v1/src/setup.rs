//! Putting both controllers together.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use mainstay_apply::{Recorder, Writer};
use mainstay_catalog_serve::content::{self, Queries};
use mainstay_catalog_store::{CatalogStore, StoreError};
use mainstay_oci::ClientConfig;
use mainstay_runtime::{Accounts, Cluster, ConnectError, Env, Kinds};
use tokio_util::sync::CancellationToken;

use crate::catalog::controller::{Catalogs, run as run_catalogs};
use crate::catalog::shelf::Shelf;
use crate::events::Events;
use crate::extension::act::FIELD_MANAGER;
use crate::extension::catalogs::CatalogCache;
use crate::extension::controller::{Extensions, catalog_cache, policy, run as run_extensions};
use crate::gates::FeatureGates;
use crate::images::Images;
use crate::mirrors::watch::Mirrors;

/// What both controllers are given.
pub struct Setup {
    /// The cluster, as catalogd.
    pub catalogd: Cluster,
    /// The cluster, as operator-controller.
    pub operator_controller: Cluster,
    /// Clock and chance.
    pub env: Env,
    /// The feature gates.
    pub gates: FeatureGates,
    /// The namespace of the install records.
    pub system_namespace: String,
    /// The folder of this system's caches; only `catalogs`, `unpack` and `pull` below it are touched.
    pub cache: PathBuf,
    /// `https://HOST:PORT` under which the router is reached (OLM1-CAT-19).
    pub external_address: String,
    /// The authority that signed that address's certificate, as PEM.
    pub authority: Vec<u8>,
    /// Credentials, mirrors and authorities for registries.
    pub registries: ClientConfig,
    /// How often unreferenced catalogs are removed.
    pub gc_interval: Duration,
    /// Whether the controller's own identity installs (OLM1-API-07).
    pub ignore_service_account: bool,
}

/// Why the controllers do not start.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No client.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The store of catalogs cannot be opened.
    #[error("the store of catalogs cannot be opened")]
    Store(#[from] StoreError),
    /// The cache of images cannot be opened.
    #[error("the cache of images cannot be opened")]
    Images(#[from] mainstay_oci::Error),
    /// The authority is no certificate.
    #[error("the authority of the catalogs' address cannot be used")]
    Authority(#[from] reqwest::Error),
}

/// The controllers, ready to run.
pub struct Ready {
    /// What catalogd serves, below `/catalogs`.
    pub router: Router,
    mirrors: Arc<Mirrors>,
    catalogs: Arc<Catalogs>,
    extensions: Box<dyn FnOnce(CancellationToken) -> Arc<Extensions> + Send>,
}

impl Setup {
    /// Opens the caches and makes the clients; nothing is asked of the cluster yet.
    pub fn open(self) -> Result<Ready, SetupError> {
        for gate in self.gates.unimplemented() {
            tracing::warn!(gate, "the feature gate is on, but what it turns on is not implemented");
        }
        tracing::info!(gates = %self.gates, "feature gates");
        let client = self.operator_controller.client()?;
        let kinds = Kinds::new(client.clone());
        let catalog_client = self.catalogd.client()?;
        let store = Arc::new(CatalogStore::open(&self.cache.join("catalogs"))?);
        let images = Arc::new(Images::open(&self.cache, store.clone(), self.registries.clone())?);
        let events =
            |writer: &Writer, controller: &str| Events::new(Recorder::new(writer.clone(), self.env.clone(), controller, "mainstay"));
        let mut http = reqwest::Client::builder();
        if !self.authority.is_empty() {
            http = http.add_root_certificate(reqwest::Certificate::from_pem(&self.authority)?);
        }
        let http = http.build()?;
        let shelf = Shelf::default();
        let queries = if self.gates.on("APIV1MetasHandler") { Queries::Answered } else { Queries::Unknown };
        let router = content::router(Arc::new(shelf.clone()), queries);
        let writer = Writer::new(catalog_client.clone(), Kinds::new(catalog_client), "catalogd");
        let catalog_events = events(&writer, "catalogd");
        let mirrors = Mirrors::new(writer.client().clone(), images.clone(), self.registries, catalog_events.clone(), self.env.clone());
        let catalogs = Arc::new(Catalogs {
            events: catalog_events,
            writer,
            env: self.env.clone(),
            images: images.clone(),
            store: store.clone(),
            shelf,
            external_address: self.external_address,
            gc_interval: self.gc_interval,
        });
        let writer = Writer::new(client.clone(), kinds.clone(), FIELD_MANAGER);
        let events = events(&writer, FIELD_MANAGER);
        let extensions = move |stop: CancellationToken| {
            let catalog_cache = catalog_cache(&client, &stop);
            Arc::new(Extensions {
                writer,
                accounts: Accounts::new(self.operator_controller, client.clone(), self.env.clone()),
                kinds,
                env: self.env,
                gates: self.gates,
                ignore_service_account: self.ignore_service_account,
                bundles: images,
                catalogs: Arc::new(CatalogCache::new(catalog_cache.clone(), store, http)),
                catalog_cache,
                policy: policy(&client, &stop),
                system_namespace: self.system_namespace,
                events,
            })
        };
        Ok(Ready { router, mirrors: Arc::new(mirrors), catalogs, extensions: Box::new(extensions) })
    }
}

impl Ready {
    /// Runs both controllers until `stop`, and keeps the mirror rules for them.
    pub async fn run(self, stop: CancellationToken) {
        let extensions = (self.extensions)(stop.clone());
        let controllers = async {
            // Without the rules the first pulls would ask registries that the cluster may not reach.
            if stop.run_until_cancelled(self.mirrors.known()).await.is_some() {
                tokio::join!(run_catalogs(self.catalogs, stop.clone()), run_extensions(extensions, stop.clone()));
            }
        };
        tokio::join!(self.mirrors.clone().run(stop.clone()), controllers);
    }
}
