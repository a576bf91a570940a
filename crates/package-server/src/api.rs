//! The API `packages.operators.coreos.com/v1` (OLM0-API-27 to OLM0-API-31, OLM0-USER-04).
//!
//! ```text
//!   request ─ identify ─ authorize ─┬─ documents   discovery, OpenAPI
//!             front      permissions ├─ list, get   in the form that the client asks for
//!                                    └─ icon
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use mainstay_apiserver::ApiError;
use mainstay_apiserver::access::{attributes, unauthorized};
use mainstay_apiserver::error::Details;
use mainstay_apiserver::request::negotiate::{Agreed, Format, Offers, agree};
use mainstay_apiserver::request::options::ListOptions;
use mainstay_apiserver::request::{Query, RequestInfo, decode_path};
use mainstay_kinds::Gvk;
use mainstay_runtime::Env;
use mainstay_serve::Connection;
use serde_json::Value;

use crate::front::Front;
use crate::manifest::{GROUP, KIND, Manifest, RESOURCE};
use crate::permissions::Permissions;
use crate::view::View;
use crate::{answers, documents, icon};

/// The API with what it needs.
pub struct PackageApi {
    /// The packages.
    pub view: View,
    /// The namespace whose catalogs every namespace sees.
    pub global: String,
    /// The front proxy, which names the user who asks.
    pub front: Front,
    /// The permissions of users.
    pub permissions: Permissions,
    /// True once the sources were read.
    pub ready: AtomicBool,
    /// The clock.
    pub env: Env,
}

impl std::fmt::Debug for PackageApi {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("PackageApi").field("view", &self.view).field("global", &self.global).finish_non_exhaustive()
    }
}

/// A request that was authenticated and authorized.
struct Asked {
    parts: Parts,
    info: RequestInfo,
    query: Query,
    agreed: Agreed,
}

/// The router of the API.
pub fn router(api: Arc<PackageApi>) -> Router {
    Router::new().fallback(answer).with_state(api)
}

async fn answer(State(api): State<Arc<PackageApi>>, request: Request<Body>) -> Response<Body> {
    let (parts, _body) = request.into_parts();
    let agreed = agree(&parts.headers, None, Offers { protobuf: false, tables: true });
    let format = agreed.as_ref().map(|agreed| agreed.format).unwrap_or_default();
    match api.handle(parts, agreed).await {
        Ok(response) => response,
        Err(error) => refuse(&error, format),
    }
}

impl PackageApi {
    async fn handle(&self, parts: Parts, agreed: Result<Agreed, ApiError>) -> Result<Response<Body>, ApiError> {
        let path = decode_path(parts.uri.path()).ok_or_else(|| ApiError::bad_request("the path cannot be read"))?;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let info = RequestInfo::new(&parts.method, &path, &query);
        if info.is_probe() {
            return Ok(self.probe(&info));
        }
        let connection = parts.extensions.get::<Connection>();
        let user = self.front.identify(connection, &parts.headers, self.env.now()).ok_or_else(unauthorized)?;
        self.permissions.check(&attributes(&user, &info)).await?;
        let asked = Asked { parts, info, query, agreed: agreed? };
        if asked.info.is_resource { self.resource(&asked) } else { document(&asked) }
    }

    fn probe(&self, info: &RequestInfo) -> Response<Body> {
        let ready = !info.path.starts_with("/readyz") || self.ready.load(Ordering::Acquire) && self.front.is_known();
        let text = if ready { "ok" } else { "the catalogs or the front proxy's certificate were not read yet" };
        let mut response = Response::new(Body::from(text));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if !ready {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        response
    }

    fn resource(&self, asked: &Asked) -> Result<Response<Body>, ApiError> {
        let info = &asked.info;
        if (info.group.as_str(), info.version.as_str(), info.resource.as_str()) != (GROUP, "v1", RESOURCE) || !info.rest.is_empty() {
            return Err(ApiError::no_such_resource());
        }
        let by_path = !info.is_selected && !info.name.is_empty();
        match (info.subresource.as_str(), info.verb.as_str()) {
            ("" | "icon", _) if !is_read(&asked.parts.method) => Err(ApiError::method_not_allowed()),
            ("", "watch") => Err(no_watch()),
            ("", _) if !by_path => self.list(asked),
            // An object without a namespace has no address.
            _ if info.namespace.is_empty() => Err(ApiError::no_such_resource()),
            ("", _) => self.get(asked),
            ("icon", _) => Ok(self.icon(asked)),
            _ => Err(ApiError::no_such_resource()),
        }
    }

    fn list(&self, asked: &Asked) -> Result<Response<Body>, ApiError> {
        let options = ListOptions::parse(&asked.query, false)?;
        if let Some(other) = options.fields.fields().find(|field| !["metadata.name", "metadata.namespace"].contains(field)) {
            return Err(ApiError::bad_request(mainstay_kinds::unsupported_field(&Gvk::new(GROUP, "v1", KIND), other)));
        }
        let namespace = Some(asked.info.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let snapshot = self.view.now();
        let found = snapshot.list(namespace, &self.global, &options.labels, &options.fields);
        answers::list(&snapshot, found, namespace, asked.agreed, &asked.query, self.env.now())
    }

    fn get(&self, asked: &Asked) -> Result<Response<Body>, ApiError> {
        let (namespace, name) = (asked.info.namespace.as_str(), asked.info.name.as_str());
        let snapshot = self.view.now();
        let (source, package) = snapshot.get(namespace, &self.global, name).ok_or_else(|| ApiError::not_found(GROUP, RESOURCE, name))?;
        let manifest = Manifest { source: &source.facts, package, namespace };
        answers::object(manifest, asked.agreed, &asked.query, self.env.now())
    }

    fn icon(&self, asked: &Asked) -> Response<Body> {
        let (namespace, name) = (asked.info.namespace.as_str(), asked.info.name.as_str());
        let snapshot = self.view.now();
        let found = snapshot.get(namespace, &self.global, name);
        let names_version = asked.query.text("resourceVersion").is_some();
        if icon::is_known(&asked.parts.headers, found.map(|(_, package)| package), names_version) {
            return icon::unchanged();
        }
        if let Some((source, package)) = found {
            return icon::read(source, package);
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn no_watch() -> ApiError {
    let details = Details { group: GROUP.to_owned(), kind: RESOURCE.to_owned(), ..Details::default() };
    let text = format!("watch is not supported on resources of kind \"{RESOURCE}.{GROUP}\"");
    ApiError { details: Some(details), ..ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", text) }
}

fn document(asked: &Asked) -> Result<Response<Body>, ApiError> {
    let document = documents::document(&asked.info.path).ok_or_else(ApiError::page_not_found)?;
    if !is_read(&asked.parts.method) {
        return Err(ApiError::method_not_allowed());
    }
    let format = if asked.agreed.format.is_json() { asked.agreed.format } else { Format::Json };
    Ok(answers::value(StatusCode::OK, format, &document))
}

fn refuse(error: &ApiError, format: Format) -> Response<Body> {
    if error.code == StatusCode::NOT_FOUND && error.reason.is_empty() {
        let mut response = Response::new(Body::from(error.message.clone()));
        *response.status_mut() = error.code;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        return response;
    }
    let status: Value = error.status();
    let format = if format == Format::Protobuf { Format::Json } else { format };
    answers::value(error.code, format, &status)
}
