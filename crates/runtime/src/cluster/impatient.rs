//! Requests that nobody answers end: a connection that died without a word would be waited on for ever, and whoever waits with it.
//!
//! What runs on by its nature (watches, logs that are followed, upgraded connections) is bounded only until its answer begins; a watch that
//! goes silent is ended by whoever reads it, a while after the time that the server was asked to end it (`kube::runtime::watcher`).

use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response, header};
use futures::StreamExt;
use futures::future::BoxFuture;
use kube::client::Body as KubeBody;
use tower::{BoxError, Service};

/// How long an answer may take to begin, and each piece of it to follow. The server itself ends after a minute whatever does not run on.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(75);

/// The server said nothing.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {0:?}")]
struct NoAnswer(Duration);

/// The server began to answer, and said nothing more.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not go on with its answer within {0:?}")]
struct NoEnd(Duration);

/// Gives up on answers that do not come in time.
#[derive(Clone)]
pub struct Impatient<S> {
    inner: S,
    within: Duration,
}

impl<S> Impatient<S> {
    /// Waits so long for an answer to begin, and for each of its pieces.
    pub fn new(inner: S, within: Duration) -> Self {
        Self { inner, within }
    }
}

impl<S, B> Service<Request<KubeBody>> for Impatient<S>
where
    S: Service<Request<KubeBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<KubeBody>) -> Self::Future {
        let (within, runs_on) = (self.within, runs_on(&request));
        let answer = tokio::time::timeout(within, self.inner.call(request));
        Box::pin(async move {
            let response = answer.await.map_err(|_| NoAnswer(within))?.map_err(Into::into)?;
            Ok(response.map(|body| if runs_on { Body::new(body) } else { bounded(Body::new(body), within) }))
        })
    }
}

/// Whether the answer has no end of its own.
fn runs_on(request: &Request<KubeBody>) -> bool {
    let asks = |key: &str| {
        let query = request.uri().query().unwrap_or_default();
        query.split('&').filter_map(|pair| pair.split_once('=')).any(|(name, value)| name == key && matches!(value, "true" | "1"))
    };
    request.headers().contains_key(header::UPGRADE) || asks("watch") || asks("follow")
}

/// A body that fails where a piece does not follow in time.
fn bounded(body: Body, within: Duration) -> Body {
    let pieces = futures::stream::unfold(Some(body.into_data_stream()), move |pieces| async move {
        let mut pieces = pieces?;
        match tokio::time::timeout(within, pieces.next()).await {
            Ok(Some(piece)) => Some((piece.map_err(BoxError::from), Some(pieces))),
            Ok(None) => None,
            Err(_) => Some((Err(BoxError::from(NoEnd(within))), None)),
        }
    });
    Body::from_stream(pieces)
}
