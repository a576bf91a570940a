//! The parts of a request's path, and its verb: what is authorized, and what it is routed by.

use http::Method;

use super::negotiate::Offers;
use super::options::ListOptions;
use super::query::Query;

/// A request, taken apart as authorization and routing need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of Kubernetes' RequestInfo")]
#[allow(clippy::struct_excessive_bools, reason = "each says another thing of a path")]
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
    /// Set if the path names a namespace before the resource, be it an empty one.
    pub in_namespace: bool,
    /// Set if the name comes from a field selector, and not from the path.
    pub is_selected: bool,
    /// Set if the path ends with an element that wants a resource behind it (`/api/v1/watch`).
    pub is_unfinished: bool,
    /// Path elements beyond the subresource (`proxy`).
    pub rest: Vec<String>,
}

/// Path elements before the resource that decide the verb, whatever the method (`/api/v1/watch/...`).
const SPECIAL_VERBS: [&str; 2] = ["proxy", "watch"];

impl RequestInfo {
    /// Takes a request apart. `path` and `query` are decoded: see [`super::decode_path`].
    ///
    /// The result is what is authorized, and handlers act on nothing else: a name that came from a field selector is the only
    /// name that they show.
    pub fn new(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = Self { path: path.to_owned(), verb: method.as_str().to_ascii_lowercase(), ..Self::default() };
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let group_parts = match parts.first() {
            Some(&"api") if parts.len() >= 3 => 1,
            Some(&"apis") if parts.len() >= 4 => 2,
            _ => return info,
        };
        info.is_resource = true;
        if group_parts == 2 {
            parts[1].clone_into(&mut info.group);
        }
        parts[group_parts].clone_into(&mut info.version);
        parts.drain(..=group_parts);
        info.is_unfinished = SPECIAL_VERBS.contains(&parts[0]) && parts.len() == 1;
        let special = SPECIAL_VERBS.contains(&parts[0]) && parts.len() > 1;
        let verb = match method.as_str() {
            _ if special => parts.remove(0),
            "POST" => "create",
            "GET" | "HEAD" => "get",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "",
        };
        verb.clone_into(&mut info.verb);
        if parts[0] == "namespaces" && parts.len() > 1 {
            parts[1].clone_into(&mut info.namespace);
            // `namespaces/NAME/status` and `finalize` are subresources of the namespace, anything else is in it.
            if parts.len() > 2 && parts[2] != "status" && parts[2] != "finalize" {
                info.in_namespace = true;
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter().map(str::to_owned);
        info.resource = parts.next().unwrap_or_default();
        info.name = parts.next().unwrap_or_default();
        if info.verb != "proxy" {
            info.subresource = parts.next().unwrap_or_default();
        }
        info.rest = parts.collect();
        if info.name.is_empty() && info.verb == "get" {
            info.of_collection(query);
        } else if info.name.is_empty() && info.verb == "delete" {
            "deletecollection".clone_into(&mut info.verb);
        }
        info
    }

    /// A read of a collection is a list or a watch; one of a single name is authorized as that name. Where its parameters cannot be read
    /// it is authorized as the whole, and refused afterwards.
    fn of_collection(&mut self, query: &Query) {
        if query.flag("watch") { "watch" } else { "list" }.clone_into(&mut self.verb);
        if let Ok(options) = ListOptions::decode(query, self.verb == "watch")
            && let Some(name) = options.fields.required("metadata.name")
            && is_path_segment(name)
        {
            name.clone_into(&mut self.name);
            self.is_selected = !name.is_empty();
        }
    }
}

impl RequestInfo {
    /// Returns whether it only asks whether the server is alive.
    pub fn is_probe(&self) -> bool {
        !self.is_resource
            && ["/healthz", "/livez", "/readyz"]
                .iter()
                .any(|page| self.path.strip_prefix(page).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }

    /// Returns whether it lasts by nature: watches, logs, proxies.
    pub fn is_long_running(&self) -> bool {
        self.is_resource
            && (matches!(self.verb.as_str(), "watch" | "proxy")
                || matches!(self.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward"))
    }

    /// The forms that its resource can be given in.
    pub fn offers(&self) -> Offers {
        let resource = mainstay_kinds::registry().resource(&self.group, &self.version, &self.resource).filter(|_| self.is_resource);
        // What is only ever posted has no table, and some subresources have none.
        let tables = match (self.resource.as_str(), self.subresource.as_str()) {
            (_, "") => resource.is_none_or(|resource| resource.verbs != ["create"]),
            (_, "approval" | "binding" | "ephemeralcontainers" | "eviction" | "finalize" | "log" | "resize" | "token")
            | ("apiservices" | "customresourcedefinitions" | "resourceclaims", "status") => resource.is_none(),
            _ => true,
        };
        Offers { protobuf: resource.is_some(), tables }
    }
}

/// Returns whether a text can stand between two slashes of a path.
fn is_path_segment(text: &str) -> bool {
    !matches!(text, "." | "..") && !text.contains(['/', '%'])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::super::query::{decode_path, encode_path};
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
            // A path decides what is authorized before any selector does.
            ("GET", "/api/v1/watch/secrets", "fieldSelector=metadata.name=x", "watch|||v1|secrets|||"),
            ("DELETE", "/api/v1/watch/namespaces/a/secrets/x", "", "watch||a|v1|secrets|x||"),
            ("GET", "/api/v1/proxy/namespaces/a/pods/x/y/z", "", "proxy||a|v1|pods|x||y/z"),
            ("GET", "/api/v1/secrets", "watch=FALSE&fieldSelector=metadata.name==x", "list|||v1|secrets|x||"),
            ("GET", "/api/v1/secrets", "fieldSelector=metadata.name=y,metadata.name=x", "list|||v1|secrets|x||"),
            ("GET", "/api/v1/secrets", "fieldSelector=metadata.name=x,type=y", "list|||v1|secrets|x||"),
            ("GET", "/api/v1/secrets", "fieldSelector=metadata.name=x&limit=z", "list|||v1|secrets|||"),
            ("GET", "/api/v1/secrets", "fieldSelector=metadata.name=..", "list|||v1|secrets|||"),
            ("GET", "/api/v1/secrets", "fieldSelector=metadata.name=x;y&watch=1", "watch|||v1|secrets|||"),
            ("OPTIONS", "/api/v1/secrets/x", "", "|||v1|secrets|x||"),
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
