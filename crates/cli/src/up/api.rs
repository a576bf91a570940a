//! Store, API server and the one HTTPS listener of the embedded cluster, which also serves catalogs unless they are given a listener of
//! their own (OLM1-CAT-19).

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Extensions, Request};
use mainstay_apiserver::access::AnonymousAccess;
use mainstay_apiserver::access::pki::ServingNames;
use mainstay_apiserver::{Config, ControlPlane, Endpoint, Server};
use mainstay_runtime::Cluster;
use mainstay_serve::{Certificates, ClientCertificates, Ended, Limits, Tls};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_workloads::process::Machine;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::Options;
use super::components::Component;
use crate::admin::{self, ServedAlerts, ServedMetrics};

/// Limit for a request for a catalog to arrive at a listener of catalogs (OLM1-CAT-18).
const CATALOG_READ: Duration = Duration::from_secs(5);

/// The routes below `/catalogs`, once there are any.
type Catalogs = Arc<RwLock<Option<Router>>>;

/// The API, served.
pub struct Apis {
    /// The API server.
    pub server: Server,
    /// `https://ADDRESS:PORT`.
    pub url: String,
    /// The same as an address.
    pub address: SocketAddr,
    /// The processes of this machine that stand for images.
    pub machine: Option<Machine>,
    /// `https://ADDRESS:PORT` of the listener of catalogs.
    pub catalogs_url: String,
    catalogs: Catalogs,
    /// The metrics of the components.
    pub metrics: ServedMetrics,
    /// The alerts about them.
    pub alerts: ServedAlerts,
    shutdown: CancellationToken,
    listeners: Vec<JoinHandle<Ended>>,
}

impl Apis {
    /// Binds the listeners, opens the data directory and serves.
    pub async fn open(options: &Options) -> Result<Self, Failure> {
        let listening = |error: mainstay_serve::Error| {
            Failure::failed(format!("listener {}", options.listen), &error)
                .hint("--listen ADDR:PORT chooses another place, port 0 a free port")
        };
        let of_catalogs = match options.catalogs_listen {
            Some(at) => Some(
                mainstay_serve::Server::bind(at)
                    .await
                    .map_err(|error| Failure::failed(format!("--catalogs-server-addr {at}"), &error))?
                    .limits(Limits { header_read: CATALOG_READ, ..Limits::default() }),
            ),
            None => None,
        };
        let machine = options.processes.machine(options)?;
        let listener = mainstay_serve::Server::bind(options.listen).await.map_err(listening)?;
        let address = listener.address();
        let (host, url) = reached(address);
        let (catalogs_host, catalogs_url) =
            of_catalogs.as_ref().map_or_else(|| (host, url.clone()), |listener| reached(listener.address()));
        let (metrics, alerts) = (ServedMetrics::default(), ServedAlerts::default());
        let config = Config {
            endpoint: Endpoint { address: host.to_string(), port: address.port() },
            names: ServingNames { addresses: vec![host, address.ip(), catalogs_host], ..ServingNames::default() },
            plugins: options.plugins.clone(),
            steps: super::catalog_names::steps(&options.components),
            store: options.sharing.storage.clone(),
            pki_dir: options.sharing.pki_dir.clone(),
            limits: options.sharing.limits,
            local_services: options.local_services.clone(),
            skip_simulated_webhooks: options.skip_simulated_webhooks,
            containers: super::processes::containers(machine.as_ref()),
            control_plane: ControlPlane {
                controllers: options.components.has(Component::Controllers),
                scheduler: options.components.has(Component::Scheduler),
            },
            reported: options.reported,
            pages: admin::of_up(metrics.clone(), alerts.clone()),
            // Clouds look the keys up there.
            anonymous: if options.platform.platform.is_some() { AnonymousAccess::IssuerKeys } else { AnonymousAccess::default() },
            issuer: options.platform.platform.is_some().then(|| url.clone()),
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
        let mut listeners = Vec::new();
        // Beside the API there is nothing below `/catalogs` when catalogs have a listener of their own.
        let beside = if of_catalogs.is_some() { Catalogs::default() } else { catalogs.clone() };
        listeners.push(tokio::spawn(listener.run(both(server.router(), beside), shutdown.clone())));
        if let Some(listener) = of_catalogs {
            let listener = listener.tls(Tls::new(&certificates, ClientCertificates::Ignored).map_err(listening)?);
            listeners.push(tokio::spawn(listener.run(both(Router::new(), catalogs.clone()), shutdown.clone())));
        }
        let address = SocketAddr::new(host, address.port());
        Ok(Self { server, url, address, machine, catalogs_url, catalogs, metrics, alerts, shutdown, listeners })
    }

    /// Serves these routes below `/catalogs`.
    pub fn serve_catalogs(&self, router: Router) {
        *self.catalogs.write().unwrap_or_else(PoisonError::into_inner) = Some(router);
    }

    /// The API without socket and encryption, for parts of this process; `identity` sets their user.
    pub fn in_process(&self, identity: fn(&mut Extensions)) -> Cluster {
        Cluster::Embedded { router: self.server.router(), identity }
    }

    /// Closes watches, answers requests in flight, closes the store (KAPI-SRV-04).
    pub async fn close(self) {
        self.server.end_watches();
        self.shutdown.cancel();
        for listener in self.listeners {
            match listener.await {
                Ok(Ended::Drained) => {}
                Ok(Ended::Cut(connections)) => tracing::warn!(connections, "requests in flight were cut"),
                Err(error) => tracing::error!(%error, "the listener ended abnormally"),
            }
        }
        self.server.close().await;
    }
}

/// The address and URL by which clients reach a listener. For a wildcard address, the kubeconfig assumes clients on this machine.
fn reached(address: SocketAddr) -> (IpAddr, String) {
    let host = if address.ip().is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { address.ip() };
    (host, format!("https://{}", SocketAddr::new(host, address.port())))
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
