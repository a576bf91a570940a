//! Store, API server and the one HTTPS listener of the embedded cluster, which also serves catalogs (OLM1-CAT-19).

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::body::Body;
use axum::http::{Extensions, Request};
use mainstay_apiserver::access::pki::ServingNames;
use mainstay_apiserver::{Config, Endpoint, Server};
use mainstay_runtime::Cluster;
use mainstay_serve::{Certificates, ClientCertificates, Ended, Tls};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::Options;
use crate::errors::{Exit, Failure};

/// What is served below `/catalogs`, once there is something.
type Catalogs = Arc<RwLock<Option<Router>>>;

/// The API, served.
pub struct Apis {
    /// The API server.
    pub server: Server,
    /// `https://ADDRESS:PORT`.
    pub url: String,
    catalogs: Catalogs,
    shutdown: CancellationToken,
    listener: JoinHandle<Ended>,
}

impl Apis {
    /// Binds, opens the data directory and serves.
    pub async fn open(options: &Options) -> Result<Self, Failure> {
        let listening = |error: mainstay_serve::Error| {
            Failure::failed(format!("listener {}", options.listen), &error)
                .hint("--listen ADDR:PORT chooses another place, port 0 a free port")
        };
        let listener = mainstay_serve::Server::bind(options.listen).await.map_err(listening)?;
        let address = listener.address();
        // Clients of a wildcard address are on this machine, as far as the kubeconfig goes.
        let host = if address.ip().is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { address.ip() };
        let url = format!("https://{}", std::net::SocketAddr::new(host, address.port()));
        let config = Config {
            endpoint: Endpoint { address: host.to_string(), port: address.port() },
            names: ServingNames { addresses: vec![host, address.ip()], ..ServingNames::default() },
            plugins: options.plugins.clone(),
            store: options.sharing.storage.clone(),
            pki_dir: options.sharing.pki_dir.clone(),
            limits: options.sharing.limits,
            local_services: options.local_services.clone(),
            ..Config::local(&options.data_dir, address.port())
        };
        let server = Server::open(config).await.map_err(|error| match &error {
            mainstay_apiserver::OpenError::InUse { path, .. } => Failure::of(Exit::Failed, "cluster", &error)
                .hint(format!("mainstay status shows it; mainstay down --data-dir {} ends it", path.display())),
            _ => Failure::failed("cluster", &error),
        })?;
        let catalogs = Catalogs::default();
        let shutdown = CancellationToken::new();
        let pki = options.data_dir.join("pki");
        let certificates = Certificates::from_files(&pki.join("apiserver.crt"), &pki.join("apiserver.key")).map_err(listening)?;
        let listener = listener.tls(Tls::new(&certificates, ClientCertificates::Requested).map_err(listening)?);
        let router = both(server.router(), catalogs.clone());
        let listener = tokio::spawn(listener.run(router, shutdown.clone()));
        Ok(Self { server, url, catalogs, shutdown, listener })
    }

    /// Serves these routes below `/catalogs`.
    pub fn serve_catalogs(&self, router: Router) {
        *self.catalogs.write().unwrap_or_else(PoisonError::into_inner) = Some(router);
    }

    /// The API without socket and encryption, for parts of this process; `identity` says who asks.
    pub fn in_process(&self, identity: fn(&mut Extensions)) -> Cluster {
        Cluster::Embedded { router: self.server.router(), identity }
    }

    /// Ends watches, answers requests in flight, closes the store (KAPI-SRV-04).
    pub async fn close(self) {
        self.server.end_watches();
        self.shutdown.cancel();
        match self.listener.await {
            Ok(Ended::Drained) => {}
            Ok(Ended::Cut(connections)) => tracing::warn!(connections, "requests in flight were cut"),
            Err(error) => tracing::error!(%error, "the listener ended abnormally"),
        }
        self.server.close().await;
    }
}

fn both(api: Router, catalogs: Catalogs) -> Router {
    Router::new().fallback(move |request: Request<Body>| {
        let catalogs = request
            .uri()
            .path()
            .starts_with("/catalogs/")
            .then(|| catalogs.read().unwrap_or_else(PoisonError::into_inner).clone())
            .flatten();
        let router = catalogs.unwrap_or_else(|| api.clone());
        async move { router.oneshot(request).await }
    })
}
