//! OperatorGroups: targets, status, provided APIs and the ClusterRoles of a group and of APIs (OLM0-OG).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mainstay_bundle::Csv;
use mainstay_objects::{Condition, LabelSelector, set_condition};
use serde_json::{Value, json};

use crate::csv::{Group, Member, Phase, api_hash};
use crate::deployments::MANAGED_LABEL;
use crate::groups::{annotation, apis};
use crate::hash;

/// The annotation with the provided APIs.
pub const PROVIDED_APIS: &str = "olm.providedAPIs";
/// The prefix of the labels of target namespaces.
pub const NAMESPACE_LABEL: &str = "olm.operatorgroup.uid/";
const SEVERAL: &str = "MultipleOperatorGroup";
const ACCOUNT: &str = "OperatorGroupServiceAccount";
const RBAC: &str = "rbac.authorization.k8s.io";
/// The longest name of an object.
const LONGEST_NAME: usize = 253;
/// The longest value of a label.
const LONGEST_LABEL: usize = 63;

/// The levels of access, with the verbs of the roles of each.
const LEVELS: [(&str, &[&str]); 3] =
    [("admin", &["*"]), ("edit", &["create", "update", "patch", "delete"]), ("view", &["get", "list", "watch"])];

/// Why the targets of a group cannot be said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTargets {
    /// Every namespace is among named ones.
    #[error("TargetNamespaces cannot contain NamespaceAll: [{0}]")]
    AllAmongNamed(String),
    /// The selector is none.
    #[error("{0}")]
    Selector(String),
}

/// The targets of a group, as `status.namespaces` has them; `[""]` is every namespace (OLM0-OG-06).
pub fn targets<'a>(
    group: &Group,
    namespaces: impl Iterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
) -> Result<Vec<String>, InvalidTargets> {
    if !group.target_namespaces.is_empty() {
        if group.target_namespaces.iter().any(String::is_empty) {
            return Err(InvalidTargets::AllAmongNamed(group.target_namespaces.join(" ")));
        }
        let set: BTreeSet<String> = group.target_namespaces.iter().cloned().collect();
        return Ok(set.into_iter().collect());
    }
    let Some(selector) = selector(group)? else { return Ok(vec![String::new()]) };
    let matching: BTreeSet<String> = namespaces.filter(|(_, labels)| selector.matches(labels)).map(|(name, _)| name.to_owned()).collect();
    Ok(matching.into_iter().collect())
}

/// The selector by which a group finds its targets; `None` if it does not, because they are named or all.
pub fn selector(group: &Group) -> Result<Option<LabelSelector>, InvalidTargets> {
    let Some(written) = group.selector.as_ref().filter(|_| group.target_namespaces.is_empty()) else { return Ok(None) };
    let invalid = |error: String| InvalidTargets::Selector(error);
    let selector: LabelSelector = serde_json::from_value(written.clone()).map_err(|error| invalid(error.to_string()))?;
    selector.validate().map_err(|error| invalid(error.to_string()))?;
    Ok(if selector.is_empty() { None } else { Some(selector) })
}

/// The facts behind the status of a group.
#[derive(Debug, Clone, Copy)]
pub struct StatusFacts<'a> {
    /// Its targets.
    pub targets: &'a [String],
    /// True if its namespace has other groups.
    pub has_rivals: bool,
    /// The account that it names, and its UID if it is there.
    pub account: Option<(&'a str, Option<&'a str>)>,
    /// The time.
    pub now: Timestamp,
}

