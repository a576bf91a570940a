//! Time limits for requests: a dead connection would otherwise be awaited for ever.
//!
//! Endless requests (watches, followed logs, upgraded connections) are bounded only until their answer begins. The reader of a silent watch ends it,
//! a while after the time at which the server was asked to end it (`kube::runtime::watcher`).

use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response, header};
use futures::StreamExt;
use futures::future::BoxFuture;
use kube::client::Body as KubeBody;
use tower::{BoxError, Service};

/// The longest time until an answer begins, and until each piece of it follows. The server itself ends all but endless requests after a minute.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(75);

/// The server did not begin to answer.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {0:?}")]
struct NoAnswer(Duration);

/// The server began to answer and then stalled.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not go on with its answer within {0:?}")]
struct NoEnd(Duration);

/// A service that gives up on late answers.
#[derive(Clone)]
pub struct Impatient<S> {
    inner: S,
    within: Duration,
}

impl<S> Impatient<S> {
    /// Creates a service that waits `within` for an answer to begin, and for each of its pieces.
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

/// Returns true if the answer has no end of its own.
fn runs_on(request: &Request<KubeBody>) -> bool {
    let asks = |key: &str| {
        let query = request.uri().query().unwrap_or_default();
        query.split('&').filter_map(|pair| pair.split_once('=')).any(|(name, value)| name == key && matches!(value, "true" | "1"))
    };
    request.headers().contains_key(header::UPGRADE) || asks("watch") || asks("follow")
}

/// Returns a body that fails if a piece does not follow in time.
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
