//! Sentences of others that explanations recognize. They are read here alone.

use serde_json::Value;

/// The part of a message that says which request the API refused, if it does (OLM0-IP-10, OLM0-ADMIN-33).
pub(super) fn forbidden(message: &str) -> Option<Forbidden> {
    let (before, after) = message.split_once(" is forbidden: ")?;
    let user = |word: &str| after.split_once(word).and_then(|(_, rest)| rest.split_once('"')).map(|(user, _)| user.to_owned());
    let quoted = |word: &str| -> Option<String> {
        let (_, rest) = after.split_once(&format!("{word} \""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let verb = after.split_once("cannot ").and_then(|(_, rest)| rest.split_once(' ')).map(|(verb, _)| verb.to_owned());
    Some(Forbidden {
        object: before.rsplit_once(": ").map_or(before, |(_, object)| object).to_owned(),
        user: user("User \"").or_else(|| user("user \"")),
        verb,
        grants: if after.contains("attempting to grant RBAC permissions not currently held") { rules(after) } else { Vec::new() },
        resource: quoted("resource"),
        group: quoted("API group"),
        namespace: quoted("namespace"),
    })
}

/// A request that the API refused for lack of a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Forbidden {
    /// Resource and name as the API says them.
    pub object: String,
    /// The user who asked.
    pub user: Option<String>,
    /// The verb.
    pub verb: Option<String>,
    /// Rules that the user may not give to others without having them.
    pub grants: Vec<Value>,
    /// The resource.
    pub resource: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// The namespace; none for the whole cluster.
    pub namespace: Option<String>,
}

impl Forbidden {
    /// Namespace and name of the service account that asked.
    pub fn account(&self) -> Option<(&str, &str)> {
        self.user.as_deref()?.strip_prefix("system:serviceaccount:")?.split_once(':')
    }
}

/// The rules in a message, as the API server lists them one a line: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`.
fn rules(message: &str) -> Vec<Value> {
    const FIELDS: [(&str, &str); 5] = [
        ("APIGroups:[", "apiGroups"),
        ("Resources:[", "resources"),
        ("ResourceNames:[", "resourceNames"),
        ("NonResourceURLs:[", "nonResourceURLs"),
        ("Verbs:[", "verbs"),
    ];
    let mut found = Vec::new();
    for line in message.lines().filter_map(|line| line.trim().strip_prefix('{')) {
        let mut rule = Value::Object(serde_json::Map::new());
        for (begin, field) in FIELDS {
            if let Some((_, list)) = line.split_once(begin) {
                let list = list.split_once(']').map_or(list, |(list, _)| list);
                // Every second part is between quotes.
                rule[field] = list.split('"').skip(1).step_by(2).collect();
            }
        }
        found.push(rule);
    }
    found
}

/// The rule that a service account lacks, in the message of a requirement (OLM0-CSV-09), and whether it is for the whole cluster.
pub(super) fn missing_rule(message: &str) -> Option<(Value, bool)> {
    let (scope, rule) = message.split_once("rule:")?;
    Some((serde_json::from_str(rule).ok()?, scope.starts_with("cluster")))
}

/// The package that a bundle needs, in a message about constraints (OLM0-RES-20).
pub(super) fn needed_package(message: &str) -> Option<String> {
    let (_, after) = message.split_once(" requires an operator with package: ")?;
    Some(after.split([',', ' ']).next()?.to_owned())
}

/// True if a message about constraints says that two operators would provide the same API.
pub(super) fn is_provided_twice(message: &str) -> bool {
    message.contains(" provide ")
}

/// The reason why an image cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PullProblem {
    /// The registry wants other credentials.
    Unauthorized,
    /// The host name does not resolve.
    UnknownHost,
    /// The image is not there.
    NotFound,
    /// The certificate is not trusted.
    Certificate,
    /// The registry does not answer.
    Unreachable,
}

/// Reads why an image cannot be read (OLM0-ADMIN-12, OLM0-ADMIN-22).
pub(super) fn pull(message: &str) -> Option<PullProblem> {
    let lower = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["unauthorized", "authentication required", "denied", "401", "403"]) {
        Some(PullProblem::Unauthorized)
    } else if has(&["no such host", "failed to lookup", "name or service not known", "dns error"]) {
        Some(PullProblem::UnknownHost)
    } else if has(&["x509", "certificate"]) {
        Some(PullProblem::Certificate)
    } else if has(&["manifest unknown", "not found", "404"]) {
        Some(PullProblem::NotFound)
    } else if has(&["connection refused", "timed out", "timeout", "unreachable", "connect"]) {
        Some(PullProblem::Unreachable)
    } else {
        None
    }
}

/// True if a message says that no node takes a pod.
pub(super) fn has_no_node(message: &str) -> bool {
    message.contains(" has no node: ")
}

/// True if a message says that an object is not there.
pub(super) fn is_missing(message: &str) -> bool {
    message.ends_with("not found")
}

/// Returns true if a message about a failed unpacking is that of a Job, not of a pull in the operator's process (OLM0-CAT-34).
pub(super) fn is_of_job(message: &str) -> bool {
    message.contains("and Message: Job ")
}

