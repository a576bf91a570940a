//! The resources that a bundle's permissions and webhooks name, compared with those that the cluster serves (MS-PLAN-01).
//!
//! There are two kinds of result, because operators name many resources that they can do without. A *warning* is given if Kubernetes has removed
//! the only API that a rule names, or if a webhook is for versions that the bundle's own CRD does not serve. Everything else that the cluster
//! does not serve now is only reported. Wildcards, subresources and verbs that are never sent as requests (`impersonate`, `use`, ...) name
//! nothing that is served.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_rbac::{PolicyRule, parse_rules};
use mainstay_versions::Version;
use serde_json::Value;

use crate::object;

/// Resources that Kubernetes has removed in every version: group, resource, release, and the group that serves it since.
const REMOVED: [(&str, &str, &str, Option<&str>); 10] = [
    ("auditregistration.k8s.io", "auditsinks", "1.19.0", None),
    ("extensions", "daemonsets", "1.16.0", Some("apps")),
    ("extensions", "deployments", "1.16.0", Some("apps")),
    ("extensions", "ingresses", "1.22.0", Some("networking.k8s.io")),
    ("extensions", "networkpolicies", "1.16.0", Some("networking.k8s.io")),
    ("extensions", "podsecuritypolicies", "1.16.0", Some("policy")),
    ("extensions", "replicasets", "1.16.0", Some("apps")),
    ("extensions", "replicationcontrollers", "1.16.0", None),
    ("policy", "podsecuritypolicies", "1.25.0", None),
    ("settings.k8s.io", "podpresets", "1.20.0", None),
];
/// Verbs that are only checked by the authorizer and never sent as requests.
const NO_REQUESTS: [&str; 6] = ["approve", "attest", "bind", "escalate", "impersonate", "sign"];
/// Maximum number of resources that one line names.
const LINE: usize = 12;

/// The resources that a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served(BTreeMap<(String, String), BTreeSet<String>>);

impl Served {
    /// Collects triples of group, version and resource.
    pub fn new(all: impl IntoIterator<Item = (String, String, String)>) -> Self {
        let mut served = Self::default();
        for (group, version, resource) in all {
            served.0.entry((group, resource)).or_default().insert(version);
        }
        served
    }

    fn has(&self, group: &str, resource: &str) -> bool {
        self.0.contains_key(&(group.to_owned(), resource.to_owned()))
    }

    fn versions(&self, group: &str, resource: &str) -> Option<&BTreeSet<String>> {
        self.0.get(&(group.to_owned(), resource.to_owned()))
    }
}

/// The known properties of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The resources that it serves.
    pub served: Option<&'a Served>,
    /// Its Kubernetes version: `1.33.1`.
    pub version: Option<&'a str>,
}

/// Warnings for a person, and facts that are only reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Rules and webhooks that are certain to have no effect.
    pub warnings: Vec<String>,
    /// Resources that the cluster does not serve now.
    pub not_served: Vec<String>,
}

/// Checks the objects of a bundle. `before` are those of the installed one, whose unserved resources are not reported again.
pub fn told(wanted: &[Value], before: &[Value], cluster: Cluster<'_>) -> Told {
    let mut told = Told::default();
    let brought = brought(wanted);
    let named = named(wanted);
    for (group, resource, release, successor) in REMOVED {
        // A bundle that names the successor, too, is ready for both.
        let ready =
            successor.is_some_and(|successor| named.iter().any(|(group, other)| group == successor && (other == resource || other == "*")));
        if named.contains(&(group.to_owned(), resource.to_owned())) && !ready && cluster.lacks(group, resource, release) {
            let release = release.trim_end_matches(".0");
            told.warnings.push(format!("the bundle's roles name {}, which Kubernetes {release} removed", title(group, resource)));
        }
    }
    let gone = |group: &str, resource: &str| REMOVED.iter().any(|(known, removed, ..)| *known == group && *removed == resource);
    if let Some(served) = cluster.served {
        let earlier = self::named(before);
        let known = |(group, resource): &(String, String)| {
            let brought = brought.contains_key(&(group.clone(), resource.clone())) || brings_group(wanted, group);
            group == "*" || resource == "*" || brought || served.has(group, resource)
        };
        // A rule of several groups and resources refers to each resource in the group that has it.
        let in_vain: BTreeSet<(String, String)> = wants(wanted)
            .into_iter()
            .filter(|pairs| !pairs.iter().any(known))
            .flatten()
            .filter(|(group, resource)| !gone(group, resource))
            .collect();
        let fresh: Vec<String> = in_vain.difference(&earlier).map(|(group, resource)| title(group, resource)).collect();
        told.not_served.extend(fresh.chunks(LINE).map(|some| format!("roles name {}", some.join(", "))));
    }
    for webhook in wanted.iter().filter(|object| is_webhook(object)) {
        for one in webhook["webhooks"].as_array().into_iter().flatten() {
            let line = |what: &str| format!("{}: webhook {} is {what}", object::place(webhook), one["name"].as_str().unwrap_or_default());
            match judged(one, &brought, cluster.served) {
                Some(Aim::OwnVersions(kinds)) => {
                    told.warnings.push(line(&format!("only for {kinds}, which the bundle's CRD does not serve: it is never called")));
                }
                Some(Aim::Elsewhere(kinds)) => told.not_served.push(line(&format!("only for {kinds}"))),
                None => {}
            }
        }
    }
    told
}