/// The status of a group (OLM0-OG-02, OLM0-OG-08, OLM0-OG-25).
pub fn status(object: &Value, facts: StatusFacts<'_>) -> Value {
    let now = facts.now.to_string();
    let mut object = object.clone();
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    let sorted = |value: &Value| {
        let mut all: Vec<String> = value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        all.sort();
        all
    };
    let known = &object["status"]["namespaces"];
    if !known.is_array() || sorted(known) != facts.targets || object["status"]["lastUpdated"].is_null() {
        object["status"]["namespaces"] = json!(facts.targets);
        object["status"]["lastUpdated"] = json!(now);
    }
    if facts.has_rivals {
        let message = "Multiple OperatorGroup found in the same namespace";
        let condition = Condition { kind: SEVERAL, status: true, reason: "MultipleOperatorGroupsFound", message };
        set_condition(&mut object, &condition, &now);
    } else {
        remove_condition(&mut object, SEVERAL);
    }
    match facts.account {
        Some((name, None)) => {
            remove(&mut object["status"], "serviceAccountRef");
            let message = format!("ServiceAccount {name} not found");
            let condition = Condition { kind: ACCOUNT, status: true, reason: "ServiceAccountNotFound", message: &message };
            set_condition(&mut object, &condition, &now);
        }
        Some((name, Some(uid))) => {
            let namespace = object["metadata"]["namespace"].clone();
            object["status"]["serviceAccountRef"] =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "name": name, "namespace": namespace, "uid": uid});
            remove_condition(&mut object, ACCOUNT);
        }
        None => {
            remove(&mut object["status"], "serviceAccountRef");
            remove_condition(&mut object, ACCOUNT);
        }
    }
    object["status"].take()
}

fn remove(of: &mut Value, field: &str) {
    if let Some(fields) = of.as_object_mut() {
        fields.remove(field);
    }
}

fn remove_condition(object: &mut Value, kind: &str) {
    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
        conditions.retain(|each| each["type"] != kind);
        if conditions.is_empty() {
            remove(&mut object["status"], "conditions");
        }
    } else {
        remove(&mut object["status"], "conditions");
    }
}

/// The labels of a namespace that target groups put there (OLM0-OG-08), as a merge patch's members; empty if nothing changes.
pub fn namespace_labels(labels: &BTreeMap<String, String>, wanted: &BTreeSet<String>) -> BTreeMap<String, Option<String>> {
    let stale = labels.keys().filter(|key| key.starts_with(NAMESPACE_LABEL) && !wanted.contains(*key));
    let mut patch: BTreeMap<String, Option<String>> = stale.map(|key| (key.clone(), None)).collect();
    let missing = wanted.iter().filter(|key| labels.get(*key).is_none_or(|value| !value.is_empty()));
    patch.extend(missing.map(|key| (key.clone(), Some(String::new()))));
    patch
}

/// The APIs of the CSVs of a group's namespace that are no copies.
pub fn provided_by<'a>(members: impl Iterator<Item = &'a Member>) -> BTreeSet<String> {
    members.filter(|member| !member.is_copied()).filter_map(|member| member.provided.as_deref()).flatten().cloned().collect()
}

/// The text of the annotation without the APIs that no member provides any more; `None` if it stays (OLM0-OG-24).
///
/// While a new member has not reached its checks, nothing is taken away: its APIs may be about to join.
pub fn pruned<'a>(group: &Group, members: impl Iterator<Item = &'a Member> + Clone) -> Option<String> {
    if group.is_static {
        return None;
    }
    let known = apis(&group.provided);
    let settles = |member: &Member| {
        let begins = !member.is_deleted && matches!(member.phase(), Phase::None | Phase::Pending);
        begins && member.provided.as_ref().is_some_and(|provided| !provided.is_subset(&known))
    };
    if members.clone().any(|member| !member.is_copied() && settles(member)) {
        return None;
    }
    let kept: BTreeSet<String> = known.intersection(&provided_by(members)).cloned().collect();
    (kept.len() < known.len()).then(|| annotation(&kept))
}

/// The three ClusterRoles of a group (OLM0-OG-12, OLM0-OG-13).
pub fn cluster_roles(group: &Group, provided: &BTreeSet<String>) -> Vec<Value> {
    let role = |(level, _): (&str, &[&str])| {
        let mut labels = json!({"olm.owner": group.name, "olm.owner.namespace": group.namespace, "olm.owner.kind": "OperatorGroup"});
        labels[MANAGED_LABEL.0] = json!(MANAGED_LABEL.1);
        let mut role = json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": {"name": cluster_role_name(group, level), "labels": labels},
        });
        let selected: BTreeSet<String> = provided.iter().map(|api| api_label(api, level)).collect();
        if !selected.is_empty() {
            let selectors: Vec<Value> = selected.into_iter().map(|label| json!({"matchLabels": {label: "true"}})).collect();
            role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
        }
        role
    };
    LEVELS.into_iter().map(role).collect()
}

