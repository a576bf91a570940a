//! Connections to an API server.

mod counted;
mod impatient;

use std::convert::Infallible;
use std::path::Path;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use kube::client::{Body as KubeBody, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use mainstay_golang::http_proxy::Proxies;
use tower::{Service, ServiceExt};

use self::counted::Counted;
use self::impatient::{ANSWER_WITHIN, Impatient};
use crate::gate::{Gate, Gated};

/// An API server and the identity of this process on it.
#[derive(Clone)]
pub enum Cluster {
    /// A server over the network.
    Remote(Box<Config>),
    /// The embedded API, in the same process: no socket, no encryption. `identity` marks every request.
    Embedded {
        /// The API's routes.
        router: Router,
        /// Marks a request as this process's own.
        identity: fn(&mut axum::http::Extensions),
    },
    /// A cluster with its own time limit for answers.
    Within(Box<Cluster>, Duration),
    /// A cluster that is changed only while the gate is open.
    Guarded(Box<Cluster>, Gate),
}

/// The way in which requests are sent.
#[derive(Clone)]
struct Manner {
    within: Duration,
    gate: Gate,
}

impl Default for Manner {
    fn default() -> Self {
        Self { within: ANSWER_WITHIN, gate: Gate::default() }
    }
}

/// An error that keeps a client from being made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read, or lacks the requested context or user.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// The process has no in-cluster service account.
    #[error("the in-cluster configuration cannot be used")]
    InCluster(#[from] kube::config::InClusterError),
    /// The client rejects the configuration.
    #[error("a client cannot be made from the configuration")]
    Client(#[from] kube::Error),
    /// The text is no token: it cannot be sent in a header.
    #[error("the token cannot be sent")]
    Token(#[from] http::header::InvalidHeaderValue),
}

/// The identity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    /// That of this process.
    Own,
    /// None: requests carry one of their own, or are anonymous.
    None,
}

impl Cluster {
    /// Returns the cluster of a kubeconfig file (or of `$KUBECONFIG`, `~/.kube/config`), optionally of a named context, optionally as another user.
    pub async fn from_kubeconfig(file: Option<&Path>, context: Option<&str>, act_as: Option<&str>) -> Result<Self, ConnectError> {
        let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
        let kubeconfig = match file {
            Some(file) => Kubeconfig::read_from(file)?,
            None => Kubeconfig::read()?,
        };
        let named = named_proxy(&kubeconfig, context);
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.proxy_url = match named {
            // A proxy in the kubeconfig applies regardless of NO_PROXY.
            Some(named) => named.parse().ok(),
            None => proxy(&config.cluster_url),
        };
        if let Some(user) = act_as {
            config.auth_info.impersonate = Some(user.to_owned());
        }
        Ok(Self::Remote(Box::new(config)))
    }

    /// Returns the cluster of the kubeconfig if there is one, otherwise the cluster in which this process runs as a pod, as clients usually do.
    pub async fn infer(file: Option<&Path>, context: Option<&str>) -> Result<Self, ConnectError> {
        let named = file.is_some() || context.is_some();
        match Self::from_kubeconfig(file, context, None).await {
            // An explicit request has no fallback.
            Err(error) if !named => Self::in_cluster().map_err(|_| error),
            outcome => outcome,
        }
    }

    /// Returns the cluster in which this process runs as a pod.
    pub fn in_cluster() -> Result<Self, ConnectError> {
        let mut config = Config::incluster()?;
        config.proxy_url = proxy(&config.cluster_url);
        Ok(Self::Remote(Box::new(config)))
    }

    /// Returns the same cluster with a limit on the time until an answer begins, and until each of its pieces follows. The default is 75 seconds.
    #[must_use]
    pub fn answering_within(self, within: Duration) -> Self {
        Self::Within(Box::new(self), within)
    }

    /// Returns the same cluster, whose clients change objects only while the gate is open.
    #[must_use]
    pub fn guarded(self, gate: &Gate) -> Self {
        Self::Guarded(Box::new(self), gate.clone())
    }

    /// Returns the same cluster, whose clients take every answer as it comes: an eviction that a budget forbids is an answer, and no reason to ask
    /// again.
    #[must_use]
    pub fn asking_once(&self) -> Self {
        match self {
            Self::Remote(config) => {
                let mut config = config.clone();
                config.default_retry = false;
                Self::Remote(config)
            }
            Self::Embedded { .. } => self.clone(),
            Self::Within(cluster, within) => Self::Within(Box::new(cluster.asking_once()), *within),
            Self::Guarded(cluster, gate) => Self::Guarded(Box::new(cluster.asking_once()), gate.clone()),
        }
    }

    /// Returns true for the embedded API of this process.
    pub fn is_embedded(&self) -> bool {
        match self {
            Self::Embedded { .. } => true,
            Self::Remote(_) => false,
            Self::Within(cluster, _) | Self::Guarded(cluster, _) => cluster.is_embedded(),
        }
    }

    /// Creates a client with this process's own identity.
    pub fn client(&self) -> Result<Client, ConnectError> {
        self.make(Identity::Own, Manner::default())
    }

    /// Creates a client without any identity. Its connections serve every identity that [`bearing`] adds to it.
    pub fn anonymous(&self) -> Result<Client, ConnectError> {
        self.make(Identity::None, Manner::default())
    }

    /// Creates a client with no identity but that of `token`.
    pub fn client_with_token(&self, token: &str) -> Result<Client, ConnectError> {
        bearing(&self.anonymous()?, token)
    }

    fn make(&self, own: Identity, manner: Manner) -> Result<Client, ConnectError> {
        match self {
            Self::Remote(config) => {
                let mut config = Config::clone(config);
                if own == Identity::None {
                    config.auth_info = kube::config::AuthInfo::default();
                }
                remote(config, manner)
            }
            Self::Embedded { router, identity } => Ok(embedded(router.clone(), (own == Identity::Own).then_some(*identity), manner)),
            Self::Within(cluster, within) => cluster.make(own, Manner { within: *within, ..manner }),
            Self::Guarded(cluster, gate) => cluster.make(own, Manner { gate: gate.clone(), ..manner }),
        }
    }

    /// Returns the address of the API, for people.
    pub fn server(&self) -> String {
        match self {
            Self::Remote(config) => config.cluster_url.to_string(),
            Self::Embedded { .. } => "in process".to_owned(),
            Self::Within(cluster, _) | Self::Guarded(cluster, _) => cluster.server(),
        }
    }
}

/// Returns a client that sends a token over another client's connections: a thousand accounts need no thousand handshakes.
pub fn bearing(client: &Client, token: &str) -> Result<Client, ConnectError> {
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))?;
    bearer.set_sensitive(true);
    let (namespace, client) = (client.default_namespace().to_owned(), client.clone());
    let service = tower::service_fn(move |mut request: Request<KubeBody>| {
        let (client, bearer) = (client.clone(), bearer.clone());
        async move {
            request.headers_mut().insert(header::AUTHORIZATION, bearer);
            client.send(request).await
        }
    });
    Ok(Client::new(service, namespace))
}

