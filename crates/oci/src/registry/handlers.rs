//! The requests of the distribution protocol.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, LINK, LOCATION, RANGE, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::content::{MAX_BLOB, StoredManifest};
use super::uploads::{Pending, Refused, Uploads};
use super::{Registry, count};
use crate::client::MAX_MANIFEST;
use crate::digest::{Digest, Hasher};
use crate::manifest::media_type;
use crate::pace::{Meter, Pace, Slow};

const DIGEST_HEADER: &str = "docker-content-digest";

/// A request that is answered with an error: status, code, message.
struct Refusal(StatusCode, &'static str, String);

type Answer = Result<Response, Refusal>;

pub(super) async fn handle(State(registry): State<Registry>, request: Request) -> Response {
    let headers = request.headers().clone();
    let state = &registry.state;
    let path = request.uri().path().to_owned();
    if path == "/token" {
        return match state.access.issue(request.uri(), &headers) {
            Some(token) => json_response(StatusCode::OK, &json!({ "token": token })),
            None => error_response(&Refusal(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "wrong user or password".to_owned())),
        };
    }
    if !state.access.allows(&headers) {
        count(&state.counters.refused);
        let mut response = error_response(&Refusal(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", "authentication required".to_owned()));
        if let Ok(challenge) = state.access.challenge(&headers).parse() {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        return response;
    }
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let limit = if path.contains("/manifests/") { MAX_MANIFEST } else { MAX_BLOB };
    state.content.uploads.expire();
    let body = match taken_in(&state.content.uploads, body, limit).await {
        Ok(body) => body,
        Err(refusal) => return error_response(&refusal),
    };
    let mut call = Call { registry: &registry, method: parts.method, query, headers, body };
    call.route(&path).unwrap_or_else(|refusal| error_response(&refusal))
}

/// Reads a request's body, at the allowed pace and up to the allowed size.
async fn taken_in(uploads: &Uploads, body: Body, limit: usize) -> Result<Pending, Refusal> {
    let mut pending = uploads.pending();
    let mut meter = Meter::new(Pace::default(), limit as u64);
    let mut pieces = body.into_data_stream();
    let slow = |slow: Slow| Refusal(StatusCode::REQUEST_TIMEOUT, "BLOB_UPLOAD_INVALID", slow.to_string());
    while let Some(piece) = meter.wait(pieces.next()).await.map_err(slow)? {
        let piece = piece.map_err(|error| Refusal(StatusCode::BAD_REQUEST, "BLOB_UPLOAD_INVALID", error.to_string()))?;
        if pending.len() + piece.len() > limit {
            let problem = format!("the body is longer than {limit} bytes");
            return Err(Refusal(StatusCode::PAYLOAD_TOO_LARGE, "SIZE_INVALID", problem));
        }
        pending.extend(&piece).map_err(|refused| refusal(refused, ""))?;
        meter.came(piece.len() as u64).map_err(slow)?;
    }
    Ok(pending)
}

fn refusal(refused: Refused, id: &str) -> Refusal {
    match refused {
        Refused::Unknown => Refusal(StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", format!("upload {id} unknown to registry")),
        Refused::Full => Refusal(StatusCode::TOO_MANY_REQUESTS, "TOOMANYREQUESTS", "too much is being uploaded at a time".to_owned()),
    }
}

struct Call<'a> {
    registry: &'a Registry,
    method: Method,
    query: String,
    headers: HeaderMap,
    body: Pending,
}

impl Call<'_> {
    fn route(&mut self, path: &str) -> Answer {
        let rest = path.strip_prefix("/v2/").or_else(|| (path == "/v2").then_some("")).ok_or_else(|| not_found("no such path"))?;
        if rest.is_empty() {
            return Ok(json_response(StatusCode::OK, &json!({})));
        }
        if rest == "_catalog" {
            return self.page("repositories", None, self.registry.repositories(), "/v2/_catalog");
        }
        // The name may have slashes, so the end of the path tells the request.
        let upload = rest.rsplit_once("/blobs/uploads/").or_else(|| rest.strip_suffix("/blobs/uploads").map(|name| (name, "")));
        if let Some((name, id)) = upload {
            return self.upload(valid(name)?, id);
        }
        if let Some((name, digest)) = rest.rsplit_once("/blobs/") {
            return self.blob(valid(name)?, digest);
        }
        if let Some((name, reference)) = rest.rsplit_once("/manifests/") {
            return self.manifest(valid(name)?, reference);
        }
        if let Some((name, digest)) = rest.rsplit_once("/referrers/") {
            return self.referrers(valid(name)?, digest);
        }
        if let Some(name) = rest.strip_suffix("/tags/list") {
            let repository = self.registry.state.content.repository(valid(name)?).ok_or_else(|| unknown_name(name))?;
            return self.page("tags", Some(name), repository.tags.into_keys().collect(), &format!("/v2/{name}/tags/list"));
        }
        Err(not_found("no such path"))
    }

    fn blob(&self, name: &str, digest: &str) -> Answer {
        let state = &self.registry.state;
        let digest: Digest = digest.parse().map_err(|_| Refusal(StatusCode::BAD_REQUEST, "DIGEST_INVALID", digest.to_owned()))?;
        let unknown = || Refusal(StatusCode::NOT_FOUND, "BLOB_UNKNOWN", format!("blob {digest} unknown to registry"));
        let repository = state.content.repository(name).filter(|repository| repository.blobs.contains(&digest)).ok_or_else(unknown)?;
        drop(repository);
        if self.method == Method::DELETE {
            self.change(name, |repository| repository.blobs.remove(&digest))?;
            return Ok(empty(StatusCode::ACCEPTED));
        }
        let bytes = state.content.blob(&digest).ok_or_else(unknown)?;
        let builder = Response::builder()
            .header(DIGEST_HEADER, digest.as_str())
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(ACCEPT_RANGES, "bytes");
        if self.method == Method::HEAD {
            count(&state.counters.blob_checks);
            return finish(builder.header(CONTENT_LENGTH, bytes.len()), Body::empty());
        }
        self.expect(&[Method::GET])?;
        count(&state.counters.blob_reads);
        let Some(range) = self.headers.get(RANGE).and_then(|value| value.to_str().ok()) else {
            return finish(builder, Body::from(bytes));
        };
        let (start, end) = parse_range(range, bytes.len())
            .ok_or_else(|| Refusal(StatusCode::RANGE_NOT_SATISFIABLE, "SIZE_INVALID", format!("range {range} of {} bytes", bytes.len())))?;
        let content_range = format!("bytes {start}-{}/{}", end - 1, bytes.len());
        finish(builder.status(StatusCode::PARTIAL_CONTENT).header(CONTENT_RANGE, content_range), Body::from(bytes.slice(start..end)))
    }

    fn upload(&mut self, name: &str, id: &str) -> Answer {
        let content = &self.registry.state.content;
        let uploads = &content.uploads;
        let refused = |why: Refused| refusal(why, id);
        let accepted = |id: &str, size: usize| {
            let builder = Response::builder()
                .status(StatusCode::ACCEPTED)
                .header(LOCATION, format!("/v2/{name}/blobs/uploads/{id}"))
                .header("range", format!("0-{}", size.saturating_sub(1)));
            finish(builder, Body::empty())
        };
        if id.is_empty() {
            self.expect(&[Method::POST])?;
            if let (Some(digest), Some(from)) = (self.parameter("mount"), self.parameter("from"))
                && let Ok(digest) = digest.parse::<Digest>()
                && content.repository(&from).is_some_and(|repository| repository.blobs.contains(&digest))
            {
                self.change(name, |repository| repository.blobs.insert(digest.clone()))?;
                return created(&format!("/v2/{name}/blobs/{digest}"), &digest);
            }
            if let Some(digest) = self.parameter("digest") {
                let body = self.take_body();
                return self.store(name, &digest, body.into_bytes().into());
            }
            return accepted(&uploads.start(name).map_err(refused)?, 0);
        }
        match self.method {
            Method::PATCH => {
                let body = self.take_body();
                let size = uploads.append(name, id, body).map_err(refused)?;
                if size > MAX_BLOB {
                    uploads.finish(name, id).map_err(refused)?;
                    return Err(Refusal(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "SIZE_INVALID",
                        format!("the blob is longer than {MAX_BLOB} bytes"),
                    ));
                }
                accepted(id, size)
            }
            Method::PUT => {
                let digest =
                    self.parameter("digest").ok_or_else(|| Refusal(StatusCode::BAD_REQUEST, "DIGEST_INVALID", "no digest".to_owned()))?;
                let body = self.take_body();
                uploads.append(name, id, body).map_err(refused)?;
                let whole = uploads.finish(name, id).map_err(refused)?;
                self.store(name, &digest, whole.into_bytes().into())
            }
            Method::GET => {
                let size = uploads.append(name, id, uploads.pending()).map_err(refused)?;
                let builder = Response::builder().status(StatusCode::NO_CONTENT).header("range", format!("0-{}", size.saturating_sub(1)));
                finish(builder, Body::empty())
            }
            Method::DELETE => {
                uploads.finish(name, id).map_err(refused)?;
                Ok(empty(StatusCode::NO_CONTENT))
            }
            _ => Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED", self.method.to_string())),
        }
    }

    fn take_body(&mut self) -> Pending {
        let empty = self.registry.state.content.uploads.pending();
        std::mem::replace(&mut self.body, empty)
    }

    fn store(&self, name: &str, digest: &str, bytes: Bytes) -> Answer {
        let expected: Digest = digest.parse().map_err(|_| Refusal(StatusCode::BAD_REQUEST, "DIGEST_INVALID", digest.to_owned()))?;
        same_digest(&expected, &bytes)?;
        self.registry.state.content.put_blob(&expected, bytes).map_err(|error| internal(&error.to_string()))?;
        self.change(name, |repository| repository.blobs.insert(expected.clone()))?;
        count(&self.registry.state.counters.blob_writes);
        created(&format!("/v2/{name}/blobs/{expected}"), &expected)
    }

    fn manifest(&self, name: &str, reference: &str) -> Answer {
        let state = &self.registry.state;
        if self.method == Method::PUT {
            let body = self.body.bytes().to_vec();
            return self.put_manifest(name, reference, &body.into());
        }
        let unknown = || Refusal(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN", format!("manifest {reference} unknown to registry"));
        let repository = state.content.repository(name).ok_or_else(|| unknown_name(name))?;
        let digest = reference.parse().ok().or_else(|| repository.tags.get(reference).cloned()).ok_or_else(unknown)?;
        let stored = repository.manifests.get(&digest).ok_or_else(unknown)?;
        if self.method == Method::DELETE {
            self.change(name, |repository| {
                if repository.tags.remove(reference).is_none() {
                    repository.manifests.remove(&digest);
                    repository.tags.retain(|_, other| *other != digest);
                }
            })?;
            return Ok(empty(StatusCode::ACCEPTED));
        }
        self.expect(&[Method::GET, Method::HEAD])?;
        count(&state.counters.manifest_reads);
        let bytes = state.content.blob(&digest).ok_or_else(unknown)?;
        let builder = Response::builder().header(DIGEST_HEADER, digest.as_str()).header(CONTENT_TYPE, &stored.media_type);
        if self.method == Method::HEAD {
            return finish(builder.header(CONTENT_LENGTH, bytes.len()), Body::empty());
        }
        finish(builder, Body::from(bytes))
    }

    fn put_manifest(&self, name: &str, reference: &str, body: &Bytes) -> Answer {
        let state = &self.registry.state;
        let invalid = |problem: String| Refusal(StatusCode::BAD_REQUEST, "MANIFEST_INVALID", problem);
        let document: Value = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
        let digest = match reference.parse::<Digest>() {
            Ok(expected) => {
                same_digest(&expected, body)?;
                expected
            }
            Err(_) => Digest::of(body),
        };
        let held = state.content.repository(name).unwrap_or_default();
        let blobs = document["layers"].as_array().into_iter().flatten().chain(document.get("config"));
        for blob in blobs.filter_map(|blob| blob["digest"].as_str()) {
            if !blob.parse().is_ok_and(|digest| held.blobs.contains(&digest)) {
                return Err(Refusal(StatusCode::NOT_FOUND, "MANIFEST_BLOB_UNKNOWN", format!("blob {blob} unknown to registry")));
            }
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let subject: Option<Digest> = document["subject"]["digest"].as_str().and_then(|digest| digest.parse().ok());
        let media_type = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let stored = StoredManifest {
            media_type: media_type.or_else(|| text(&document["mediaType"])).unwrap_or_else(|| media_type::OCI_MANIFEST.to_owned()),
            artifact_type: text(&document["artifactType"]).or_else(|| text(&document["config"]["mediaType"])),
            subject: subject.clone(),
            size: body.len() as u64,
        };
        state.content.put_blob(&digest, body.clone()).map_err(|error| internal(&error.to_string()))?;
        self.change(name, |repository| {
            repository.manifests.insert(digest.clone(), stored);
            if reference.parse::<Digest>().is_err() {
                repository.tags.insert(reference.to_owned(), digest.clone());
            }
        })?;
        count(&state.counters.manifest_writes);
        let mut response = created(&format!("/v2/{name}/manifests/{digest}"), &digest)?;
        if let Some(value) = subject.and_then(|subject| subject.as_str().parse().ok()) {
            response.headers_mut().insert("oci-subject", value);
        }
        Ok(response)
    }

    fn referrers(&self, name: &str, digest: &str) -> Answer {
        self.expect(&[Method::GET])?;
        let wanted = self.parameter("artifactType");
        let repository = self.registry.state.content.repository(name).unwrap_or_default();
        let entries: Vec<Value> = repository
            .manifests
            .iter()
            .filter(|(_, stored)| stored.subject.as_ref().is_some_and(|subject| subject.as_str() == digest))
            .filter(|(_, stored)| wanted.is_none() || stored.artifact_type == wanted)
            .map(|(digest, stored)| {
                json!({"mediaType": stored.media_type, "digest": digest, "size": stored.size, "artifactType": stored.artifact_type})
            })
            .collect();
        let index = json!({"schemaVersion": 2, "mediaType": media_type::OCI_INDEX, "manifests": entries});
        let builder = Response::builder().header(CONTENT_TYPE, media_type::OCI_INDEX);
        finish(builder, Body::from(index.to_string()))
    }

    /// A sorted list, in pages of `n` after `last`.
    fn page(&self, key: &str, name: Option<&str>, all: Vec<String>, path: &str) -> Answer {
        self.expect(&[Method::GET])?;
        let last = self.parameter("last").unwrap_or_default();
        let size = self.parameter("n").and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
        let rest: Vec<String> = all.into_iter().filter(|item| *item > last).collect();
        let more = rest.len() > size;
        let items: Vec<String> = rest.into_iter().take(size).collect();
        let mut builder = Response::builder().header(CONTENT_TYPE, "application/json");
        if let Some(last) = items.last().filter(|_| more) {
            builder = builder.header(LINK, format!("<{path}?n={size}&last={last}>; rel=\"next\""));
        }
        let mut document = json!({ key: items });
        if let Some(name) = name {
            document["name"] = name.into();
        }
        finish(builder, Body::from(document.to_string()))
    }

    fn change<T>(&self, name: &str, change: impl FnOnce(&mut super::content::Repository) -> T) -> Result<T, Refusal> {
        self.registry.state.content.change(name, change).map_err(|error| internal(&error.to_string()))
    }

    fn expect(&self, methods: &[Method]) -> Result<(), Refusal> {
        if methods.contains(&self.method) {
            return Ok(());
        }
        Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED", format!("method {} is not supported here", self.method)))
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| percent_decoded(value))
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = match (first, tail) {
            (b'%', [high, low, ..]) => std::str::from_utf8(&[*high, *low]).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok()),
            _ => None,
        };
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn same_digest(expected: &Digest, bytes: &[u8]) -> Result<(), Refusal> {
    let mut hasher = Hasher::like(Some(expected));
    hasher.update(bytes);
    let found = hasher.finish();
    if found == *expected {
        return Ok(());
    }
    Err(Refusal(StatusCode::BAD_REQUEST, "DIGEST_INVALID", format!("content has digest {found}, expected {expected}")))
}

/// Names are made of the components of references.
fn valid(name: &str) -> Result<&str, Refusal> {
    crate::Reference::parse(&format!("localhost/{name}"))
        .ok()
        .filter(|reference| reference.repository() == name)
        .map(|_| name)
        .ok_or_else(|| Refusal(StatusCode::BAD_REQUEST, "NAME_INVALID", format!("invalid repository name {name:?}")))
}

/// `bytes=a-b`, `bytes=a-`, `bytes=-n` as a half-open range.
fn parse_range(text: &str, length: usize) -> Option<(usize, usize)> {
    let (start, end) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (start, end) {
        ("", count) => (length.checked_sub(count.parse().ok()?)?, length),
        (start, "") => (start.parse().ok()?, length),
        (start, end) => (start.parse().ok()?, end.parse::<usize>().ok()?.checked_add(1)?.min(length)),
    };
    (start < end && end <= length).then_some((start, end))
}

fn not_found(message: &str) -> Refusal {
    Refusal(StatusCode::NOT_FOUND, "NOT_FOUND", message.to_owned())
}

fn unknown_name(name: &str) -> Refusal {
    Refusal(StatusCode::NOT_FOUND, "NAME_UNKNOWN", format!("repository {name} unknown to registry"))
}

fn internal(message: &str) -> Refusal {
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN", message.to_owned())
}

fn created(location: &str, digest: &Digest) -> Answer {
    let builder = Response::builder().status(StatusCode::CREATED).header(LOCATION, location).header(DIGEST_HEADER, digest.as_str());
    finish(builder, Body::empty())
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn finish(builder: http::response::Builder, body: Body) -> Answer {
    builder.body(body).map_err(|error| internal(&error.to_string()))
}

fn json_response(status: StatusCode, document: &Value) -> Response {
    let mut response = Response::new(Body::from(document.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn error_response(refusal: &Refusal) -> Response {
    let Refusal(status, code, message) = refusal;
    json_response(*status, &json!({"errors": [{"code": code, "message": message}]}))
}