/// The name of a group's ClusterRole.
pub fn cluster_role_name(group: &Group, level: &str) -> String {
    let hash = hash::of(&format!("{}/{}/{level}", group.namespace, group.name));
    let rest = "olm.og...-".len() - 1 + level.len() + hash.len();
    let end = group.name.len().min(LONGEST_NAME - rest);
    format!("olm.og.{}.{level}-{hash}", &group.name[..end])
}

fn api_label(api: &str, level: &str) -> String {
    format!("olm.opgroup.permissions/aggregate-to-{}-{level}", api_hash(api))
}

/// The ClusterRoles of the APIs that a CSV provides, owned by their CRDs and APIServices (OLM0-OG-14).
///
/// `uid` finds the UID of a CRD (true) or an APIService (false); the roles of what is not there are left out.
pub fn api_roles(csv: &Csv, group: &str, uid: impl Fn(bool, &str) -> Option<String>) -> Vec<Value> {
    let mut roles = Vec::new();
    for crd in &csv.owned_crds {
        let Some((plural, api_group)) = crd.name.split_once('.') else { continue };
        let Some(uid) = uid(true, &crd.name) else { continue };
        let owner = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd.name.as_str(), uid.as_str());
        let prefix = format!("{}-{}-", crd.name, crd.version);
        let api = format!("{}.{}.{api_group}", crd.kind, crd.version);
        for (level, verbs) in LEVELS {
            let rule = json!({"verbs": verbs, "apiGroups": [api_group], "resources": [plural]});
            roles.push(api_role(&format!("{prefix}{level}"), level, &api, group, owner, &rule));
        }
        let rule = json!({"verbs": ["get"], "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "resourceNames": [crd.name]});
        roles.push(api_role(&format!("{prefix}crdview"), "view", &api, group, owner, &rule));
    }
    for api in &csv.owned_api_services {
        let name = format!("{}.{}", api.version, api.group);
        let Some(uid) = uid(false, &name) else { continue };
        let owner = ("apiregistration.k8s.io/v1", "APIService", name.as_str(), uid.as_str());
        let full = format!("{}.{}.{}", api.kind, api.version, api.group);
        for (level, verbs) in LEVELS {
            let rule = json!({"verbs": verbs, "apiGroups": [api.group], "resources": [api.name]});
            roles.push(api_role(&format!("{}-{}-{level}", api.name, api.version), level, &full, group, owner, &rule));
        }
    }
    roles
}

fn api_role(name: &str, level: &str, api: &str, group: &str, owner: (&str, &str, &str, &str), rule: &Value) -> Value {
    let (api_version, kind, owner_name, uid) = owner;
    let mut labels = json!({MANAGED_LABEL.0: MANAGED_LABEL.1});
    labels[format!("{RBAC}/aggregate-to-{level}")] = json!("true");
    labels[api_label(api, level)] = json!("true");
    if group.len() <= LONGEST_LABEL {
        labels[group_label(level)] = json!(group);
    }
    let owner = json!({
        "apiVersion": api_version, "kind": kind, "name": owner_name, "uid": uid, "controller": false, "blockOwnerDeletion": false,
    });
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}, "rules": [rule],
    })
}

