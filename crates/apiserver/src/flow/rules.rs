//! The match of a FlowSchema's rules with a request.

use mainstay_rbac::UserInfo;
use serde_json::Value;

use crate::request::RequestInfo;

const ACCOUNT: &str = "system:serviceaccount:";

/// Returns whether one of a FlowSchema's rules fits.
pub fn fits(spec: &Value, user: &UserInfo, info: &RequestInfo) -> bool {
    list(&spec["rules"]).any(|rule| {
        let fits_request = if info.is_resource {
            list(&rule["resourceRules"]).any(|rule| fits_resource(rule, info))
        } else {
            list(&rule["nonResourceRules"]).any(|rule| has(&rule["verbs"], &info.verb) && fits_path(&rule["nonResourceURLs"], &info.path))
        };
        fits_request && list(&rule["subjects"]).any(|subject| is_subject(subject, user))
    })
}

fn list(of: &Value) -> impl Iterator<Item = &Value> {
    of.as_array().into_iter().flatten()
}

/// Returns whether a list is `*` alone, or has the word.
fn has(words: &Value, word: &str) -> bool {
    let words = words.as_array().map_or(&[][..], Vec::as_slice);
    matches!(words, [only] if only == "*") || words.iter().any(|one| one == word)
}

fn is_subject(subject: &Value, user: &UserInfo) -> bool {
    let text = |pointer: &str| subject.pointer(pointer).and_then(Value::as_str);
    match subject["kind"].as_str() {
        Some("User") => text("/user/name").is_some_and(|name| name == "*" || name == user.name),
        Some("Group") => text("/group/name").is_some_and(|name| name == "*" || user.groups.iter().any(|group| group == name)),
        Some("ServiceAccount") => {
            let (namespace, name) = (text("/serviceAccount/namespace"), text("/serviceAccount/name"));
            let found = user.name.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':'));
            found.is_some_and(|(own, account)| namespace == Some(own) && name.is_some_and(|name| name == "*" || name == account))
        }
        _ => false,
    }
}

fn fits_resource(rule: &Value, info: &RequestInfo) -> bool {
    let resource = if info.subresource.is_empty() { info.resource.clone() } else { format!("{}/{}", info.resource, info.subresource) };
    let place = if info.namespace.is_empty() { rule["clusterScope"] == true } else { has(&rule["namespaces"], &info.namespace) };
    place && has(&rule["verbs"], &info.verb) && has(&rule["resources"], &resource) && has(&rule["apiGroups"], &info.group)
}

fn fits_path(urls: &Value, path: &str) -> bool {
    list(urls).filter_map(Value::as_str).any(|url| {
        let folder = url.strip_suffix('*').unwrap_or(url);
        url == "*" || url == path || path.strip_prefix(folder).is_some_and(|rest| folder.ends_with('/') || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// KAPI-REST-07: FlowSchemas choose by who asks, and for what.
    #[test]
    fn rules() {
        let any = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}]);
        let user = |name: &str| UserInfo { name: name.to_owned(), groups: vec!["g".to_owned()], ..UserInfo::default() };
        let pods = RequestInfo {
            is_resource: true,
            verb: "get".to_owned(),
            resource: "pods".to_owned(),
            subresource: "log".to_owned(),
            namespace: "n".to_owned(),
            ..RequestInfo::default()
        };
        let page = RequestInfo { path: "/healthz/ping".to_owned(), verb: "get".to_owned(), ..RequestInfo::default() };
        let account = "system:serviceaccount:n:a";
        let of = |kind: &str, member: &str, value: Value| json!([{"kind": kind, member: value}]);
        for (subjects, name, resources, urls, info, expected) in [
            (of("User", "user", json!({"name": "u"})), "u", any.clone(), json!([]), &pods, true),
            (of("User", "user", json!({"name": "u"})), "v", any.clone(), json!([]), &pods, false),
            (of("Group", "group", json!({"name": "g"})), "v", any.clone(), json!([]), &pods, true),
            (of("ServiceAccount", "serviceAccount", json!({"namespace": "n", "name": "*"})), account, any.clone(), json!([]), &pods, true),
            (of("ServiceAccount", "serviceAccount", json!({"namespace": "m", "name": "*"})), account, any, json!([]), &pods, false),
            (
                of("User", "user", json!({"name": "*"})),
                "u",
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["n"]}]),
                json!([]),
                &pods,
                false,
            ),
            (of("User", "user", json!({"name": "*"})), "u", json!([]), json!(["/healthz"]), &page, true),
            (of("User", "user", json!({"name": "*"})), "u", json!([]), json!(["/healthz/*"]), &page, true),
            (of("User", "user", json!({"name": "*"})), "u", json!([]), json!(["/health"]), &page, false),
        ] {
            let pages = json!([{"verbs": ["*"], "nonResourceURLs": urls}]);
            let spec = json!({"rules": [{"subjects": subjects, "resourceRules": resources, "nonResourceRules": pages}]});
            assert_eq!(fits(&spec, &user(name), info), expected, "{spec}");
        }
    }
}