/// Returns the proxy that the kubeconfig names for its cluster; it takes precedence over the environment's.
fn named_proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|known| known.name == context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|known| known.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

/// Returns the proxy that the environment names for an API server, as client-go finds it: by the server's address, which kube's own loader ignores.
fn proxy(server: &http::Uri) -> Option<http::Uri> {
    let proxies = Proxies::from_environment(|name| std::env::var(name).ok());
    let (scheme, host) = (server.scheme_str()?, server.host()?);
    match proxies.of(scheme, host, server.port_u16()) {
        Ok(proxy) => proxy.and_then(|proxy| match proxy.parse() {
            Ok(proxy) => Some(proxy),
            Err(error) => {
                tracing::warn!(%error, "the proxy of the environment is no URL and is not used");
                None
            }
        }),
        Err(refused) => {
            tracing::warn!(%refused, "the API server is asked without a proxy");
            None
        }
    }
}

fn remote(config: Config, manner: Manner) -> Result<Client, ConnectError> {
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let layer = tower::layer::layer_fn(move |service| {
        Impatient::new(Gated::new(Counted::new(Named(service), &host), manner.gate.clone()), manner.within)
    });
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

/// The host of the embedded API, for metrics.
const IN_PROCESS: &str = "in-process";

fn embedded(router: Router, identity: Option<fn(&mut axum::http::Extensions)>, Manner { within, gate }: Manner) -> Client {
    let service = tower::service_fn(move |request: Request<KubeBody>| {
        let router = router.clone();
        async move {
            let mut request = request.map(Body::new);
            if let Some(identity) = identity {
                identity(request.extensions_mut());
            }
            router.oneshot(request).await.map_err(|never: Infallible| match never {})
        }
    });
    Client::new(Impatient::new(Gated::new(Counted::new(Named(service), IN_PROCESS), gate), within), "default")
}

/// A service that adds the user agent to each request.
#[derive(Clone)]
struct Named<S>(S);

/// Returns `mainstay/0.1.0 (linux/amd64)`, in the form of Kubernetes' own clients.
fn user_agent() -> HeaderValue {
    static TEXT: LazyLock<HeaderValue> = LazyLock::new(|| {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let text = format!("mainstay/{} ({}/{arch})", env!("CARGO_PKG_VERSION"), std::env::consts::OS);
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("mainstay"))
    });
    TEXT.clone()
}

impl<S: Service<Request<KubeBody>>> Service<Request<KubeBody>> for Named<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<KubeBody>) -> S::Future {
        request.headers_mut().entry(header::USER_AGENT).or_insert_with(user_agent);
        self.0.call(request)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use axum::serve::ListenerExt as _;

    use super::*;

    /// OLM1-PERM-01, MS-OPS-04: all accounts use one connection after the other's answer, and each request carries its own token alone.
    #[tokio::test]
    async fn accounts_share_connections() {
        let (seen, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (record, count) = (seen.clone(), connections.clone());
        let answer = move |request: Request<Body>| {
            let shown: Vec<String> =
                request.headers().get_all(header::AUTHORIZATION).iter().map(|value| value.to_str().unwrap().to_owned()).collect();
            record.lock().unwrap().push(shown.join(" and "));
            std::future::ready("{}")
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listener.tap_io(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        let mut config = Config::new(format!("http://{address}").parse().unwrap());
        config.auth_info.token = Some("own".to_owned().into());
        let cluster = Cluster::Remote(Box::new(config));
        let shared = cluster.anonymous().unwrap();
        let ask = async |client: Client| client.request_text(Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
        for token in ["one", "two", "one"] {
            ask(bearing(&shared, token).unwrap()).await;
        }
        assert_eq!(connections.load(Ordering::Relaxed), 1);
        ask(shared).await;
        ask(cluster.client().unwrap()).await;
        assert_eq!(*seen.lock().unwrap(), ["Bearer one", "Bearer two", "Bearer one", "", "Bearer own"]);
        assert!(matches!(bearing(&cluster.anonymous().unwrap(), "no\ntoken"), Err(ConnectError::Token(_))));
    }
}