/// A kind that an InstallPlan needs and the cluster does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingKind {
    /// Its group; empty for the core.
    pub group: String,
    /// Its version.
    pub version: String,
    /// The kind.
    pub kind: String,
}

impl MissingKind {
    /// True if Kubernetes itself has, or had, the group.
    pub fn is_of_kubernetes(&self) -> bool {
        !self.group.contains('.') || self.group.ends_with(".k8s.io")
    }
}

/// The kind in a message about a step whose kind the cluster does not serve (OLM0-IP-10).
pub(super) fn missing_kind(message: &str) -> Option<MissingKind> {
    let (_, after) = message.split_once("api-server resource not found installing ")?;
    let (_, after) = after.split_once("GroupVersionKind ")?;
    let (found, _) = after.split_once(" not found on the cluster")?;
    let (group_version, kind) = found.split_once(", Kind=")?;
    let (group, version) = group_version.split_once('/')?;
    Some(MissingKind { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() })
}

/// The missing version of a stored CRD in a message about the safety of a change (OLM0-RES-28).
pub(super) fn is_about_crd_versions(message: &str) -> bool {
    message.contains("risk of data loss")
        || message.contains("new CRD removes version")
        || message.contains("error validating existing CRs")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    /// OLM0-ADMIN-33: resource, group, user and scope of the one permission that is missing.
    #[test]
    fn permissions_that_are_missing() {
        let message = "error creating csv a: clusterroles.rbac.authorization.k8s.io \"x\" is forbidden: User \
                       \"system:serviceaccount:scoped:installer\" cannot create resource \"clusterroles\" in API group \
                       \"rbac.authorization.k8s.io\" at the cluster scope";
        let found = forbidden(message).unwrap();
        assert_eq!(found.account(), Some(("scoped", "installer")));
        assert_eq!((found.verb.as_deref(), found.resource.as_deref()), (Some("create"), Some("clusterroles")));
        assert_eq!((found.object.as_str(), found.namespace), ("clusterroles.rbac.authorization.k8s.io \"x\"", None));
        assert_eq!(forbidden("install timeout"), None);
    }

    /// OLM0-ADMIN-33: rules that an account may not give to an operator, because it does not have them itself.
    #[test]
    fn permissions_that_cannot_be_given() {
        let message = "error creating role x: roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"system:serviceaccount:scoped:installer\" \
                       (groups=[\"system:serviceaccounts\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
                       {APIGroups:[\"\"], Resources:[\"pods\" \"secrets\"], ResourceNames:[\"a\"], Verbs:[\"get\" \"list\"]}\n\
                       {NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}";
        let found = forbidden(message).unwrap();
        assert_eq!(found.account(), Some(("scoped", "installer")));
        let pods = json!({"apiGroups": [""], "resources": ["pods", "secrets"], "resourceNames": ["a"], "verbs": ["get", "list"]});
        assert_eq!(found.grants, [pods, json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})]);
    }

    /// OLM0-CSV-09: the rule of a requirement, with its scope.
    #[test]
    fn rules_that_are_missing() {
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        assert_eq!(missing_rule(&format!("namespaced rule:{rule}")), Some((rule.clone(), false)));
        assert_eq!(missing_rule(&format!("cluster rule:{rule}")), Some((rule, true)));
        assert_eq!(missing_rule("Policy rule not satisfied for service account"), None);
    }

    /// OLM0-IP-10: the kind that no API serves, of Kubernetes or of another operator.
    #[test]
    fn kinds_that_are_missing() {
        let message = |kind: &str| {
            format!(
                "api-server resource not found installing Thing a: GroupVersionKind {kind} not found on the cluster. This API may have been"
            )
        };
        let crd = missing_kind(&message("apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinition")).unwrap();
        assert_eq!((crd.version.as_str(), crd.kind.as_str(), crd.is_of_kubernetes()), ("v1beta1", "CustomResourceDefinition", true));
        let rule = missing_kind(&message("monitoring.coreos.com/v1, Kind=PrometheusRule")).unwrap();
        assert_eq!((rule.group.as_str(), rule.is_of_kubernetes()), ("monitoring.coreos.com", false));
        assert_eq!(missing_kind("install timeout"), None);
    }

    /// OLM0-ADMIN-12: why an image cannot be pulled.
    #[test]
    fn pull_problems() {
        for (message, problem) in [
            ("unauthorized: access to the requested resource is not authorized", PullProblem::Unauthorized),
            ("dial tcp: lookup registry.example.com on 10.0.0.10:53: no such host", PullProblem::UnknownHost),
            ("manifest unknown", PullProblem::NotFound),
            ("x509: certificate signed by unknown authority", PullProblem::Certificate),
            ("dial tcp 10.0.0.1:443: connection refused", PullProblem::Unreachable),
        ] {
            assert_eq!(pull(message), Some(problem), "{message}");
        }
        assert_eq!(pull("out of disk"), None);
        let of = |message: &str| format!("bundle unpacking failed. Reason: DeadlineExceeded, and Message: {message}");
        assert!(is_of_job(&of("Job was active longer than specified deadline")) && !is_of_job(&of("bundle r.test/b:v1: not found")));
    }
}
