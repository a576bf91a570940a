//! What a request asks for: the parts of its path, its verb, and its query parameters.

use http::Method;

/// A request, taken apart as authorization and routing need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of Kubernetes' RequestInfo")]
pub struct RequestInfo {
    pub is_resource: bool,
    pub path: String,
    pub verb: String,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    /// Path elements beyond the subresource (`proxy`).
    pub rest: Vec<String>,
}

impl RequestInfo {
    /// Takes a request apart. `path` and `query` are decoded: see [`decode_path`].
    pub fn new(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = Self { path: path.to_owned(), verb: method.as_str().to_ascii_lowercase(), ..Self::default() };
        let mut parts: Vec<String> = path.trim_matches('/').split('/').map(str::to_owned).collect();
        let group_parts = match parts.first().map(String::as_str) {
            Some("api") if parts.len() >= 3 => 1,
            Some("apis") if parts.len() >= 4 => 2,
            _ => return info,
        };
        info.is_resource = true;
        parts.remove(0);
        if group_parts == 2 {
            info.group = parts.remove(0);
        }
        info.version = parts.remove(0);
        let deprecated_watch = parts.len() > 1 && parts[0] == "watch";
        if deprecated_watch {
            parts.remove(0);
        }
        if parts[0] == "namespaces" && parts.len() > 1 {
            info.namespace.clone_from(&parts[1]);
            // `namespaces/NAME/status` and `finalize` are subresources of the namespace, anything else is in it.
            if parts.len() > 2 && parts[2] != "status" && parts[2] != "finalize" {
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter();
        info.resource = parts.next().unwrap_or_default();
        info.name = parts.next().unwrap_or_default();
        info.subresource = parts.next().unwrap_or_default();
        info.rest = parts.collect();
        let verb = match method.as_str() {
            "POST" => "create",
            "GET" | "HEAD" => "get",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            other => return Self { verb: other.to_ascii_lowercase(), ..info },
        };
        verb.clone_into(&mut info.verb);
        if info.name.is_empty() && info.verb == "get" {
            let watch = deprecated_watch || query.flag("watch");
            if watch { "watch" } else { "list" }.clone_into(&mut info.verb);
            // A list of one name is authorized as that name.
            if let Some(name) = query.first("fieldSelector").and_then(|text| text.strip_prefix("metadata.name="))
                && !name.contains(',')
            {
                name.clone_into(&mut info.name);
            }
        } else if info.name.is_empty() && info.verb == "delete" {
            "deletecollection".clone_into(&mut info.verb);
        } else if deprecated_watch && info.verb == "get" {
            "watch".clone_into(&mut info.verb);
        }
        info
    }
}

/// The decoded query of a request.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes `a=b&c=d`.
    pub fn parse(text: &str) -> Self {
        Self(
            text.split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (form_decode(key), form_decode(value))
                })
                .collect(),
        )
    }

    /// The first value of a parameter.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value that is not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.first(name).filter(|value| !value.is_empty())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean as Kubernetes reads it: present and neither `0` nor `false`.
    pub fn flag(&self, name: &str) -> bool {
        self.first(name).is_some_and(|value| !matches!(value, "0" | "false"))
    }
}

/// The path of a request as it is authorized, routed and sent on: decoded as a whole before it is taken apart, as Go's `URL.Path`, so
/// that an encoded slash separates like any other for all who read it. `None` for an escape that is none, and for what is no text.
pub fn decode_path(raw: &str) -> Option<String> {
    let mut bytes = raw.bytes();
    let mut plain = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        let mut hex = || (bytes.next()? as char).to_digit(16);
        plain.push(if byte == b'%' { u8::try_from(hex()? * 16 + hex()?).ok()? } else { byte });
    }
    String::from_utf8(plain).ok()
}

/// A decoded path as Go's `URL.EscapedPath` writes it.
pub fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            encoded.push(byte as char);
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    encoded
}

/// Decodes `%XX` in the name of a header.
pub fn percent_decode(text: &str) -> String {
    decode(text, false)
}

fn form_decode(text: &str) -> String {
    decode(text, true)
}

fn decode(text: &str, plus: bool) -> String {
    let encoded = text.contains('%') || plus && text.contains('+');
    if !encoded {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |index: usize| bytes.get(index).and_then(|byte| (*byte as char).to_digit(16));
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', ..) if plus => plain.push(b' '),
            (byte, ..) => plain.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        for (method, path, query, expected) in [
            ("GET", "/api/v1/namespaces", "", "list|||v1|namespaces|||"),
            ("GET", "/api/v1/namespaces/a", "", "get||a|v1|namespaces|a||"),
            ("GET", "/api/v1/namespaces/a/status", "", "get||a|v1|namespaces|a|status|"),
            ("POST", "/api/v1/namespaces/a/pods", "", "create||a|v1|pods|||"),
            ("GET", "/apis/apps/v1/deployments", "watch=1", "watch|apps||v1|deployments|||"),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments", "", "deletecollection|apps|a|v1|deployments|||"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale", "", "patch|apps|a|v1|deployments|d|scale|"),
            ("GET", "/api/v1/pods", "fieldSelector=metadata.name%3Dx", "list|||v1|pods|x||"),
            ("GET", "/api/v1/watch/namespaces/a/pods", "", "watch||a|v1|pods|||"),
        ] {
            let info = RequestInfo::new(&method.parse().unwrap(), path, &Query::parse(query));
            let RequestInfo { verb, group, namespace, version, resource, name, subresource, rest, .. } = info;
            assert_eq!(
                format!("{verb}|{group}|{namespace}|{version}|{resource}|{name}|{subresource}|{}", rest.join("/")),
                expected,
                "{method} {path}"
            );
        }
        assert!(!RequestInfo::new(&Method::GET, "/apis/apps/v1", &Query::default()).is_resource);
    }

    /// KAPI-AUTHZ-01: a path is decoded before it is taken apart, once, and what is no escape is no path.
    #[test]
    fn paths_are_decoded_as_a_whole() {
        for (raw, plain, encoded) in [
            ("/apis/g/v1/namespaces/a/things/x%2Flog", "/apis/g/v1/namespaces/a/things/x/log", "/apis/g/v1/namespaces/a/things/x/log"),
            ("/a/%2e%2E/b//c/", "/a/../b//c/", "/a/../b//c/"),
            ("/%252F%3F%25zz", "/%2F?%zz", "/%252F%3F%25zz"),
            ("/a+b:c;d,e$f&g=h@i~j_k-l.m", "/a+b:c;d,e$f&g=h@i~j_k-l.m", "/a+b:c;d,e$f&g=h@i~j_k-l.m"),
            ("/%c3%a9 !", "/\u{e9} !", "/%C3%A9%20%21"),
        ] {
            let decoded = decode_path(raw).unwrap();
            assert_eq!((decoded.as_str(), encode_path(&decoded).as_str()), (plain, encoded), "{raw}");
            assert_eq!(decode_path(encoded).as_deref(), Some(plain), "what is sent on is read as what was authorized");
        }
        for raw in ["/%", "/%2", "/a%zz", "/%+1", "/%\u{e9}", "/%ff"] {
            assert_eq!(decode_path(raw), None, "{raw}");
        }
        let path = decode_path("/api/v1/namespaces/a/pods/x%2Flog").unwrap();
        let info = RequestInfo::new(&Method::GET, &path, &Query::default());
        assert_eq!((info.name.as_str(), info.subresource.as_str()), ("x", "log"));
    }
}
