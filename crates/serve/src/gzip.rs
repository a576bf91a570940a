//! Compression of large answers, for clients that request it.
//!
//! The layer leaves small answers uncompressed, since compressing them costs more than it saves. It also leaves encoded answers and, by default,
//! answers of unknown length: a watch must reach its reader event by event.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use hyper::body::Frame;
use tower::{Layer, Service};

/// The treatment of answers of unknown length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownLength {
    /// Sent unchanged.
    Plain,
    /// Compressed; only for content that no client reads piece by piece.
    Compressed,
}

/// The layer: `router.layer(Gzip::above(128 * 1024))`.
#[derive(Debug, Clone, Copy)]
pub struct Gzip {
    threshold: u64,
    unknown: UnknownLength,
}

impl Gzip {
    /// Creates a layer that compresses answers of at least this many bytes.
    pub fn above(threshold: u64) -> Self {
        Self { threshold, unknown: UnknownLength::Plain }
    }

    /// Sets the treatment of answers of unknown length.
    #[must_use]
    pub fn unknown_length(mut self, unknown: UnknownLength) -> Self {
        self.unknown = unknown;
        self
    }

    fn applies(self, response: &Response) -> bool {
        let headers = response.headers();
        if headers.contains_key(header::CONTENT_ENCODING) || headers.contains_key(header::CONTENT_RANGE) {
            return false;
        }
        if matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::SWITCHING_PROTOCOLS) {
            return false;
        }
        match response.body().size_hint().exact() {
            Some(length) => length >= self.threshold && length > 0,
            None => self.unknown == UnknownLength::Compressed,
        }
    }
}

impl<S> Layer<S> for Gzip {
    type Service = GzipService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GzipService { inner, gzip: *self }
    }
}

/// A service that compresses answers when it pays.
#[derive(Debug, Clone)]
pub struct GzipService<S> {
    inner: S,
    gzip: Gzip,
}

impl<S, B> Service<Request<B>> for GzipService<S>
where
    S: Service<Request<B>, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let asked = accepts_gzip(request.headers());
        let head = request.method() == http::Method::HEAD;
        let gzip = self.gzip;
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            if gzip.applies(&response) && !head {
                response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
                if asked {
                    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                    response.headers_mut().remove(header::CONTENT_LENGTH);
                    response = response.map(|body| Body::new(Compressed::new(body)));
                }
            }
            Ok(response)
        })
    }
}

/// Returns true if the client accepts gzip, by name or by `*`, with a quality above zero.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut wildcard = None;
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        let Ok(value) = value.to_str() else { continue };
        for item in value.split(',') {
            let mut parts = item.split(';').map(str::trim);
            let coding = parts.next().unwrap_or_default();
            let refused = parts.any(|p| p.strip_prefix("q=").is_some_and(|q| q.trim().parse::<f32>().is_ok_and(|q| q <= 0.0)));
            if coding.eq_ignore_ascii_case("gzip") {
                return !refused;
            }
            if coding == "*" {
                wildcard = Some(!refused);
            }
        }
    }
    wildcard.unwrap_or(false)
}

/// Bytes compressed in one poll, so that a large answer does not occupy its thread for long.
const STEP: usize = 64 * 1024;

struct Compressed {
    inner: Body,
    /// `None` after its last bytes were taken.
    encoder: Option<GzEncoder<Vec<u8>>>,
    pending: Bytes,
}

impl Compressed {
    fn new(inner: Body) -> Self {
        Self { inner, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())), pending: Bytes::new() }
    }
}

impl HttpBody for Compressed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        loop {
            let Some(encoder) = this.encoder.as_mut() else { return Poll::Ready(None) };
            if !this.pending.is_empty() {
                let step = this.pending.split_to(this.pending.len().min(STEP));
                if let Err(error) = encoder.write_all(&step) {
                    return Poll::Ready(Some(Err(axum::Error::new(error))));
                }
                let output = std::mem::take(encoder.get_mut());
                if !output.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(output.into()))));
                }
                continue;
            }
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // An encoded body has no trailers; no handler here sends any.
                    if let Ok(data) = frame.into_data() {
                        this.pending = data;
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let Some(encoder) = this.encoder.take() else { return Poll::Ready(None) };
                    return Poll::Ready(Some(encoder.finish().map(|rest| Frame::data(rest.into())).map_err(axum::Error::new)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::io::Read as _;

    use axum::Router;
    use axum::routing::get;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(router: &Router, path: &str, encoding: &str) -> (Option<String>, Vec<u8>) {
        let request = Request::get(path).header(header::ACCEPT_ENCODING, encoding).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let encoding = response.headers().get(header::CONTENT_ENCODING).map(|v| v.to_str().unwrap().to_owned());
        (encoding, response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }

    /// KAPI-SRV-02: large answers are compressed when asked for, and only then.
    #[tokio::test]
    async fn compresses_large_answers_when_asked() {
        let large = "an answer that is worth compressing, ".repeat(5_000);
        let text = large.clone();
        let router = Router::new()
            .route("/large", get(move || async move { text }))
            .route("/small", get(|| async { "small" }))
            .layer(Gzip::above(128 * 1024));
        for (path, encoding, compressed) in [
            ("/large", "gzip", true),
            ("/large", "br, gzip;q=0.5", true),
            ("/large", "*", true),
            ("/large", "gzip;q=0", false),
            ("/large", "identity", false),
            ("/small", "gzip", false),
        ] {
            let (found, body) = ask(&router, path, encoding).await;
            assert_eq!(found.is_some(), compressed, "{path} {encoding}");
            if compressed {
                let mut plain = String::new();
                flate2::read::GzDecoder::new(body.as_slice()).read_to_string(&mut plain).unwrap();
                assert_eq!(plain, large);
                assert!(body.len() < large.len() / 2);
            }
        }
    }
}
