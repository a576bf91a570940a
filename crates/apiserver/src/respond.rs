//! Answers: objects, lists and errors in the form that was agreed on.

use std::io::Write as _;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{self, Poll};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::{Frame, SizeHint};
use serde_json::{Value, json};

use crate::error::{ApiError, Result};
use crate::inflight::{Hold, TOO_MANY};
use crate::object;
use crate::request::ApiRequest;
use crate::request::negotiate::{self, Format, Shape};
use crate::served::Served;

/// Bodies from this size on are compressed where the client asks for it (KAPI-SRV-02).
const COMPRESS_FROM: usize = 128 * 1024;

/// An answer before it is sent.
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// Headers beside the content type.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: AnswerBody,
}

/// The body of an answer.
pub enum AnswerBody {
    /// Known as a whole.
    Whole(Bytes),
    /// One that many ask for, shared by them all.
    Shared(Arc<Document>),
    /// A stream (watches).
    Stream(Body),
    /// The whole answer of another server, status and headers included.
    Sent(Box<Response<Body>>),
}

impl Answer {
    /// A value in a format.
    pub fn value(status: StatusCode, format: Format, value: &Value) -> Self {
        if format == Format::Protobuf {
            return match negotiate::protobuf(value) {
                Ok(body) => Self::bytes(status, format.content_type(), body),
                Err(error) => Self::bytes(error.code, format.content_type(), format.write(&error.status())),
            };
        }
        Self::bytes(status, format.content_type(), format.write(value))
    }

    /// Bytes as they are.
    pub fn bytes(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), content_type, body: AnswerBody::Whole(body.into()) }
    }

    /// Plain text.
    pub fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self::bytes(status, "text/plain; charset=utf-8", text.into())
    }

    /// A refusal.
    pub fn from_error(error: &ApiError, format: Format) -> Self {
        if error.code == StatusCode::NOT_FOUND && error.reason.is_empty() {
            return Self::text(error.code, error.message.clone());
        }
        if error.code == StatusCode::TOO_MANY_REQUESTS && error.reason.is_empty() {
            return Self::turned_away();
        }
        let mut answer = Self::value(error.code, format, &error.status());
        if let Some(seconds) = error.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0) {
            answer.headers.push((header::RETRY_AFTER, HeaderValue::from(seconds)));
        }
        answer
    }

    /// The answer to a request that is turned away: a text, no `Status`.
    pub fn turned_away() -> Self {
        let mut answer = Self::text(StatusCode::TOO_MANY_REQUESTS, TOO_MANY);
        answer.headers.push((header::RETRY_AFTER, HeaderValue::from_static("1")));
        answer.headers.push((header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")));
        answer
    }

    /// The answer of another server.
    pub fn sent(response: Response<Body>) -> Self {
        let status = response.status();
        Self { status, headers: Vec::new(), content_type: "", body: AnswerBody::Sent(Box::new(response)) }
    }

    /// Returns whether compressing it takes long.
    pub fn is_large(&self) -> bool {
        match &self.body {
            AnswerBody::Whole(bytes) => bytes.len() >= COMPRESS_FROM,
            AnswerBody::Shared(document) => document.body.len() >= COMPRESS_FROM,
            AnswerBody::Stream(_) | AnswerBody::Sent(_) => false,
        }
    }

    /// As HTTP; the body holds what the request does until it was taken.
    pub fn into_response(self, gzip: bool, hold: Hold) -> Response<Body> {
        let body = match self.body {
            AnswerBody::Sent(response) => return (*response).map(|body| Body::new(Lasting { body, _hold: hold })),
            body => body,
        };
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        if !matches!(self.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT) {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
        let packed = match &body {
            AnswerBody::Whole(bytes) if gzip && bytes.len() >= COMPRESS_FROM => compress(bytes).map(Bytes::from),
            AnswerBody::Shared(document) if gzip && document.body.len() >= COMPRESS_FROM => document.packed(compress),
            _ => None,
        };
        if packed.is_some() {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        *response.body_mut() = match (packed, body) {
            (Some(packed), _) => Body::from(hold.keep(packed)),
            (None, AnswerBody::Whole(bytes)) => Body::from(hold.keep(bytes)),
            (None, AnswerBody::Shared(document)) => Body::from(hold.keep(document.body.clone())),
            (None, AnswerBody::Stream(body)) => Body::new(Lasting { body, _hold: hold }),
            (None, AnswerBody::Sent(response)) => response.into_body(),
        };
        response
    }
}

/// A document and its hash.
pub struct Document {
    /// The bytes.
    pub body: Bytes,
    /// Upper-case SHA-512, as Kubernetes' ETags are.
    pub hash: String,
    packed: OnceLock<Option<Bytes>>,
}

impl Document {
    /// A document that was not compressed yet.
    pub fn new(body: Bytes, hash: String) -> Self {
        Self { body, hash, packed: OnceLock::new() }
    }

    /// Its bytes compressed, once for all.
    pub fn packed(&self, compress: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Option<Bytes> {
        self.packed.get_or_init(|| compress(&self.body).map(Bytes::from)).clone()
    }
}

/// A body of unknown length, and what its request holds.
struct Lasting {
    body: Body,
    _hold: Hold,
}

impl HttpBody for Lasting {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(1));
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// One object in the agreed shape.
pub fn object(request: &ApiRequest, served: &Served, status: StatusCode, mut value: Value) -> Result<Answer> {
    if value.get("kind").and_then(Value::as_str) != Some("Status") {
        let value = match request.agreed.shape {
            Shape::Object | Shape::Discovery => value,
            Shape::Metadata => object::partial(&mut value, request.agreed.meta),
            Shape::MetadataList => return Err(no_list(served, &value)),
            Shape::Table => {
                // What a dry run made was never stored.
                let metadata = match object::meta(&value, "resourceVersion") {
                    "" => json!({}),
                    version => json!({"resourceVersion": version}),
                };
                crate::table::of(request, served, std::slice::from_mut(&mut value), &metadata)?
            }
        };
        return Ok(Answer::value(status, request.agreed.format, &value));
    }
    Ok(Answer::value(status, request.agreed.format, &value))
}

/// The refusal of one object that was asked for as a list: Kubernetes names its own type.
fn no_list(served: &Served, value: &Value) -> ApiError {
    if served.custom.is_some() {
        return ApiError::untyped("content is not a list");
    }
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let shown = go_type(group, text("kind"));
    let message = format!("you requested PartialObjectMetadataList, but the requested object is not a list ({shown})");
    ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
}

/// The refusal of a list that was asked for as one object.
pub fn no_object(served: &Served) -> ApiError {
    let shown = match served.custom {
        Some(_) => "*unstructured.UnstructuredList".to_owned(),
        None => go_type(&served.facts.group, &served.list_kind()),
    };
    let message = format!("you requested PartialObjectMetadata, but the requested object is a list ({shown})");
    ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
}

/// Go's name of the internal type of a kind.
fn go_type(group: &str, kind: &str) -> String {
    let package = match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("*{package}.{kind}")
}

/// A `Status` or another object that is sent as it is.
pub fn plain(request: &ApiRequest, status: StatusCode, value: &Value) -> Answer {
    Answer::value(status, request.agreed.format, value)
}

/// A JSON answer outside of the resources.
pub fn json(request: &ApiRequest, value: &Value) -> Answer {
    let format = if request.agreed.format.is_json() { request.agreed.format } else { Format::Json };
    Answer::value(StatusCode::OK, format, value)
}
