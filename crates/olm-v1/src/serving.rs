//! Metrics and time limits of catalogd's listener: answers are measured by code (OLM1-CAT-18).

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

/// The longest time of a whole answer.
const WRITE: Duration = Duration::from_secs(300);
/// Prometheus' default buckets, in seconds.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    code: u16,
}

type Durations = Family<Code, Histogram, fn() -> Histogram>;

/// Returns the routes, measured and bounded.
pub(crate) fn measured(router: Router, metrics: &Metrics) -> Router {
    bounded(router, metrics, WRITE)
}

fn bounded(router: Router, metrics: &Metrics, write: Duration) -> Router {
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
            response.map(|body| Body::new(Timed { body, code, begun, durations, end: Box::pin(tokio::time::sleep_until(begun + write)) }))
        }
    }))
}

/// A body whose end is the end of the answer. It fails if it takes longer than the limit.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use axum::body::to_bytes;
    use axum::http::{Method, StatusCode, header};
    use mainstay_catalog::{Limits, MemorySource};
    use mainstay_catalog_serve::content::{self, Catalogs, Queries};
    use mainstay_catalog_store::{CatalogStore, StoredCatalog};
    use tower::ServiceExt as _;

    use super::*;

    struct One(StoredCatalog);

    impl Catalogs for One {
        fn catalog(&self, name: &str) -> Option<StoredCatalog> {
            (name == "team").then(|| self.0.clone())
        }
    }

    /// OLM1-CAT-18: every answer is counted once, when it ends, under its own code.
    #[tokio::test]
    async fn answers_are_counted_by_their_code() {
        let folder = tempfile::tempdir().unwrap();
        let store = CatalogStore::open(folder.path()).unwrap();
        let source = MemorySource::of("all.jsonl", br#"{"schema":"olm.package","name":"web","defaultChannel":"stable"}"#.to_vec());
        let catalog = store.put(&format!("sha256:{}", "a".repeat(64)).parse().unwrap(), &source, &Limits::default()).unwrap();
        let metrics = Metrics::default();
        let router = measured(content::router(std::sync::Arc::new(One(catalog)), Queries::Answered), &metrics);
        let ask = async |method: Method, path: &str, tag: Option<&str>| {
            let mut request = Request::builder().method(method).uri(path);
            if let Some(tag) = tag {
                request = request.header(header::IF_NONE_MATCH, tag);
            }
            let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let (parts, body) = response.into_parts();
            to_bytes(body, 1 << 20).await.unwrap();
            (parts.status, parts.headers.get(header::ETAG).map(|tag| tag.to_str().unwrap().to_owned()))
        };
        let (status, tag) = ask(Method::GET, "/catalogs/team/api/v1/all", None).await;
        assert_eq!(status, StatusCode::OK);
        for _ in 0..2 {
            assert_eq!(ask(Method::GET, "/catalogs/team/api/v1/all", tag.as_deref()).await.0, StatusCode::NOT_MODIFIED);
        }
        for _ in 0..3 {
            assert_eq!(ask(Method::GET, "/catalogs/other/api/v1/all", None).await.0, StatusCode::NOT_FOUND);
        }
        for _ in 0..4 {
            assert_eq!(ask(Method::POST, "/catalogs/team/api/v1/all", None).await.0, StatusCode::METHOD_NOT_ALLOWED);
        }
        let page = metrics.page().unwrap();
        assert!(page.contains("# TYPE catalogd_http_request_duration_seconds histogram"), "{page}");
        for (code, times) in [(200, 1), (304, 2), (404, 3), (405, 4)] {
            let line = format!("catalogd_http_request_duration_seconds_count{{code=\"{code}\"}} {times}\n");
            assert!(page.contains(&line), "{line} is missing: {page}");
        }
    }

    /// OLM1-CAT-18: an answer that goes on and on is cut; catalogd's listener cuts after five minutes.
    #[tokio::test]
    async fn an_answer_without_end_is_cut() {
        assert_eq!(WRITE, Duration::from_mins(5));
        let endless =
            || Router::new().fallback(|| async { Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>()) });
        let ask = |router: Router| router.oneshot(Request::new(Body::empty()));
        let response = ask(bounded(endless(), &Metrics::default(), Duration::from_millis(1))).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let error = to_bytes(response.into_body(), 1 << 20).await.unwrap_err();
        assert!(format!("{error:?}").contains("TimedOut"), "{error:?}");
    }
}
