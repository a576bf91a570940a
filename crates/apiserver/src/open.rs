//! Opening and closing the server.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use jiff::Timestamp;
use mainstay_rbac::UserInfo;
use mainstay_serve::{Certificates, ClientCertificates, Ended, Tls};
use mainstay_store::{Embedded, Etcd, Store, etcd};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::access::pki::{self, Pair, Pki, ServingNames};
use crate::access::{AnonymousAccess, Escalation, FrontProxy, Gate, Kubeconfig, StaticTokens};
use crate::admission::{Chain, Plugins, Steps};
use crate::aggregation::Availability;
use crate::api::Api;
use crate::bootstrap::{self, Authorities, Endpoint};
use crate::cache::Cache;
use crate::containers::Containers;
use crate::crd::Establisher;
use crate::error::ApiError;
use crate::flow;
use crate::horizon;
use crate::members;
use crate::object_store::ObjectStore;
use crate::policy_status::PolicyStatus;
use crate::remote::{Identity, LocalService, Remotes};
use crate::reported::ReportedVersion;
use crate::rest::ControlPlane;
use crate::server;

/// The set-up of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Holds everything that lasts.
    pub data_dir: PathBuf,
    /// The address of the API, as the `kubernetes` Service has it.
    pub endpoint: Endpoint,
    /// Further names and addresses of the serving certificate.
    pub names: ServingNames,
    /// The paths that requests without credentials may ask for.
    pub anonymous: AnonymousAccess,
    /// The issuer of ServiceAccount tokens, an address at which others find its keys; `None` for the usual one.
    pub issuer: Option<String>,
    /// A file of static tokens.
    pub token_file: Option<PathBuf>,
    /// The admission plugins that are on.
    pub plugins: Plugins,
    /// Steps of admission besides: behind the plugins that change objects, before webhooks.
    pub steps: Steps,
    /// The store of the objects.
    pub store: Storage,
    /// Keys and certificates that several servers have in common; `None` is a folder of the data directory.
    pub pki_dir: Option<PathBuf>,
    /// Limits of requests in flight (KAPI-SRV-06).
    pub limits: crate::inflight::Limits,
    /// Services that are processes on this machine (KAPI-WL-06).
    pub local_services: Vec<LocalService>,
    /// Passes over admission webhooks whose pods are simulated, with a warning in each answer.
    pub skip_simulated_webhooks: bool,
    /// Containers that are processes of this machine (KAPI-WL-07).
    pub containers: Option<Arc<dyn Containers>>,
    /// The components that run in this process beside the API.
    pub control_plane: ControlPlane,
    /// The version of Kubernetes that is reported (CVO-SIM-05).
    pub reported: ReportedVersion,
    /// Further pages of this process below `/mainstay/`: guarded by RBAC, and asked with the [`crate::TrustedIdentity`] of the user who
    /// asks among the request's extensions.
    pub pages: axum::Router,
}

impl Config {
    /// A server on this machine alone, reached at this port of the loopback address; everything else as it is unless somebody asks.
    pub fn local(data_dir: impl Into<PathBuf>, port: u16) -> Self {
        Self {
            data_dir: data_dir.into(),
            endpoint: Endpoint { address: std::net::Ipv4Addr::LOCALHOST.to_string(), port },
            names: ServingNames::default(),
            anonymous: AnonymousAccess::default(),
            issuer: None,
            token_file: None,
            plugins: Plugins::default(),
            steps: Steps::default(),
            store: Storage::default(),
            pki_dir: None,
            limits: crate::inflight::Limits::default(),
            local_services: Vec::new(),
            skip_simulated_webhooks: false,
            containers: None,
            control_plane: ControlPlane::default(),
            reported: ReportedVersion::default(),
            pages: axum::Router::new(),
        }
    }
}

/// The store of the objects.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In the data directory, for this server alone.
    Embedded(mainstay_store::Options),
    /// In an etcd cluster that several servers may share (KAPI-STORE-03).
    Etcd(etcd::Options),
}

