//! Ways to an API server.

use std::convert::Infallible;
use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, header};
use futures::future::BoxFuture;
use kube::client::{Body as KubeBody, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, Service, ServiceExt};

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

    /// A client with this process's own identity.
    pub fn client(&self) -> Result<Client, ConnectError> {
        match self {
            Self::Remote(config) => remote(Config::clone(config)),
            Self::Embedded { router, identity } => Ok(embedded(router.clone(), Some(*identity), None)),
        }
    }

    /// A client that is nobody but the bearer of `token`.
    pub fn client_with_token(&self, token: &str) -> Result<Client, ConnectError> {
        match self {
            Self::Remote(config) => {
                let mut config = Config::clone(config);
                config.auth_info = kube::config::AuthInfo { token: Some(token.to_owned().into()), ..Default::default() };
                remote(config)
            }
            Self::Embedded { router, .. } => Ok(embedded(router.clone(), None, HeaderValue::try_from(format!("Bearer {token}")).ok())),
        }
    }

    /// Where the API is, for people.
    pub fn server(&self) -> String {
        match self {
            Self::Remote(config) => config.cluster_url.to_string(),
            Self::Embedded { .. } => "in process".to_owned(),
        }
    }
}

/// How long an answer may take to begin. The server itself ends after a minute whatever is no watch, and a watch begins at once; a
/// connection that died without a word would otherwise be waited on for ever, and the worker that waits with it.
const ANSWER_WITHIN: Duration = Duration::from_secs(75);

/// The server said nothing.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {} seconds", ANSWER_WITHIN.as_secs())]
struct NoAnswer;

/// Gives up on requests whose answer does not begin in time.
#[derive(Clone)]
struct Impatient<S>(S);

impl<S> Service<Request<KubeBody>> for Impatient<S>
where
    S: Service<Request<KubeBody>>,
    S::Error: Into<BoxError>,
    S::Response: 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<KubeBody>) -> Self::Future {
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.0.call(request));
        Box::pin(async move { answer.await.map_err(|_| BoxError::from(NoAnswer))?.map_err(Into::into) })
    }
}

fn remote(config: Config) -> Result<Client, ConnectError> {
    Ok(ClientBuilder::try_from(config)?.with_layer(&tower::layer::layer_fn(Impatient)).build())
}

fn embedded(router: Router, identity: Option<fn(&mut axum::http::Extensions)>, bearer: Option<HeaderValue>) -> Client {
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
    Client::new(Impatient(service), "default")
}