/// The label that names one group; of several groups with one API, the first that wrote it stays.
pub fn group_label(level: &str) -> String {
    format!("olm.opgroup.permissions/aggregate-to-{level}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn group(spec: &Value) -> Group {
        Group::read(&json!({"metadata": {"name": "g", "namespace": "home", "uid": "1"}, "spec": spec}))
    }

    /// OLM0-OG-06: named targets, then a selector, then every namespace.
    #[test]
    fn target_sets() {
        let prod = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let none = BTreeMap::new();
        let namespaces = || [("b", &prod), ("a", &prod), ("c", &none)].into_iter();
        let of = |spec: Value| targets(&group(&spec), namespaces());
        assert_eq!(of(json!({})).unwrap(), [""]);
        assert_eq!(of(json!({"selector": {}})).unwrap(), [""]);
        assert_eq!(of(json!({"selector": {"matchLabels": {"env": "prod"}}})).unwrap(), ["a", "b"]);
        assert_eq!(of(json!({"selector": {"matchLabels": {"env": "none"}}})).unwrap(), [""; 0]);
        assert_eq!(of(json!({"targetNamespaces": ["z", "c", "z"], "selector": {"matchLabels": {"env": "prod"}}})).unwrap(), ["c", "z"]);
        assert_eq!(
            of(json!({"targetNamespaces": ["a", ""]})).unwrap_err().to_string(),
            "TargetNamespaces cannot contain NamespaceAll: [a ]"
        );
    }

    /// OLM0-OG-12: names stay within the limit and tell levels apart.
    #[test]
    fn role_names() {
        let roles = cluster_roles(&group(&json!({})), &BTreeSet::from(["Widget.v1.example.com".to_owned()]));
        let names: Vec<&str> = roles.iter().map(|role| role["metadata"]["name"].as_str().unwrap()).collect();
        assert!(names[0].starts_with("olm.og.g.admin-") && names[2].starts_with("olm.og.g.view-"), "{names:?}");
        let selector = &roles[1]["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"];
        assert_eq!(selector[api_label("Widget.v1.example.com", "edit")], "true");
        let long = Group { name: "x".repeat(253), namespace: "home".to_owned(), ..Group::default() };
        assert_eq!(cluster_role_name(&long, "admin").len(), 253);
        assert!(cluster_roles(&long, &BTreeSet::new())[0].get("aggregationRule").is_none());
    }

    /// OLM0-OG-02, OLM0-OG-25: conditions come and go.
    #[test]
    fn conditions() {
        let mut object = json!({"metadata": {"name": "g", "namespace": "home"}});
        let targets = ["home".to_owned()];
        let facts = StatusFacts { targets: &targets, has_rivals: true, account: Some(("robot", None)), now: Timestamp::UNIX_EPOCH };
        object["status"] = status(&object, facts);
        let reasons: Vec<&str> =
            object["status"]["conditions"].as_array().unwrap().iter().map(|each| each["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons, ["MultipleOperatorGroupsFound", "ServiceAccountNotFound"]);
        let later = StatusFacts { has_rivals: false, account: Some(("robot", Some("7"))), ..facts };
        object["status"] = status(&object, later);
        assert_eq!(object["status"]["serviceAccountRef"]["uid"], "7");
        assert!(object["status"].get("conditions").is_none());
        assert_eq!(status(&object, StatusFacts { now: Timestamp::MAX, ..later }), object["status"], "nothing changes");
    }

    /// OLM0-OG-24: what no member provides leaves the annotation, unless it is static or a member is new.
    #[test]
    fn pruning() {
        let member = |kind: &str, phase: &str| {
            Member::read(&json!({"metadata": {"name": "a.v1", "namespace": "home"}, "status": {"phase": phase},
                "spec": {"customresourcedefinitions": {"owned": [{"name": "as.example.com", "kind": kind, "version": "v1"}]}}}))
        };
        let mut group = Group { provided: "A.v1.example.com,B.v1.example.com".to_owned(), ..Group::default() };
        assert_eq!(pruned(&group, [&member("A", "Succeeded")].into_iter()), Some("A.v1.example.com".to_owned()));
        assert_eq!(pruned(&group, [&member("C", "Pending")].into_iter()), None);
        assert_eq!(pruned(&group, [].into_iter()), Some(String::new()));
        group.is_static = true;
        assert_eq!(pruned(&group, [].into_iter()), None);
    }
}
