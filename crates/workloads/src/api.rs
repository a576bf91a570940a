//! The API as the controllers use it: requests on JSON values, one kind at a time.

use http::{Method, Request};
use kube::api::ApiResource;
use mainstay_runtime::{Key, Served};
use serde_json::{Value, json};

use crate::{Error, Result};

const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// The most objects of one page of a list.
const PAGE: usize = 500;

/// Returns a built-in kind.
pub fn builtin(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> Served {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Served { resource, namespaced }
}

/// A patch and its format.
#[derive(Clone, Debug)]
pub enum Patch {
    /// JSON Patch.
    Json(Value),
    /// JSON Merge Patch.
    Merge(Value),
    /// Strategic Merge Patch.
    Strategic(Value),
}

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub struct Delete {
    /// Deletes the object only if it has this uid.
    pub uid: Option<String>,
    /// Deletes the object only if it has this resource version.
    pub resource_version: Option<String>,
    /// The grace period in seconds, in place of the object's own.
    pub grace_seconds: Option<u32>,
    /// `Background`, `Foreground` or `Orphan`; the kind's default if absent.
    pub propagation: Option<&'static str>,
}

impl Delete {
    /// Returns the options to delete an object only if it has this uid.
    pub fn uid(uid: &str) -> Self {
        Self { uid: Some(uid.to_owned()), ..Self::default() }
    }

    fn body(&self) -> Value {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(seconds) = self.grace_seconds {
            body["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(policy) = self.propagation {
            body["propagationPolicy"] = json!(policy);
        }
        if let Some(uid) = &self.uid {
            body["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &self.resource_version {
            body["preconditions"]["resourceVersion"] = json!(version);
        }
        body
    }
}

/// The API requests of one component.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    manager: &'static str,
}

struct Call<'a> {
    verb: &'static str,
    method: Method,
    served: &'a Served,
    key: &'a Key,
    subresource: &'a str,
    query: Vec<(&'static str, String)>,
    content_type: &'static str,
    accept: &'static str,
    body: Option<&'a Value>,
}

impl<'a> Call<'a> {
    fn new(verb: &'static str, method: Method, served: &'a Served, key: &'a Key) -> Self {
        Self {
            verb,
            method,
            served,
            key,
            subresource: "",
            query: Vec::new(),
            content_type: "application/json",
            accept: "application/json",
            body: None,
        }
    }

    fn uri(&self) -> String {
        let ApiResource { group, api_version, plural, .. } = &self.served.resource;
        let mut uri = if group.is_empty() { format!("/api/{api_version}") } else { format!("/apis/{api_version}") };
        if self.served.namespaced && !self.key.namespace.is_empty() {
            uri = format!("{uri}/namespaces/{}", self.key.namespace);
        }
        uri = format!("{uri}/{plural}");
        for part in [self.key.name.as_str(), self.subresource] {
            if !part.is_empty() {
                uri.push('/');
                uri.push_str(&part.replace('%', "%25").replace(' ', "%20").replace('?', "%3F").replace('#', "%23"));
            }
        }
        for (index, (key, value)) in self.query.iter().enumerate() {
            let value = value.replace('%', "%25").replace('&', "%26").replace('+', "%2B").replace('=', "%3D");
            uri = format!("{uri}{}{key}={value}", if index == 0 { '?' } else { '&' });
        }
        uri
    }
}

impl Api {
    /// Makes requests with this client, as this field manager.
    pub fn new(client: kube::Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    /// Returns the client.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    async fn send(&self, mut call: Call<'_>) -> Result<Value> {
        if matches!(call.method, Method::POST | Method::PUT | Method::PATCH) {
            call.query.push(("fieldManager", self.manager.to_owned()));
        }
        let failed = |source| Error::Call {
            verb: call.verb,
            kind: call.served.resource.kind.clone(),
            key: call.key.clone(),
            source: Box::new(source),
        };
        let body = call.body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = Request::builder()
            .method(call.method.clone())
            .uri(call.uri())
            .header(http::header::ACCEPT, call.accept)
            .header(http::header::CONTENT_TYPE, call.content_type)
            .body(body)
            .map_err(|error| failed(kube::Error::HttpError(error)))?;
        self.client.request(request).await.map_err(failed)
    }

    /// Gets an object; `None` if it is not found.
    pub async fn get(&self, served: &Served, key: &Key) -> Result<Option<Value>> {
        absent_as_none(self.send(Call::new("getting", Method::GET, served, key)).await)
    }

    /// Gets a subresource of an object.
    pub async fn get_subresource(&self, served: &Served, key: &Key, subresource: &str) -> Result<Value> {
        self.send(Call { subresource, ..Call::new("getting", Method::GET, served, key) }).await
    }

    /// Gets the metadata of an object; `None` if it is not found.
    pub async fn get_metadata(&self, served: &Served, key: &Key) -> Result<Option<Value>> {
        let call = Call { accept: METADATA, ..Call::new("getting", Method::GET, served, key) };
        absent_as_none(self.send(call).await)
    }

    /// Lists the metadata of all objects of a kind in a namespace.
    pub async fn list_metadata(&self, served: &Served, namespace: &str) -> Result<Vec<Value>> {
        let key = Key::new(namespace, "");
        let mut all = Vec::new();
        let mut token = String::new();
        loop {
            let mut call = Call { accept: METADATA_LIST, ..Call::new("listing", Method::GET, served, &key) };
            call.query.push(("limit", PAGE.to_string()));
            if !token.is_empty() {
                call.query.push(("continue", token.clone()));
            }
            let mut page = self.send(call).await?;
            page.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default().clone_into(&mut token);
            if let Some(items) = page.get_mut("items").and_then(Value::as_array_mut) {
                all.append(items);
            }
            if token.is_empty() {
                return Ok(all);
            }
        }
    }

    /// Creates an object.
    pub async fn create(&self, served: &Served, namespace: &str, body: &Value) -> Result<Value> {
        let key = Key::new(namespace, "");
        self.send(Call { body: Some(body), ..Call::new("creating", Method::POST, served, &key) }).await
    }

    /// Posts to a subresource of an object.
    pub async fn post(&self, served: &Served, key: &Key, subresource: &str, body: &Value) -> Result<Value> {
        self.send(Call { subresource, body: Some(body), ..Call::new("posting to", Method::POST, served, key) }).await
    }

    /// Replaces an object or its subresource (empty for none).
    pub async fn replace(&self, served: &Served, key: &Key, subresource: &str, body: &Value) -> Result<Value> {
        self.send(Call { subresource, body: Some(body), ..Call::new("updating", Method::PUT, served, key) }).await
    }

    /// Patches an object or its subresource (empty for none).
    pub async fn patch(&self, served: &Served, key: &Key, subresource: &str, patch: &Patch) -> Result<Value> {
        let (content_type, body) = match patch {
            Patch::Json(body) => ("application/json-patch+json", body),
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
        };
        self.send(Call { subresource, content_type, body: Some(body), ..Call::new("patching", Method::PATCH, served, key) }).await
    }

    /// Deletes an object; `false` if it was not found.
    pub async fn delete(&self, served: &Served, key: &Key, options: &Delete) -> Result<bool> {
        let body = options.body();
        let call = Call { body: Some(&body), ..Call::new("deleting", Method::DELETE, served, key) };
        Ok(absent_as_none(self.send(call).await)?.is_some())
    }

    /// Deletes all objects of a kind in a namespace.
    pub async fn delete_all(&self, served: &Served, namespace: &str) -> Result<()> {
        let key = Key::new(namespace, "");
        let body = Delete { propagation: Some("Background"), ..Delete::default() }.body();
        self.send(Call { body: Some(&body), ..Call::new("deleting all", Method::DELETE, served, &key) }).await?;
        Ok(())
    }
}

fn absent_as_none(outcome: Result<Value>) -> Result<Option<Value>> {
    match outcome {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
