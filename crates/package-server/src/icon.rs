//! The picture of a package (OLM0-API-31): that of its default channel's head, or a plain one of ours.

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};

use crate::packages::{Package, read_icon};
use crate::view::Source;

/// The picture of a package that has none: a box.
const PLAIN: &str = concat!(
    r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" fill="none" stroke="#8a8d90" stroke-width="3" stroke-linejoin="round">"##,
    r##"<path d="M32 6 56 18v28L32 58 8 46V18z"/><path d="M8 18l24 12 24-12M32 30v28M20 12l24 12"/></svg>"##,
);
/// The media type of [`PLAIN`], and of what is no picture.
const SVG: &str = "image/svg+xml";

/// The name of a package's picture: it changes with the version at the head of the default channel.
fn tag(package: &Package) -> Option<String> {
    let channel = package.channels.iter().find(|channel| channel.name == package.default_channel)?;
    Some(format!("\"{}.{}.{}\"", package.name, channel.name, channel.current))
}

/// Returns true if the client has the picture: its tag is the present one, or the address names a version of the object, which a picture
/// never outlives.
pub fn is_known(headers: &HeaderMap, package: Option<&Package>, names_version: bool) -> bool {
    let Some(held) = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).filter(|held| !held.is_empty()) else { return false };
    names_version || package.and_then(tag).is_some_and(|tag| held.split(',').any(|one| one.trim() == tag))
}

/// Returns the answer to a client that has the picture.
pub fn unchanged() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// Reads the picture of a package of a source.
pub fn read(source: &Source, package: &Package) -> Response<Body> {
    let icon = read_icon(&source.catalog, package).and_then(|icon| {
        let plain: String = icon.base64data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        Some((STANDARD.decode(plain).ok().filter(|bytes| !bytes.is_empty())?, icon.mediatype))
    });
    let Some((bytes, kind)) = icon else { return respond(PLAIN.into(), SVG, None) };
    // A catalog must not have browsers take its text for a page.
    let kind = if kind.starts_with("image/") { kind.as_str() } else { "application/octet-stream" };
    respond(bytes.into(), kind, tag(package))
}

fn respond(body: Body, kind: &str, tag: Option<String>) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &str| {
        // A name that is no header's value is left out: the picture counts.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    put(CONTENT_TYPE, kind);
    put(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Drawings may hold scripts.
    put(CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; sandbox");
    if let Some(tag) = tag {
        put(ETAG, &tag);
    }
    response
}
