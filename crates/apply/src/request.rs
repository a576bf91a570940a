//! A request and its answer: paths, queries, and the server's Status.

use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use mainstay_objects::ObjectRef;
use mainstay_runtime::{NotLeading, Served};
use serde_json::Value;

use crate::{Verb, WriteError};

/// Size limit of an answer, in bytes: no single object is larger.
const LARGEST: usize = 64 * 1024 * 1024;

pub(crate) struct Call<'a> {
    pub verb: Verb,
    pub method: Method,
    pub object: &'a ObjectRef,
    pub path: String,
    pub query: Vec<(&'static str, String)>,
    pub content_type: &'static str,
    pub body: Option<&'a Value>,
}

pub(crate) struct Answer {
    pub created: bool,
    pub object: Value,
    /// The texts of the server's warnings.
    pub warnings: Vec<String>,
}

/// Returns the path of a kind's objects, of one of them, or of its subresource.
pub(crate) fn path(served: &Served, namespace: &str, name: &str, subresource: &str) -> String {
    let resource = &served.resource;
    let mut path = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if served.namespaced {
        path = format!("{path}/namespaces/{}", escaped(namespace));
    }
    path = format!("{path}/{}", resource.plural);
    for part in [name, subresource] {
        if !part.is_empty() {
            path = format!("{path}/{}", escaped(part));
        }
    }
    path
}

/// Returns the path of a kind's objects in all namespaces.
pub(crate) fn collection(served: &Served) -> String {
    path(&Served { namespaced: false, ..served.clone() }, "", "", "")
}

/// Percent-encodes all characters that names cannot have (some RBAC names have colons, which stay).
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

pub(crate) fn with_query(path: String, query: &[(&'static str, String)]) -> String {
    let mut separator = '?';
    query.iter().fold(path, |all, (key, value)| {
        let all = format!("{all}{separator}{key}={}", escaped(value));
        separator = '&';
        all
    })
}

impl Call<'_> {
    pub async fn send(self, client: &kube::Client) -> Result<Answer, WriteError> {
        let unreachable = |source: Box<dyn std::error::Error + Send + Sync>| WriteError::Unreachable {
            verb: self.verb,
            object: Box::new(self.object.clone()),
            source,
        };
        let strange = |problem: String| WriteError::Answer { verb: self.verb, object: Box::new(self.object.clone()), problem };
        let body = self.body.map(ToString::to_string).unwrap_or_default();
        let mut request = Request::builder().method(self.method.clone()).uri(with_query(self.path.clone(), &self.query));
        request = request.header(http::header::ACCEPT, "application/json");
        if self.body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, self.content_type);
        }
        let request = request.body(Body::from(body.into_bytes())).map_err(|error| strange(error.to_string()))?;
        let response = client.send(request).await.map_err(|error| {
            if NotLeading::is_behind(&error) {
                return WriteError::NotLeading { verb: self.verb, object: Box::new(self.object.clone()), source: NotLeading };
            }
            unreachable(Box::new(error))
        })?;
        let code = response.status();
        let warnings = response.headers().get_all(http::header::WARNING).iter().filter_map(warning).collect();
        let bytes = Limited::new(response.into_body(), LARGEST).collect().await.map_err(unreachable)?.to_bytes();
        if !code.is_success() {
            // Proxies answer with pages; for those only the status counts.
            let status = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            return Err(WriteError::refused(self.verb, self.object, code.as_u16(), &status));
        }
        let object = serde_json::from_slice(&bytes).map_err(|error| strange(error.to_string()))?;
        Ok(Answer { created: code == http::StatusCode::CREATED, object, warnings })
    }
}

/// Returns the text of a header `299 - "TEXT"`.
fn warning(header: &http::HeaderValue) -> Option<String> {
    let quoted = header.to_str().ok()?.split_once('"')?.1.rsplit_once('"')?.0;
    Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\"))
}
