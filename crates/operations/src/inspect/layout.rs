//! Where support data lies, what an object leads to, and what is left out of it. All of it is pure.

use std::fmt;

use serde_json::{Value, json};

/// The keys of Secrets whose values are no secrets.
const PUBLIC: [&str; 3] = ["tls.crt", "ca.crt", "service-ca.crt"];

/// Objects to collect: one, or all of a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The API group; `None` if any group that has the resource will do.
    pub group: Option<String>,
    /// The resource, its singular, its kind or a short name.
    pub resource: String,
    /// The namespace; empty if it has none.
    pub namespace: String,
    /// The name; empty for all.
    pub name: String,
}

impl Target {
    /// Names an object without a namespace.
    pub fn cluster(group: &str, resource: &str, name: &str) -> Self {
        Self { group: Some(group.to_owned()), resource: resource.to_owned(), namespace: String::new(), name: name.to_owned() }
    }

    /// Reads `RESOURCE[.GROUP][/NAME]`.
    pub fn parse(text: &str, namespace: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        let (resource, group) = kind.split_once('.').map_or((kind, None), |(resource, group)| (resource, Some(group)));
        let plain = |text: &str| !text.contains(['/', '?', '#', '%', ' ']) && text != "." && text != "..";
        if resource.is_empty() || !plain(resource) || !plain(name) || (text.contains('/') && name.is_empty()) {
            return None;
        }
        Some(Self {
            group: group.map(str::to_owned),
            resource: resource.to_lowercase(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Returns true if it is of a resource of a group.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.group.as_deref() == Some(group) && self.resource == resource
    }

    /// Returns the target that is one object of this kind.
    #[must_use]
    pub fn named(&self, object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self { namespace: text("namespace"), name: text("name"), ..self.clone() }
    }

    /// Returns the path of the object's file.
    pub fn path(&self) -> String {
        let group = group(self.group.as_deref().unwrap_or_default());
        let Self { resource, namespace, name, .. } = self;
        if self.is("", "namespaces") {
            format!("namespaces/{name}/{name}.yaml")
        } else if namespace.is_empty() {
            format!("cluster-scoped-resources/{group}/{resource}/{name}.yaml")
        } else if self.is("", "pods") {
            format!("namespaces/{namespace}/pods/{name}/{name}.yaml")
        } else {
            format!("namespaces/{namespace}/{group}/{resource}/{name}.yaml")
        }
    }

    /// Returns what an object leads to: the related objects of a ClusterOperator.
    pub fn leads_to(&self, object: &Value) -> Vec<Self> {
        if !self.is("config.openshift.io", "clusteroperators") {
            return Vec::new();
        }
        let related = object.pointer("/status/relatedObjects").and_then(Value::as_array).into_iter().flatten();
        let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
        related
            .filter(|one| !text(one, "resource").is_empty())
            .map(|one| Self {
                group: Some(text(one, "group")),
                resource: text(one, "resource"),
                namespace: text(one, "namespace"),
                name: text(one, "name"),
            })
            .collect()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, resource, namespace, name } = self;
        write!(out, "{resource}")?;
        if let Some(group) = group.as_deref().filter(|group| !group.is_empty()) {
            write!(out, ".{group}")?;
        }
        match (namespace.is_empty(), name.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => write!(out, "/{name}"),
            (false, true) => write!(out, " in namespace {namespace}"),
            (false, false) => write!(out, "/{name} in namespace {namespace}"),
        }
    }
}

/// Returns the folder of a group.
pub(super) fn group(name: &str) -> &str {
    if name.is_empty() { "core" } else { name }
}

/// Returns an object as it may be handed on: a Secret without its values, and without the copies of them in annotations.
pub fn without_secrets(object: &Value) -> Value {
    let mut shown = object.clone();
    if object["kind"] != "Secret" {
        return shown;
    }
    for field in ["data", "stringData"] {
        for (key, value) in shown.get_mut(field).and_then(Value::as_object_mut).into_iter().flatten() {
            if !PUBLIC.contains(&key.as_str()) {
                *value = json!("");
            }
        }
    }
    let annotations = shown.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    for (name, value) in annotations.into_iter().flatten() {
        if name == "kubectl.kubernetes.io/last-applied-configuration" || name == "openshift.io/token-secret.value" {
            *value = json!("");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// COP-G-13: files lie where `oc adm inspect` lays them, and a ClusterOperator leads to what it relates to.
    #[test]
    fn targets_have_places() {
        let target = |text: &str| Target::parse(text, "").unwrap();
        let of = |group: &str, resource: &str, namespace: &str, name: &str| Target {
            group: Some(group.into()),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        for (target, path) in [
            (
                of("config.openshift.io", "clusteroperators", "", "olm"),
                "cluster-scoped-resources/config.openshift.io/clusteroperators/olm.yaml",
            ),
            (of("", "nodes", "", "worker-1"), "cluster-scoped-resources/core/nodes/worker-1.yaml"),
            (of("", "namespaces", "", "team"), "namespaces/team/team.yaml"),
            (of("", "pods", "team", "p"), "namespaces/team/pods/p/p.yaml"),
            (of("apps", "deployments", "team", "d"), "namespaces/team/apps/deployments/d.yaml"),
        ] {
            assert_eq!(target.path(), path);
        }
        assert_eq!(
            target("ClusterOperator/olm"),
            Target { group: None, resource: "clusteroperator".into(), namespace: String::new(), name: "olm".into() }
        );
        assert_eq!(target("deployments.apps").group.as_deref(), Some("apps"));
        for bad in ["", "/x", "pods/", "a/b/c", "a/..", "pods/%2e"] {
            assert_eq!(Target::parse(bad, ""), None, "{bad}");
        }
        let operator = json!({"status": {"relatedObjects": [{"group": "", "resource": "namespaces", "name": "a"}, {"group": "apps", "resource": "deployments", "namespace": "n", "name": "d"}, {"group": "x"}]}});
        let leads = of("config.openshift.io", "clusteroperators", "", "olm").leads_to(&operator);
        assert_eq!(leads, [of("", "namespaces", "", "a"), of("apps", "deployments", "n", "d")]);
        assert_eq!(leads[1].to_string(), "deployments.apps/d in namespace n");
    }

    /// COP-G-13: the values of a Secret are left out, wherever they stand.
    #[test]
    fn secrets_are_left_out() {
        let secret = json!({"kind": "Secret", "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "s3", "a": "b"}},
            "data": {"tls.key": "s3", "tls.crt": "public"}, "stringData": {"x": "s3"}});
        let shown = without_secrets(&secret);
        assert!(!shown.to_string().contains("s3"), "{shown}");
        assert_eq!((&shown["data"]["tls.crt"], &shown["metadata"]["annotations"]["a"]), (&json!("public"), &json!("b")));
        let map = json!({"kind": "ConfigMap", "data": {"a": "b"}});
        assert_eq!(without_secrets(&map), map);
    }
}
