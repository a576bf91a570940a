//! Opening and closing the server.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use mainstay_rbac::UserInfo;
use mainstay_store::{Embedded, Options, Store};
use tokio::task::JoinHandle;

use crate::access_seam::{Access, TrustedOnly};
use crate::admission::Chain;
use crate::api::Api;
use crate::bootstrap::{self, Endpoint};
use crate::cache::Cache;
use crate::crd::Establisher;
use crate::error::ApiError;
use crate::server;

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Holds everything that lasts.
    pub data_dir: PathBuf,
    /// Where the API is reached, as the `kubernetes` Service says it.
    pub endpoint: Endpoint,
    /// How the store is set up.
    pub store: Options,
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
        /// What was tried.
        action: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The store cannot be opened or read.
    #[error(transparent)]
    Store(#[from] mainstay_store::Error),
    /// The built-in objects cannot be written.
    #[error("creating the built-in objects: {0}")]
    Bootstrap(#[from] ApiError),
}

/// A running API server, without listeners.
pub struct Server {
    api: Arc<Api>,
    tasks: Vec<JoinHandle<()>>,
    _lock: Option<File>,
}

impl Server {
    /// Opens the data directory: locks it, opens the store, fills the cache, makes the built-in objects, serves the stored CRDs.
    pub async fn open(config: Config) -> Result<Self, OpenError> {
        let lock = lock(&config.data_dir)?;
        let store: Arc<dyn Store> = Arc::new(Embedded::open(&config.data_dir.join("store.redb"), &config.store)?);
        Self::over(store, &config.endpoint, Arc::new(TrustedOnly), Some(lock)).await
    }

    async fn over(store: Arc<dyn Store>, endpoint: &Endpoint, access: Arc<dyn Access>, lock: Option<File>) -> Result<Self, OpenError> {
        let cache = Cache::fill(store.clone()).await?;
        let follower = cache.clone();
        let mut tasks = vec![tokio::spawn(async move {
            if let Err(error) = follower.run().await {
                tracing::error!(error = &error as &dyn std::error::Error, "the watch cache ended");
            }
        })];
        let api = Arc::new(Api::new(store, cache, access, Chain::default()));
        bootstrap::run(&api, endpoint).await?;
        if api.cache.catch_up().await.is_none() {
            return Err(ApiError::internal("the watch cache does not follow the store").into());
        }
        let mut establisher = Establisher::new(api.clone());
        establisher.once().await?;
        tasks.push(tokio::spawn(establisher.run()));
        api.readiness.bootstrapped.store(true, Ordering::Release);
        Ok(Self { api, tasks, _lock: lock })
    }

    /// The shared state.
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// The router for listeners: who asks follows from certificates and tokens.
    pub fn router(&self) -> Router {
        server::router(self.api.clone())
    }

    /// The router for callers inside the process, all with this identity.
    pub fn in_process(&self, user: UserInfo) -> Router {
        server::in_process(self.api.clone(), Arc::new(user))
    }

    /// Ends watches, finishes writes and closes the store (KAPI-SRV-04). Listeners are to be stopped before.
    pub async fn close(self) {
        self.api.closing.cancel();
        self.api.cache.close();
        self.api.store.close().await;
        for task in self.tasks {
            // A task that ended by itself has said why.
            let _ = task.await;
        }
    }
}

fn lock(directory: &Path) -> Result<File, OpenError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Directory { path, action, source }
    };
    std::fs::create_dir_all(directory).map_err(failed("creating it", directory))?;
    let path = directory.join("lock");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed("opening the lock", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            // Whoever holds the lock has written its id there, unless it is just about to.
            let _ = file.read_to_string(&mut pid);
            let pid = if pid.trim().is_empty() { "(unknown)".to_owned() } else { pid.trim().to_owned() };
            return Err(OpenError::InUse { path: directory.to_owned(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(failed("locking", &path)(source)),
    }
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    written.map_err(failed("writing the lock", &path))?;
    Ok(file)
}
