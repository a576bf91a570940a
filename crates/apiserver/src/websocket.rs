//! The handshake of a websocket: what a request says of it, and what is answered (RFC 6455).
//!
//! The rules are those of kube-apiserver, which asks for an `Origin` and takes at most one protocol beside the one that a browser
//! hides its token in, as it can set no `Authorization`.

use axum::body::Body;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::request::negotiate;

/// The prefix of the protocol that carries a token.
const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";
/// The only version of the protocol that is spoken.
const VERSION: &str = "13";
/// Go ignores the bits that are left over.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Returns whether a request wants to go on as a websocket.
pub fn asked(headers: &HeaderMap) -> bool {
    let mut tokens = negotiate::text(headers, header::CONNECTION).split(',');
    negotiate::text(headers, header::UPGRADE).eq_ignore_ascii_case("websocket")
        && tokens.any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
}

/// The bearer token among the protocols of a websocket; the text says why it is none.
pub fn token(headers: &HeaderMap) -> Option<Result<String, &'static str>> {
    let mut tokens = protocols(headers).filter_map(|protocol| protocol.strip_prefix(TOKEN)).filter(|_| asked(headers));
    let encoded = tokens.next()?;
    if tokens.next().is_some() {
        return Some(Err("multiple base64.bearer.authorization tokens specified"));
    }
    if protocols(headers).all(|protocol| protocol.starts_with(TOKEN)) {
        return Some(Err("missing additional subprotocol"));
    }
    let decoded = LENIENT.decode(encoded).map_err(|_| "invalid base64.bearer.authorization token encoding");
    let token = decoded.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "invalid base64.bearer.authorization token"));
    // An empty token is none.
    (token.as_deref() != Ok("")).then_some(token)
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}

/// The answer that makes the connection a websocket, or the one that says why it does not become one.
pub fn handshake(headers: &HeaderMap) -> Result<Response<Body>, Response<Body>> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty());
    let Some(key) = key else { return Err(refuse(StatusCode::BAD_REQUEST, "mismatch challenge/response")) };
    if negotiate::text(headers, header::SEC_WEBSOCKET_VERSION) != VERSION {
        let mut refusal = refuse(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        refusal.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
        return Err(refusal);
    }
    if !has_origin(headers) {
        return Err(refuse(StatusCode::FORBIDDEN, "null origin"));
    }
    let mut offered = protocols(headers).filter(|protocol| !protocol.starts_with(TOKEN));
    let protocol = offered.next();
    if offered.next().is_some() {
        return Err(refuse(StatusCode::BAD_REQUEST, "missing or bad WebSocket-Protocol"));
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    answer.insert(header::SEC_WEBSOCKET_ACCEPT, accept.map_err(|_| refuse(StatusCode::BAD_REQUEST, "mismatch challenge/response"))?);
    if let Some(protocol) = protocol {
        let protocol = HeaderValue::try_from(protocol);
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol.map_err(|_| refuse(StatusCode::BAD_REQUEST, "bad WebSocket-Protocol"))?);
    }
    Ok(response)
}

/// Returns whether `Origin` is a URL: a browser's page without one says `null`.
fn has_origin(headers: &HeaderMap) -> bool {
    let origin = negotiate::text(headers, header::ORIGIN).parse::<http::Uri>();
    origin.is_ok_and(|origin| origin.scheme().is_some() || origin.path().starts_with('/') && origin.authority().is_none())
}

fn refuse(code: StatusCode, why: &'static str) -> Response<Body> {
    let mut refusal = Response::new(Body::from(why));
    *refusal.status_mut() = code;
    refusal
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn headers(lines: &str) -> HeaderMap {
        let lines = lines.lines().filter_map(|line| line.trim().split_once(": "));
        lines.map(|(name, value)| (name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    fn asking(more: &str) -> HeaderMap {
        headers(&format!("connection: keep-alive, Upgrade\nupgrade: WebSocket\n{more}"))
    }

    /// KAPI-WATCH-01: what asks for a websocket and what does not.
    #[test]
    fn who_asks() {
        assert!(asked(&asking("")));
        for other in [
            "upgrade: websocket",
            "connection: upgrade",
            "connection: upgrade\nupgrade: SPDY/3.1",
            "connection: upgrades\nupgrade: websocket",
        ] {
            assert!(!asked(&headers(other)), "{other}");
        }
    }

    /// KAPI-AUTH-01: a browser shows its token as a protocol, beside one more.
    #[test]
    fn tokens() {
        let found = |protocols: &str| token(&asking(&format!("sec-websocket-protocol: {protocols}")));
        assert_eq!(found("base64.binary.k8s.io"), None);
        assert_eq!(found(&format!("{TOKEN}c2VjcmV0, x")), Some(Ok("secret".to_owned())));
        assert_eq!(found(&format!("x\nsec-websocket-protocol: {TOKEN}c2VjcmV0")), Some(Ok("secret".to_owned())));
        assert_eq!(found(&format!("{TOKEN}, x")), None);
        assert_eq!(found(&format!("{TOKEN}c2VjcmV0")), Some(Err("missing additional subprotocol")));
        assert_eq!(
            found(&format!("{TOKEN}c2VjcmV0, {TOKEN}c2VjcmV0, x")),
            Some(Err("multiple base64.bearer.authorization tokens specified"))
        );
        assert_eq!(found(&format!("{TOKEN}!, x")), Some(Err("invalid base64.bearer.authorization token encoding")));
        assert_eq!(found(&format!("{TOKEN}_w, x")), Some(Err("invalid base64.bearer.authorization token")));
        assert_eq!(token(&headers(&format!("sec-websocket-protocol: {TOKEN}c2VjcmV0, x"))), None, "without a websocket it is nothing");
    }

    /// KAPI-WATCH-01: the handshake of RFC 6455, and the refusals of kube-apiserver.
    #[test]
    fn handshakes() {
        let good = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\nsec-websocket-version: 13\norigin: http://localhost\n";
        let accepted = handshake(&asking(&format!("{good}sec-websocket-protocol: {TOKEN}c2VjcmV0, base64.binary.k8s.io"))).unwrap();
        assert_eq!(accepted.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(accepted.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(accepted.headers()["sec-websocket-protocol"], "base64.binary.k8s.io");
        assert!(!handshake(&asking(good)).unwrap().headers().contains_key("sec-websocket-protocol"));
        for (without, more, code) in [
            ("key", "", 400),
            ("version", "", 400),
            ("version", "sec-websocket-version: 8", 400),
            ("origin", "", 403),
            ("origin", "origin: null", 403),
            ("nothing", "sec-websocket-protocol: a, b", 400),
        ] {
            let kept: Vec<&str> = good.lines().filter(|line| !line.split(": ").next().unwrap().contains(without)).chain([more]).collect();
            let refused = handshake(&asking(&kept.join("\n"))).unwrap_err();
            assert_eq!(refused.status(), code, "{without} {more}");
            assert_eq!(refused.headers().contains_key("sec-websocket-version"), without == "version");
        }
    }
}
