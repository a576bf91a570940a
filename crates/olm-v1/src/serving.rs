//! catalogd's own listener: how long answers take, by code (OLM1-CAT-18), and how long they may take.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use mainstay_runtime::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::{Instant, Sleep};

/// How long an answer may take as a whole.
const WRITE: Duration = Duration::from_secs(300);
/// Prometheus' usual buckets, in seconds.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    code: u16,
}

type Durations = Family<Code, Histogram, fn() -> Histogram>;

/// The routes, measured and bounded.
pub(crate) fn measured(router: Router, metrics: &Metrics) -> Router {
    let make: fn() -> Histogram = || Histogram::new(SECONDS);
    let durations = Durations::new_with_constructor(make);
    metrics.register(|registry| {
        registry.register("catalogd_http_request_duration_seconds", "How long answers took, by their code", durations.clone());
    });
    router.layer(from_fn(move |request: Request, next: Next| {
        let durations = durations.clone();
        async move {
            let begun = Instant::now();
            let response = next.run(request).await;
            let code = response.status().as_u16();
            response.map(|body| Body::new(Timed { body, code, begun, durations, end: Box::pin(tokio::time::sleep_until(begun + WRITE)) }))
        }
    }))
}

/// A body whose end is the end of the answer, and which ends in time.
struct Timed {
    body: Body,
    code: u16,
    begun: Instant,
    durations: Durations,
    end: Pin<Box<Sleep>>,
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new(std::io::Error::from(std::io::ErrorKind::TimedOut)))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.durations.get_or_create(&Code { code: self.code }).observe(self.begun.elapsed().as_secs_f64());
    }
}
