//! Ways to an API server.

mod impatient;

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use kube::client::{Body as KubeBody, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::ServiceExt;

use self::impatient::{ANSWER_WITHIN, Impatient};

/// An API server and the identity that this process has there.
#[derive(Clone)]
pub enum Cluster {
    /// Over the network.
    Remote(Box<Config>),
    /// The embedded API, in the same process: no socket, no encryption. Every request carries what `identity` puts into it.
    Embedded {
        /// The API's routes.
        router: Router,
        /// Marks a request as this process's own.
        identity: fn(&mut axum::http::Extensions),
    },
    /// Another one, whose answers are waited for not so long, or longer.
    Within(Box<Cluster>, Duration),
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig can not be read, or lacks what was asked for.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// There is no service account in this place.
    #[error("the in-cluster configuration cannot be used")]
    InCluster(#[from] kube::config::InClusterError),
    /// The client refuses the configuration.
    #[error("a client cannot be made from the configuration")]
    Client(#[from] kube::Error),
}

impl Cluster {
    /// The cluster of a kubeconfig file (or of `$KUBECONFIG`, `~/.kube/config`), optionally of a named context, optionally as another user.
    pub async fn from_kubeconfig(file: Option<&Path>, context: Option<&str>, act_as: Option<&str>) -> Result<Self, ConnectError> {
        let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
        let kubeconfig = match file {
            Some(file) => Kubeconfig::read_from(file)?,
            None => Kubeconfig::read()?,
        };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        if let Some(user) = act_as {
            config.auth_info.impersonate = Some(user.to_owned());
        }
        Ok(Self::Remote(Box::new(config)))
    }

    /// The cluster of the kubeconfig where there is one, else the one that this process runs in as a pod, as clients usually look for it.
    pub async fn infer(file: Option<&Path>, context: Option<&str>) -> Result<Self, ConnectError> {
        let named = file.is_some() || context.is_some();
        match Self::from_kubeconfig(file, context, None).await {
            // What was asked for by name must be it.
            Err(error) if !named => Self::in_cluster().map_err(|_| error),
            outcome => outcome,
        }
    }

    /// The cluster that this process runs in as a pod.
    pub fn in_cluster() -> Result<Self, ConnectError> {
        Ok(Self::Remote(Box::new(Config::incluster()?)))
    }

    /// The same cluster, where an answer may take so long to begin, and each of its pieces to follow. Without it that is 75 seconds.
    #[must_use]
    pub fn answering_within(self, within: Duration) -> Self {
        Self::Within(Box::new(self), within)
    }

    /// A client with this process's own identity.
    pub fn client(&self) -> Result<Client, ConnectError> {
        self.own(ANSWER_WITHIN)
    }

    fn own(&self, within: Duration) -> Result<Client, ConnectError> {
        match self {
            Self::Remote(config) => remote(Config::clone(config), within),
            Self::Embedded { router, identity } => Ok(embedded(router.clone(), Some(*identity), None, within)),
            Self::Within(cluster, within) => cluster.own(*within),
        }
    }

    /// A client that is nobody but the bearer of `token`.
    pub fn client_with_token(&self, token: &str) -> Result<Client, ConnectError> {
        self.bearer(token, ANSWER_WITHIN)
    }

    fn bearer(&self, token: &str, within: Duration) -> Result<Client, ConnectError> {
        match self {
            Self::Remote(config) => {
                let mut config = Config::clone(config);
                config.auth_info = kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
                remote(config, within)
            }
            Self::Embedded { router, .. } => {
                Ok(embedded(router.clone(), None, HeaderValue::try_from(format!("Bearer {token}")).ok(), within))
            }
            Self::Within(cluster, within) => cluster.bearer(token, *within),
        }
    }

    /// Where the API is, for people.
    pub fn server(&self) -> String {
        match self {
            Self::Remote(config) => config.cluster_url.to_string(),
            Self::Embedded { .. } => "in process".to_owned(),
            Self::Within(cluster, _) => cluster.server(),
        }
    }
}

fn remote(config: Config, within: Duration) -> Result<Client, ConnectError> {
    Ok(ClientBuilder::try_from(config)?.with_layer(&tower::layer::layer_fn(|service| Impatient::new(service, within))).build())
}

fn embedded(router: Router, identity: Option<fn(&mut axum::http::Extensions)>, bearer: Option<HeaderValue>, within: Duration) -> Client {
    let service = tower::service_fn(move |request: Request<KubeBody>| {
        let (router, bearer) = (router.clone(), bearer.clone());
        async move {
            let mut request = request.map(Body::new);
            if let Some(identity) = identity {
                identity(request.extensions_mut());
            }
            if let Some(bearer) = bearer {
                request.headers_mut().insert(header::AUTHORIZATION, bearer);
            }
            router.oneshot(request).await.map_err(|never: Infallible| match never {})
        }
    });
    Client::new(Impatient::new(service, within), "default")
}