impl Default for Storage {
    fn default() -> Self {
        Self::Embedded(mainstay_store::Options::default())
    }
}

impl Storage {
    async fn open(self, data_dir: &Path) -> Result<Arc<dyn Store>, OpenError> {
        let options = match self {
            Self::Etcd(options) => return Ok(Arc::new(Etcd::open(options).await?)),
            Self::Embedded(options) => options,
        };
        let earlier = data_dir.join("store.redb");
        if earlier.exists() {
            return Err(mainstay_store::Error::Foreign { path: earlier }.into());
        }
        Ok(Arc::new(Embedded::open(&data_dir.join("store"), &options)?))
    }
}

/// Why a server could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the data directory (KAPI-SRV-05).
    #[error("data directory {path} is in use by process {pid}; stop that process, or choose another directory")]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that holds it.
        pid: String,
    },
    /// The data directory cannot be used.
    #[error("data directory {path}: {action} failed")]
    Directory {
        /// The directory or file.
        path: PathBuf,
        /// The step that failed.
        action: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] mainstay_store::Error),
    /// Keys and certificates cannot be made or read.
    #[error(transparent)]
    Pki(#[from] pki::PkiError),
    /// The file of static tokens cannot be read.
    #[error(transparent)]
    Tokens(#[from] crate::access::TokenFileError),
    /// The serving certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] mainstay_serve::Error),
    /// The built-in objects cannot be written.
    #[error("creating the built-in objects: {0}")]
    Bootstrap(#[from] ApiError),
}

/// A running API server. Listeners are given to it by [`Server::serve`].
pub struct Server {
    api: Arc<Api>,
    gate: Arc<Gate>,
    ca: Pair,
    serving: Pair,
    admin: Pair,
    front_proxy_ca: String,
    data_dir: PathBuf,
    endpoint: Endpoint,
    tasks: Vec<JoinHandle<()>>,
    _lock: Lock,
}

impl Server {
    /// Opens the data directory: locks it, opens the store, fills the cache, makes the built-in objects, serves the stored CRDs.
    pub async fn open(mut config: Config) -> Result<Self, OpenError> {
        let lock = lock(&config.data_dir)?;
        let store = std::mem::take(&mut config.store).open(&config.data_dir).await?;
        Self::over(store, config, lock).await
    }

    /// Opens a data directory that is locked, over a store that is open.
    pub(crate) async fn over(store: Arc<dyn Store>, config: Config, lock: Lock) -> Result<Self, OpenError> {
        let mut names = config.names.clone();
        names.host = names.host.or_else(pki::host_name);
        let own = config.data_dir.join("pki");
        let pki = Pki::open_in(config.pki_dir.as_deref().unwrap_or(&own), &own, &names, Timestamp::now())?;
        let cache = Cache::fill(store.clone()).await?;
        let Pki { ca, serving, admin, signing_key, front_proxy_ca, front_proxy } = pki;
        let front_proxy_ca = front_proxy_ca.certificate;
        let mut gate = Gate::over(&cache, &ca.certificate, signing_key, config.issuer.clone())?;
        gate.authenticator = gate.authenticator.anonymous(config.anonymous).front_proxy(FrontProxy::new(&front_proxy_ca)?);
        if let Some(path) = &config.token_file {
            gate.authenticator = gate.authenticator.static_tokens(StaticTokens::read(path)?);
        }
        let gate = Arc::new(gate);
        let identity = Identity { certificate: front_proxy.certificate, key: front_proxy.key };
        let remotes =
            Remotes::new(cache.clone(), config.local_services).front_proxy(identity).skip_simulated(config.skip_simulated_webhooks);
        let remotes = Arc::new(remotes);
        let mut chain = Chain::new(config.plugins.clone(), &remotes);
        chain.extend(&config.steps);
        chain.push(Arc::new(Escalation(gate.policy.clone())));
        let objects = Arc::new(ObjectStore::new(store, cache));
        let mut api = Api::new(objects, gate.clone(), chain, remotes);
        api.inflight = Arc::new(crate::inflight::InFlight::new(config.limits));
        api.pages = config.pages;
        api.containers = config.containers;
        api.reported = config.reported;
        api.control_plane = config.control_plane;
        api.backup = crate::backup::Source([Some(own), config.pki_dir].into_iter().flatten().collect());
        let api = Arc::new(api);
        let mut server = Self {
            api,
            gate,
            ca,
            serving,
            admin,
            front_proxy_ca,
            data_dir: config.data_dir,
            endpoint: config.endpoint.clone(),
            tasks: Vec::new(),
            _lock: lock,
        };
        server.begin(&config.endpoint).await?;
        Ok(server)
    }

    async fn begin(&mut self, endpoint: &Endpoint) -> Result<(), OpenError> {
        let Api { objects, remotes, aggregation, closing, .. } = &*self.api;
        let cache = &objects.cache;
        let policy = self.gate.policy.clone();
        cache.observe(Box::new(move |resource, change| policy.observe(resource, change)));
        aggregation.follow(cache);
        let follower = cache.clone();
        self.tasks.push(tokio::spawn(async move {
            if let Err(error) = follower.run().await {
                tracing::error!(error = &error as &dyn std::error::Error, "the watch cache ended");
            }
        }));
        let parts = bootstrap::Parts { objects: objects.clone(), services: self.api.services.clone() };
        let authorities = Authorities { clients: &self.ca.certificate, front_proxy: &self.front_proxy_ca };
        let keeper = flow::Keeper::new(objects.clone(), self.api.flows.clone());
        keeper.begin().await?;
        bootstrap::run(&parts, endpoint, &authorities).await?;
        if cache.catch_up().await.is_none() {
            return Err(ApiError::internal("the watch cache does not follow the store").into());
        }
        keeper.refresh()?;
        self.tasks.push(tokio::spawn(keeper.run(closing.clone())));
        self.tasks.push(tokio::spawn(horizon::run(objects.clone(), closing.clone())));
        let mut establisher = Establisher::new(objects.clone(), remotes.clone(), closing.clone());
        establisher.once().await?;
        self.tasks.push(tokio::spawn(establisher.run()));
        if self.api.control_plane.controllers {
            // In Kubernetes kube-controller-manager checks the types of policies.
            self.tasks.push(tokio::spawn(PolicyStatus::new(objects.clone(), closing.clone()).run()));
        }
        let (objects, aggregation, remotes) = (objects.clone(), aggregation.clone(), remotes.clone());
        let availability = Availability { objects, aggregation, remotes, closing: closing.clone() };
        self.tasks.push(tokio::spawn(availability.run()));
        self.tasks.push(tokio::spawn(bootstrap::keep(parts.clone(), endpoint.clone(), closing.clone())));
        if parts.objects.store.shared() {
            self.tasks.push(tokio::spawn(members::run(parts, endpoint.clone(), members::Members::default(), closing.clone())));
        }
        self.api.readiness.bootstrapped.store(true, Ordering::Release);
        Ok(())
    }

    /// Serves HTTPS on a bound listener until the token is cancelled.
    pub fn serve(&self, listener: mainstay_serve::Server, shutdown: CancellationToken) -> Result<JoinHandle<Ended>, OpenError> {
        let certificates = Certificates::from_pem(self.serving.certificate.as_bytes(), self.serving.key.as_bytes())?;
        let listener = listener.tls(Tls::new(&certificates, ClientCertificates::Requested)?);
        Ok(tokio::spawn(listener.run(self.router(), shutdown)))
    }

    /// Writes the kubeconfig of the administrator to `DATA_DIR/kubeconfig` and answers its path (KAPI-SRV-01).
    pub fn write_kubeconfig(&self, server: &str) -> Result<PathBuf, OpenError> {
        let path = self.data_dir.join("kubeconfig");
        let (ca, certificate, key) = (&self.ca.certificate, &self.admin.certificate, &self.admin.key);
        Kubeconfig { name: "mainstay", server, user: "kubernetes-admin", ca, certificate, key }.write(&path)?;
        Ok(path)
    }

    /// The CA's key, PEM: for whoever signs certificates of the cluster.
    pub fn ca_key(&self) -> &str {
        &self.ca.key
    }

    /// The CA's certificate, PEM: what clients trust, and what `kube-root-ca.crt` holds.
    pub fn ca_certificate(&self) -> &str {
        &self.ca.certificate
    }

    /// Authentication and authorization.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The parts of the server.
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// Has a process on this machine stand for a Service from now on: aggregated APIs and webhooks of that Service are asked there. A Service
    /// that the configuration names stays with its process.
    pub fn serve_locally(&self, service: LocalService) {
        self.api.remotes.serve_locally(service);
    }

    /// The router for listeners: who asks follows from certificates and tokens.
    pub fn router(&self) -> Router {
        server::router(self.api.clone())
    }

    /// The router for callers inside the process, all with this identity.
    pub fn in_process(&self, user: UserInfo) -> Router {
        server::in_process(self.api.clone(), Arc::new(user))
    }

    /// Ends every watch, so that listeners can drain.
    pub fn end_watches(&self) {
        self.api.closing.cancel();
        self.api.objects.cache.close();
    }

    /// Ends watches, finishes writes and closes the store (KAPI-SRV-04). Listeners are to be stopped before.
    pub async fn close(self) {
        if self.api.objects.store.shared() {
            let parts = bootstrap::Parts { objects: self.api.objects.clone(), services: self.api.services.clone() };
            members::leave(&parts, &self.endpoint).await;
        }
        self.api.closing.cancel();
        self.api.objects.cache.close();
        self.api.objects.store.close().await;
        for task in self.tasks {
            // A task that ended by itself has said why.
            let _ = task.await;
        }
    }
}

/// A data directory that is this process's.
#[derive(Debug)]
pub(crate) struct Lock {
    _held: [File; 2],
}

pub(crate) fn lock(directory: &Path) -> Result<Lock, OpenError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Directory { path, action, source }
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed("creating it", directory))?;
    let path = directory.join("lock");
    let opened = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = opened.map_err(failed("opening the lock", &path))?;
    // The directory itself: a file in it can be removed and made again, and then two processes hold a lock each.
    let itself = File::open(directory).map_err(failed("opening it", directory))?;
    for (held, must) in [(&itself, false), (&file, true)] {
        match patiently(held) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Whoever holds the lock has written its id there, unless it is just about to.
                let _ = (&file).read_to_string(&mut pid);
                let pid = if pid.trim().is_empty() { "(unknown)".to_owned() } else { pid.trim().to_owned() };
                return Err(OpenError::InUse { path: directory.to_owned(), pid });
            }
            Err(TryLockError::Error(source)) if must => return Err(failed("locking", &path)(source)),
            // Some file systems have no locks for directories; the file has to do there.
            Err(TryLockError::Error(error)) => tracing::debug!(%error, path = %directory.display(), "the directory cannot be locked"),
        }
    }
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    // A full disk must not keep the cluster from being read.
    if let Err(error) = written {
        tracing::warn!(%error, path = %path.display(), "the holder of the lock could not be noted");
    }
    Ok(Lock { _held: [itself, file] })
}

/// Locks a file, a few times: a process that only looks whether a lock is held holds it for an instant.
fn patiently(file: &File) -> Result<(), TryLockError> {
    for _ in 0..4 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(std::time::Duration::from_millis(20)),
            outcome => return outcome,
        }
    }
    file.try_lock()
}