impl Cluster<'_> {
    /// Returns true if the cluster certainly does not serve a resource that this release removed.
    fn lacks(&self, group: &str, resource: &str, release: &str) -> bool {
        match (self.served, self.version.map(Version::parse), Version::parse(release)) {
            (Some(served), ..) => !served.has(group, resource),
            (None, Some(Ok(version)), Ok(release)) => version >= release,
            _ => false,
        }
    }
}

/// The reason why this cluster never calls a webhook.
enum Aim {
    /// It is for versions that the bundle's own CRD does not serve.
    OwnVersions(String),
    /// It is for resources that neither the bundle nor the cluster serves.
    Elsewhere(String),
}

/// Returns none if the webhook is for any resource that is or may be served.
fn judged(webhook: &Value, brought: &BTreeMap<(String, String), BTreeSet<String>>, served: Option<&Served>) -> Option<Aim> {
    let mut kinds = BTreeSet::new();
    let mut own = true;
    for rule in webhook["rules"].as_array().into_iter().flatten() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let resource = resource.split('/').next().unwrap_or_default();
                if group == "*" || resource == "*" {
                    return None;
                }
                let key = (group.to_owned(), resource.to_owned());
                let versions = match (brought.get(&key), served) {
                    (Some(versions), _) => Some(versions),
                    (None, Some(served)) => {
                        own = false;
                        served.versions(group, resource)
                    }
                    (None, None) => return None,
                };
                for version in texts(&rule["apiVersions"]) {
                    if versions.is_some_and(|versions| version == "*" || versions.contains(version)) {
                        return None;
                    }
                    kinds.insert(format!("{} {version}", title(group, resource)));
                }
            }
        }
    }
    let kinds: Vec<String> = kinds.into_iter().collect();
    match (kinds.is_empty(), own) {
        (true, _) => None,
        (false, true) => Some(Aim::OwnVersions(kinds.join(", "))),
        (false, false) => Some(Aim::Elsewhere(kinds.join(", "))),
    }
}

/// Returns the resources that the bundle's CRDs serve: group and resource, with the versions.
fn brought(objects: &[Value]) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut all: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for crd in objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
        let served = versions.filter(|version| version["served"] == true).map(|version| text(&version["name"]));
        all.entry((text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]))).or_default().extend(served);
    }
    all
}

/// Returns true if an API server of the bundle serves the group; its resources are not known in advance.
fn brings_group(objects: &[Value], group: &str) -> bool {
    objects.iter().any(|object| object["kind"] == "APIService" && object["spec"]["group"] == group)
}

/// Returns group and resource of every rule that names them, without subresources.
fn named(objects: &[Value]) -> BTreeSet<(String, String)> {
    wants(objects).into_iter().flatten().collect()
}

/// Returns each resource of each rule, without subresources, paired with every group of that rule.
fn wants(objects: &[Value]) -> Vec<Vec<(String, String)>> {
    let roles = objects.iter().filter(|object| object["kind"] == "Role" || object["kind"] == "ClusterRole");
    let rules = roles.filter_map(|role| parse_rules(role).ok()).flatten().filter(asks);
    let resources = |rule: PolicyRule| {
        let resource = |resource: &String| {
            let name = resource.split('/').next().unwrap_or_default();
            rule.api_groups.iter().map(|group| (group.clone(), name.to_owned())).collect()
        };
        rule.resources.iter().map(resource).collect::<Vec<Vec<_>>>()
    };
    rules.flat_map(resources).collect()
}

/// Returns true if a rule allows requests.
fn asks(rule: &PolicyRule) -> bool {
    rule.verbs.iter().any(|verb| !NO_REQUESTS.contains(&verb.as_str()))
}

