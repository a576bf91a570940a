//! Answers in the form that a client asks for: whole objects, metadata, tables.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use jiff::Timestamp;
use mainstay_apiserver::ApiError;
use mainstay_apiserver::request::Query;
use mainstay_apiserver::request::negotiate::{Agreed, Format, Shape};
use mainstay_kinds::Gvk;
use serde_json::{Value, json};

use crate::manifest::{API_VERSION, GROUP, KIND, Manifest};
use crate::view::{Place, Snapshot};

/// Bytes of a list that are written at once.
const PIECE: usize = 256 << 10;

/// Returns an answer with a value.
pub fn value(status: StatusCode, format: Format, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(format.write(value)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    response
}

/// Returns one object.
pub fn object(manifest: Manifest<'_>, agreed: Agreed, query: &Query, now: Timestamp) -> Result<Response<Body>, ApiError> {
    let whole = || manifest.to_value().map_err(|error| broken(&error));
    let shown = match agreed.shape {
        Shape::Object | Shape::Discovery => whole()?,
        Shape::Metadata => manifest.partial(),
        Shape::Table => table(&[row(manifest, query, now)?]),
        Shape::MetadataList => {
            let text = format!("you requested PartialObjectMetadataList, but the requested object is not a list ({KIND})");
            return Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", text));
        }
    };
    Ok(value(StatusCode::OK, readable(agreed.format)?, &shown))
}

/// Returns a list.
pub fn list(
    snapshot: &Arc<Snapshot>,
    found: Vec<Place>,
    namespace: Option<&str>,
    agreed: Agreed,
    query: &Query,
    now: Timestamp,
) -> Result<Response<Body>, ApiError> {
    let format = readable(agreed.format)?;
    let manifests = || found.iter().filter_map(|place| snapshot.manifest(*place, namespace));
    let shown = match agreed.shape {
        Shape::Object | Shape::Discovery if format == Format::Json => return Ok(pieces(snapshot, found, namespace)),
        Shape::Object | Shape::Discovery => {
            let items = manifests().map(|manifest| manifest.to_value()).collect::<Result<Vec<_>, _>>().map_err(|error| broken(&error))?;
            json!({"kind": format!("{KIND}List"), "apiVersion": API_VERSION, "metadata": {}, "items": items})
        }
        Shape::Metadata => {
            let text = format!("you requested PartialObjectMetadata, but the requested object is a list ({KIND}List)");
            return Err(ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", text));
        }
        Shape::MetadataList => {
            let items: Vec<Value> = manifests().map(|manifest| manifest.partial()).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": items})
        }
        Shape::Table => table(&manifests().map(|manifest| row(manifest, query, now)).collect::<Result<Vec<_>, _>>()?),
    };
    Ok(value(StatusCode::OK, format, &shown))
}

/// A list of whole objects, which is never in memory as a whole.
fn pieces(snapshot: &Arc<Snapshot>, found: Vec<Place>, namespace: Option<&str>) -> Response<Body> {
    struct Writer {
        snapshot: Arc<Snapshot>,
        namespace: Option<String>,
        left: std::vec::IntoIter<Place>,
        began: bool,
        ended: bool,
    }
    let begun =
        Writer { snapshot: snapshot.clone(), namespace: namespace.map(str::to_owned), left: found.into_iter(), began: false, ended: false };
    let written = stream::unfold(begun, |mut writer| async move {
        if writer.ended {
            return None;
        }
        let mut out = Vec::with_capacity(PIECE);
        let mut separate = writer.began;
        if !writer.began {
            writer.began = true;
            out.extend_from_slice(format!(r#"{{"kind":"{KIND}List","apiVersion":"{API_VERSION}","metadata":{{}},"items":["#).as_bytes());
        }
        while out.len() < PIECE {
            let Some(place) = writer.left.next() else {
                out.extend_from_slice(b"]}\n");
                writer.ended = true;
                break;
            };
            let Some(manifest) = writer.snapshot.manifest(place, writer.namespace.as_deref()) else { continue };
            if separate {
                out.push(b',');
            }
            separate = true;
            if let Err(error) = manifest.write(&mut out, false) {
                writer.ended = true;
                return Some((Err(error), writer));
            }
        }
        Some((Ok(Bytes::from(out)), writer))
    });
    let mut response = Response::new(Body::from_stream(written));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(Format::Json.content_type()));
    response
}

fn broken(error: &std::io::Error) -> ApiError {
    ApiError::internal(format!("a package cannot be read: {error}"))
}

/// The kind has no protobuf form.
fn readable(format: Format) -> Result<Format, ApiError> {
    match format {
        Format::Protobuf => Err(ApiError::not_acceptable(&["application/json", "application/yaml"])),
        format => Ok(format),
    }
}

/// A row of a table (OLM0-API-03).
fn row(manifest: Manifest<'_>, query: &Query, now: Timestamp) -> Result<Value, ApiError> {
    let object = match query.first("includeObject").unwrap_or_default() {
        "" | "Metadata" => manifest.partial(),
        "None" => Value::Null,
        "Object" => manifest.to_value().map_err(|error| broken(&error))?,
        other => {
            let problem = format!("includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty");
            return Err(ApiError::bad_request(format!("Unable to convert to Table as requested: {problem}")));
        }
    };
    Ok(json!({"cells": manifest.cells(now), "object": object}))
}

fn table(rows: &[Value]) -> Value {
    // Of columns that every kind has, Kubernetes' own descriptions.
    let known = mainstay_kinds::table(&Gvk::new(GROUP, "v1", KIND));
    let described = |name: &str| known.iter().find(|column| column.name == name).map_or("", |column| column.description.as_str());
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    let columns = [
        column("Name", "name", described("Name")),
        column("Catalog", "", "The source catalog for this package"),
        column("Age", "", described("Created At")),
    ];
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": columns, "rows": rows})
}
