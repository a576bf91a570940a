//! Sending a request on to another API server, as the front proxy that it trusts.

use axum::body::Body;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use mainstay_rbac::UserInfo;
use mainstay_serve::{Connection, Place};
use tokio_util::sync::CancellationToken;

use super::index::RemoteApi;
use crate::remote::Remotes;
use crate::request::encode_path;

const USER: &str = "x-remote-user";
const UID: &str = "x-remote-uid";
const GROUP: &str = "x-remote-group";
const EXTRA: &str = "x-remote-extra-";

/// Headers that belong to one connection.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Sends a request of this user on; the answer is the other server's, streams and changed protocols included. `path` is the decoded
/// path that was authorized: the other server is asked for that and for nothing that only looks like it.
pub async fn forward(
    (remotes, closing): (&Remotes, &CancellationToken),
    remote: &RemoteApi,
    path: &str,
    mut parts: Parts,
    body: Body,
    user: &UserInfo,
) -> Response<Body> {
    if !remote.available {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
    }
    let config = match &remote.config {
        Ok(config) => config,
        Err(error) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    if let Err(error) = remotes.addresses(&config.target) {
        tracing::debug!(name = remote.name, %error, "an API server has no address");
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
    }
    let upgrade = parts.headers.get(header::UPGRADE).cloned().filter(|_| names_upgrade(&parts.headers));
    let client = parts.extensions.remove::<OnUpgrade>();
    let place = parts.extensions.remove::<Place>();
    let path = encode_path(path);
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let request = Request::builder().method(parts.method.clone()).uri(format!("{}{path}{query}", config.target.url())).body(body);
    let mut request = match request {
        Ok(request) => request,
        Err(error) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    *request.headers_mut() = match headers(&parts, &path, user) {
        Ok(headers) => headers,
        Err(why) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, why),
    };
    if let Some(protocol) = &upgrade {
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        request.headers_mut().insert(header::UPGRADE, protocol.clone());
    }
    let mut response = match remotes.forward(config, request, upgrade.is_some()).await {
        Ok(response) => response,
        Err(failure) => return refuse(StatusCode::SERVICE_UNAVAILABLE, &format!("error trying to reach service: {failure}")),
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(client) = client else {
            return refuse(StatusCode::BAD_REQUEST, "the connection of the client cannot change its protocol");
        };
        let server = hyper::upgrade::on(&mut response);
        tokio::spawn(join(client, server, closing.clone(), place));
        let (head, _) = response.into_parts();
        return Response::from_parts(head, Body::empty());
    }
    let (mut head, body) = response.into_parts();
    strip(&mut head.headers);
    head.version = http::Version::default();
    Response::from_parts(head, Body::new(body))
}

/// Carries bytes both ways until one side ends; the client keeps its place so long.
async fn join(client: OnUpgrade, server: OnUpgrade, closing: CancellationToken, place: Option<Place>) {
    place.iter().for_each(Place::upgraded);
    let (client, server) = match tokio::try_join!(client, server) {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "a connection did not change its protocol");
            return;
        }
    };
    let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
    tokio::select! {
        // How a stream of others ends is theirs to know.
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        () = closing.cancelled() => {}
    }
}

/// A request of the aggregation layer itself.
pub fn aggregator_request(url: &str, accept: &str) -> Result<Request<Body>, http::Error> {
    Request::get(url)
        .header(header::ACCEPT, accept)
        .header(USER, "system:kube-aggregator")
        .header(GROUP, "system:masters")
        .body(Body::empty())
}

fn names_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
}

/// The headers that are sent on: the client's without its credentials, and who it is.
fn headers(parts: &Parts, path: &str, user: &UserInfo) -> Result<HeaderMap, &'static str> {
    let mut headers = parts.headers.clone();
    strip(&mut headers);
    let private = |name: &HeaderName| {
        let name = name.as_str();
        name == "authorization"
            || name == "host"
            || name.starts_with("impersonate-")
            || name == USER
            || name == UID
            || name == GROUP
            || name.starts_with(EXTRA)
    };
    let names: Vec<HeaderName> = headers.keys().filter(|name| private(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).map_err(|_| "the user's name cannot be sent in a header");
    headers.insert(USER, value(&user.name)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group)?);
    }
    for (key, values) in &user.extra {
        let name = HeaderName::try_from(format!("{EXTRA}{}", escape(key))).map_err(|_| "the user's extra cannot be sent in a header")?;
        for one in values {
            headers.append(name.clone(), value(one)?);
        }
    }
    if let Some(connection) = parts.extensions.get::<Connection>() {
        let address = connection.remote.ip().to_string();
        let chain = match parts.headers.get("x-forwarded-for").and_then(|chain| chain.to_str().ok()) {
            Some(chain) => format!("{chain}, {address}"),
            None => address,
        };
        headers.insert("x-forwarded-for", value(&chain)?);
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
    headers.insert("x-forwarded-uri", value(path)?);
    if let Some(host) = parts.headers.get(header::HOST) {
        headers.insert("x-forwarded-host", host.clone());
    }
    Ok(headers)
}

/// Removes what belongs to the connection, and what it says belongs to it.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|token| token.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

/// A key of `extra` as part of a header's name.
fn escape(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    key.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Go's `http.Error`.
fn refuse(code: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-AGG-01: who asks is told by headers that the client cannot set; its credentials stay here.
    #[test]
    fn identity_headers() {
        let request = Request::get("/apis/g/v1/things?watch=1")
            .header("authorization", "Bearer secret")
            .header("x-remote-user", "root")
            .header("x-remote-group", "system:masters")
            .header("x-remote-extra-a", "b")
            .header("impersonate-user", "ann")
            .header("connection", "close, x-private")
            .header("x-private", "1")
            .header("accept", "application/json")
            .header("host", "here:6443")
            .body(())
            .unwrap();
        let (parts, ()) = request.into_parts();
        let mut user = UserInfo::new("ann", &["devs", "system:authenticated"]);
        user.uid = "7".to_owned();
        user.extra.insert("example.com/scopes".to_owned(), vec!["x".to_owned(), "y".to_owned()]);
        let headers = headers(&parts, parts.uri.path(), &user).unwrap();
        let mut shown: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                "accept: application/json",
                "x-forwarded-host: here:6443",
                "x-forwarded-proto: https",
                "x-forwarded-uri: /apis/g/v1/things",
                "x-remote-extra-example.com%2fscopes: x",
                "x-remote-extra-example.com%2fscopes: y",
                "x-remote-group: devs",
                "x-remote-group: system:authenticated",
                "x-remote-uid: 7",
                "x-remote-user: ann",
            ]
        );
    }
}