fn is_webhook(object: &Value) -> bool {
    object["kind"] == "ValidatingWebhookConfiguration" || object["kind"] == "MutatingWebhookConfiguration"
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn title(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(rules: &Value) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules})
    }

    fn served() -> Served {
        let all = [("", "v1", "pods"), ("apps", "v1", "deployments"), ("networking.k8s.io", "v1", "ingresses")];
        Served::new(all.map(|(group, version, resource)| (group.to_owned(), version.to_owned(), resource.to_owned())))
    }

    fn check(wanted: &[Value], before: &[Value]) -> Told {
        let served = served();
        told(wanted, before, Cluster { served: Some(&served), version: Some("1.34.0") })
    }

    /// MS-PLAN-01: permissions on what Kubernetes removed are told, unless the bundle is ready for what came in its place.
    #[test]
    fn permissions_on_removed_apis() {
        let old = role(&json!([{"apiGroups": ["extensions"], "resources": ["ingresses", "deployments/scale"], "verbs": ["get"]}]));
        let both = role(&json!([{"apiGroups": ["extensions", "apps"], "resources": ["deployments"], "verbs": ["get"]}]));
        assert_eq!(
            check(std::slice::from_ref(&old), &[]).warnings,
            [
                "the bundle's roles name deployments.extensions, which Kubernetes 1.16 removed",
                "the bundle's roles name ingresses.extensions, which Kubernetes 1.22 removed"
            ]
        );
        assert_eq!(check(std::slice::from_ref(&both), &[]), Told::default());
        // Without discovery the version decides; without a version nobody is sure.
        for (version, count) in [(Some("1.34.0"), 2), (Some("1.21.3"), 1), (None, 0)] {
            let found = told(std::slice::from_ref(&old), &[], Cluster { served: None, version });
            assert_eq!((found.warnings.len(), found.not_served.len()), (count, 0), "{version:?}");
        }
    }

    /// MS-PLAN-01: what the cluster does not serve is told once, and only where a request is meant.
    #[test]
    fn permissions_on_what_is_not_served() {
        let rules = role(&json!([
            {"apiGroups": ["route.example.org"], "resources": ["routes", "routes/custom-host"], "verbs": ["get"]},
            {"apiGroups": ["example.com"], "resources": ["widgets", "widgets/status"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]},
            {"apiGroups": ["*"], "resources": ["things"], "verbs": ["get"]},
            {"apiGroups": ["api.example.com"], "resources": ["records"], "verbs": ["get"]},
            {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get"]},
            {"apiGroups": ["", "example.com"], "resources": ["pods", "widgets", "gadgets"], "verbs": ["get"]},
        ]));
        let crd = json!({"kind": "CustomResourceDefinition", "spec": {"group": "example.com", "names": {"plural": "widgets"},
            "versions": [{"name": "v1", "served": true}]}});
        let service = json!({"kind": "APIService", "spec": {"group": "api.example.com", "version": "v1"}});
        let found = check(&[rules.clone(), crd.clone(), service.clone()], &[]);
        assert_eq!(
            found,
            Told { warnings: Vec::new(), not_served: vec!["roles name gadgets, gadgets.example.com, routes.route.example.org".to_owned()] }
        );
        assert_eq!(check(&[rules.clone(), crd, service], &[rules]), Told::default());
    }

    /// MS-PLAN-01: a webhook that the server never calls.
    #[test]
    fn webhooks_without_requests() {
        let webhook = |group: &str, version: &str| {
            let rule = json!({"apiGroups": [group], "apiVersions": [version], "resources": ["widgets"], "operations": ["*"]});
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "check"},
                "webhooks": [{"name": "check.example.com", "rules": [rule]}]})
        };
        let crd = json!({"kind": "CustomResourceDefinition", "spec": {"group": "example.com", "names": {"plural": "widgets"},
            "versions": [{"name": "v1", "served": true}, {"name": "v1beta1", "served": false}]}});
        assert_eq!(check(&[webhook("example.com", "v1"), crd.clone()], &[]), Told::default());
        assert_eq!(check(&[webhook("example.com", "*"), crd.clone()], &[]), Told::default());
        let found = check(&[webhook("example.com", "v1beta1"), crd], &[]);
        assert_eq!(
            found.warnings,
            [
                "ValidatingWebhookConfiguration check: webhook check.example.com is only for widgets.example.com v1beta1, which the bundle's CRD does not serve: it is never called"
            ]
        );
        let found = check(&[webhook("elsewhere.example.com", "v1")], &[]);
        assert_eq!(
            found.not_served,
            ["ValidatingWebhookConfiguration check: webhook check.example.com is only for widgets.elsewhere.example.com v1"]
        );
    }
}
