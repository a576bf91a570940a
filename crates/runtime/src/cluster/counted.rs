//! A count of requests by code, method and host, as in client-go (MS-OPS-01).

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::{Request, Response};
use futures::future::BoxFuture;
use kube::client::Body as KubeBody;
use tower::Service;

use crate::metrics::Sent;

/// A service that counts the requests sent to a host.
#[derive(Clone)]
pub struct Counted<S> {
    inner: S,
    host: Arc<str>,
}

impl<S> Counted<S> {
    /// Counts requests to this host.
    pub fn new(inner: S, host: &str) -> Self {
        Self { inner, host: host.into() }
    }
}

impl<S, B> Service<Request<KubeBody>> for Counted<S>
where
    S: Service<Request<KubeBody>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<KubeBody>) -> Self::Future {
        let sent = Sent::new(request.method().as_str(), &self.host);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Ok(response) = &answer {
                sent.answered(response.status().as_str());
            }
            answer
        })
    }
}
