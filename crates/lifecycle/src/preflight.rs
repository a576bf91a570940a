//! The checks before anything is written: permissions of the acting account (OLM1-PERM-09..14), owners, kinds and CRDs ([`objects`]).
//!
//! Permissions are answered from the cluster's roles and bindings alone; nothing is tried. The checks ask the same questions as the API server:
//! through the same functions of `mainstay_rbac`, with the attributes of the requests that the plan leads to, including the object's name if the
//! request has one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use mainstay_bundle::kinds;
use mainstay_bundle::permissions::{Grant, Scope, missing};
use mainstay_rbac::{
    Attributes, Binding, PolicyIndex, PolicyRule, RBAC_GROUP, RoleView, RoleWrite, UserInfo, authorize, binding_refusal, parse_binding,
    parse_rules, role_refusals, rules_for,
};
use serde_json::Value;

use crate::object;

pub mod crds;
mod objects;

pub use objects::{Checked, Obstacle, checked, definition_goes};

/// Permissions that the account lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The purpose of the permissions: `manage cluster extension`.
    pub purpose: &'static str,
    /// Missing permissions by namespace (empty: cluster-wide), one atomic rule each.
    pub missing: BTreeMap<String, Vec<PolicyRule>>,
    /// Errors of rules that could not be evaluated.
    pub errors: Vec<String>,
}

impl Report {
    /// Returns true if no permission is missing and no error occurred.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.errors.is_empty()
    }

    /// Returns the report's lines, one per rule, sorted (OLM1-PERM-12).
    pub fn lines(&self) -> Vec<String> {
        let lines =
            |(namespace, rules): (&String, &Vec<PolicyRule>)| merged(rules).iter().map(|rule| line(namespace, rule)).collect::<Vec<_>>();
        self.missing.iter().flat_map(lines).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the text for the condition (OLM1-PERM-12, -13).
    pub fn text(&self) -> String {
        let mut text = String::from("pre-authorization failed: ");
        if !self.missing.is_empty() {
            let _ = write!(text, "service account requires the following permissions to {}:", self.purpose);
            for line in self.lines() {
                let _ = write!(text, "\n  {line}");
            }
        }
        if !self.errors.is_empty() {
            if !self.missing.is_empty() {
                text.push('\n');
            }
            let errors: BTreeSet<&str> = self.errors.iter().map(String::as_str).collect();
            let errors: Vec<&str> = errors.into_iter().collect();
            let _ = write!(
                text,
                "authorization evaluation error: missing rules may be incomplete: failed to resolve or evaluate permissions: {}",
                errors.join("; ")
            );
        }
        text
    }
}

/// The purpose of an installer's permissions, and the permissions that it needs besides those on objects.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// The purpose; see [`Report::purpose`].
    pub purpose: &'static str,
    /// Permissions besides those on objects.
    pub besides: &'a [Permission<'a>],
}

/// Checks that `user` has every permission for installing, keeping and removing `objects`.
pub fn permissions(policy: &PolicyIndex, user: &UserInfo, needs: Needs<'_>, objects: &[Value]) -> Report {
    let mut check = Check { policy, user, report: Report { purpose: needs.purpose, ..Report::default() } };
    for need in needs.besides {
        check.may("", need.verb, need.group, need.resource, need.name);
    }
    let (mut kinds, mut spaces) = (BTreeSet::new(), BTreeSet::new());
    for object in objects {
        let target = Target::of(object);
        for verb in ["get", "patch", "update", "delete"] {
            check.may(&target.namespace, verb, &target.group, &target.resource, &target.name);
        }
        kinds.insert((target.group.clone(), target.resource.clone()));
        spaces.insert((target.namespace, target.group, target.resource));
    }
    for (namespace, group, resource) in &spaces {
        check.may(namespace, "create", group, resource, "");
    }
    for (group, resource) in &kinds {
        check.may("", "list", group, resource, "");
        check.may("", "watch", group, resource, "");
    }
    let planned = PlannedRoles::of(policy, objects);
    for object in objects {
        check.escalation(object, &planned);
    }
    check.report
}

/// A permission on a cluster-scoped resource.
#[derive(Clone, Copy, Debug)]
pub struct Permission<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The resource, with its subresource.
    pub resource: &'a str,
    /// The object's name.
    pub name: &'a str,
}

struct Check<'a> {
    policy: &'a PolicyIndex,
    user: &'a UserInfo,
    report: Report,
}

impl Check<'_> {
    fn may(&mut self, namespace: &str, verb: &str, group: &str, resource: &str, name: &str) {
        if !authorize(self.policy, &Attributes::resource(self.user.clone(), verb, namespace, group, resource, name)).allowed {
            let rule = PolicyRule::resources(&[verb], &[group], &[resource]);
            let rule = if name.is_empty() { rule } else { rule.named(&[name]) };
            self.report.missing.entry(namespace.to_owned()).or_default().push(rule);
        }
    }

    /// Checks that escalation prevention lets the account write the role or binding (OLM1-PERM-11).
    fn escalation(&mut self, object: &Value, planned: &PlannedRoles<'_>) {
        let target = Target::of(object);
        if target.group != RBAC_GROUP {
            return;
        }
        let refusals = match object["kind"].as_str() {
            Some("Role" | "ClusterRole") => {
                let request_name = if object::is_created_by_name(object) { target.name.as_str() } else { "" };
                role_refusals(self.policy, self.user, RoleWrite { resource: &target.resource, request_name, new: object, old: None })
            }
            Some("RoleBinding" | "ClusterRoleBinding") => {
                let binding = parse_binding(object).map(|mut binding| {
                    binding.namespace.clone_from(&target.namespace);
                    if binding.role_ref.api_group.is_empty() {
                        // The server's default.
                        RBAC_GROUP.clone_into(&mut binding.role_ref.api_group);
                    }
                    binding
                });
                let refusal = binding.and_then(|binding| binding_refusal(self.policy, planned, self.user, &binding));
                refusal.map(|refusal| refusal.into_iter().collect())
            }
            _ => return,
        };
        match refusals {
            Ok(refusals) => {
                for (missing, errors) in refusals.into_iter().map(mainstay_rbac::Refusal::into_parts) {
                    self.report.missing.entry(target.namespace.clone()).or_default().extend(missing);
                    self.report.errors.extend(errors.iter().map(ToString::to_string));
                }
            }
            Err(error) => self.report.errors.push(error.to_string()),
        }
    }
}

/// Returns the permissions of `user` beyond the `needed` ones, cluster-wide, in `namespace` and in those of `objects` (MS-POL-02).
pub fn excess(policy: &PolicyIndex, user: &UserInfo, namespace: &str, objects: &[Value], mut needed: Vec<Grant>) -> Vec<String> {
    let grant = |scope: Scope| move |rule: PolicyRule| Grant { scope: scope.clone(), rule };
    // Permissions of every authenticated user are not excess.
    let everybody = UserInfo::new("", &user.groups.iter().map(String::as_str).collect::<Vec<_>>());
    let in_namespaces: BTreeSet<&str> = objects
        .iter()
        .filter_map(|object| object["metadata"]["namespace"].as_str())
        .chain([namespace])
        .filter(|name| !name.is_empty())
        .collect();
    let of = |user: &UserInfo| {
        let mut grants: Vec<Grant> = rules_for(policy, user, "").rules.into_iter().map(grant(Scope::Cluster)).collect();
        for namespace in &in_namespaces {
            for binding in policy.role_bindings(namespace) {
                if binding.subjects.iter().any(|subject| subject.applies_to(user, namespace))
                    && let Ok(rules) = policy.referenced(&binding.role_ref, namespace)
                {
                    grants.extend(rules.iter().cloned().map(grant(Scope::Namespace((*namespace).to_owned()))));
                }
            }
        }
        grants
    };
    needed.extend(of(&everybody));
    missing(&needed, &of(user)).iter().map(ToString::to_string).collect()
}

/// The roles of the cluster once the manifest's bindings are written: those of the manifest take precedence over existing ones.
struct PlannedRoles<'a> {
    policy: &'a PolicyIndex,
    /// The rules of the manifest's roles, by namespace (empty for a ClusterRole) and name.
    own: BTreeMap<(String, String), Arc<[PolicyRule]>>,
}

impl<'a> PlannedRoles<'a> {
    fn of(policy: &'a PolicyIndex, objects: &[Value]) -> Self {
        let role = |object: &Value| {
            let target = Target::of(object);
            let is_role = target.group == RBAC_GROUP && matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"));
            // A role that cannot be parsed is reported by the check of the role itself.
            is_role.then(|| ((target.namespace, target.name), granted(object).unwrap_or_default().into()))
        };
        Self { policy, own: objects.iter().filter_map(role).collect() }
    }

    fn own(&self, namespace: &str, name: &str) -> Option<Arc<[PolicyRule]>> {
        self.own.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
}

impl RoleView for PlannedRoles<'_> {
    fn cluster_role_bindings(&self) -> Vec<Arc<Binding>> {
        self.policy.cluster_role_bindings()
    }

    fn role_bindings(&self, namespace: &str) -> Vec<Arc<Binding>> {
        self.policy.role_bindings(namespace)
    }

    fn cluster_role(&self, name: &str) -> Option<Arc<[PolicyRule]>> {
        self.own("", name).or_else(|| self.policy.cluster_role(name))
    }

    fn role(&self, namespace: &str, name: &str) -> Option<Arc<[PolicyRule]>> {
        self.own(namespace, name).or_else(|| self.policy.role(namespace, name))
    }
}

/// Returns the rules that a role of the manifest grants. The result of an aggregation is unknown, so an aggregated role may grant everything.
fn granted(role: &Value) -> Result<Vec<PolicyRule>, mainstay_rbac::Error> {
    if role["aggregationRule"].is_object() {
        return Ok(vec![PolicyRule::resources(&["*"], &["*"], &["*"]), PolicyRule::urls(&["*"], &["*"])]);
    }
    parse_rules(role)
}

struct Target {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

impl Target {
    fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&object["kind"]);
        let row = kinds::rendered(&kind);
        let namespace = text(&object["metadata"]["namespace"]);
        Self {
            group: object["apiVersion"]
                .as_str()
                .and_then(|version| version.split_once('/'))
                .map_or_else(String::new, |(group, _)| group.to_owned()),
            // Every kind that rendering accepts has a row.
            resource: row.map_or_else(|| format!("{}s", kind.to_lowercase()), |row| row.resource.to_owned()),
            namespace: if row.is_none_or(|row| row.namespaced) { namespace } else { String::new() },
            name: text(&object["metadata"]["name"]),
        }
    }
}

/// Merges rules that differ only in their verbs. Verbs and lists are sorted, `*` stands alone.
fn merged(rules: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<[Vec<String>; 4], BTreeSet<String>> = BTreeMap::new();
    for rule in rules {
        let sorted = |list: &[String]| list.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
        let key = [sorted(&rule.api_groups), sorted(&rule.resources), sorted(&rule.resource_names), sorted(&rule.non_resource_urls)];
        verbs.entry(key).or_default().extend(rule.verbs.iter().cloned());
    }
    let rule = |([api_groups, resources, resource_names, non_resource_urls], verbs): ([Vec<String>; 4], BTreeSet<String>)| {
        let verbs = if verbs.contains("*") { vec!["*".to_owned()] } else { verbs.into_iter().collect() };
        PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls }
    };
    verbs.into_iter().map(rule).collect()
}

fn line(namespace: &str, rule: &PolicyRule) -> String {
    let mut line = format!("Namespace:{namespace:?}");
    let mut field = |name: &str, list: &[String]| {
        if !list.is_empty() {
            let _ = write!(line, " {name}:[{}]", list.join(","));
        }
    };
    field("APIGroups", &rule.api_groups);
    field("Resources", &rule.resources);
    field("ResourceNames", &rule.resource_names);
    field("Verbs", &rule.verbs);
    field("NonResourceURLs", &rule.non_resource_urls);
    line
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn needs<'a>(besides: &'a [Permission<'a>]) -> Needs<'a> {
        Needs { purpose: "manage cluster extension", besides }
    }

    fn finalizers(name: &str) -> [Permission<'_>; 1] {
        [Permission { verb: "update", group: "olm.operatorframework.io", resource: "clusterextensions/finalizers", name }]
    }

    fn objects() -> Vec<Value> {
        vec![
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics", "namespace": "widgets"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "widget-role"}, "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
            ]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "widget-binding"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "widget-role"}, "subjects": []}),
        ]
    }

    fn policy(rules: &Value) -> PolicyIndex {
        let mut policy = PolicyIndex::default();
        policy.apply(&json!({"kind": "ClusterRole", "metadata": {"name": "installer"}, "rules": rules})).unwrap();
        let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "installer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "installer"},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "widgets"}]});
        policy.apply(&binding).unwrap();
        policy
    }

    /// OLM1-PERM-09, OLM1-PERM-10, OLM1-PERM-11, OLM1-PERM-12: the questions, the missing permissions of granted roles, the report's form.
    #[test]
    fn the_report_lists_what_is_missing() {
        let user = UserInfo::service_account("widgets", "installer");
        let rules = json!([
            {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "update", "patch", "delete", "create"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"], "verbs": ["*"]},
        ]);
        // `*` on roles holds escalate and bind, so the pods of the role are not asked for.
        assert_eq!(
            permissions(&policy(&rules), &user, needs(&finalizers("widgets")), &objects()).lines(),
            [
                r#"Namespace:"" APIGroups:[] Resources:[services] Verbs:[list,watch]"#,
                r#"Namespace:"" APIGroups:[olm.operatorframework.io] Resources:[clusterextensions/finalizers] ResourceNames:[widgets] Verbs:[update]"#,
            ]
        );
        let nothing = permissions(&PolicyIndex::default(), &user, needs(&finalizers("widgets")), &objects());
        assert!(nothing.lines().contains(&r#"Namespace:"" APIGroups:[] Resources:[pods] Verbs:[get,list]"#.to_owned()));
        assert!(nothing.text().starts_with(
            "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n  Namespace:\"\" "
        ));
        let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        assert!(permissions(&policy(&all), &user, needs(&finalizers("widgets")), &objects()).is_empty());
    }

    /// OLM1-PERM-13, OLM1-PERM-14: a binding to a role that is nowhere is named.
    #[test]
    fn an_unknown_role_is_named() {
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nowhere"}});
        let report = permissions(&PolicyIndex::default(), &UserInfo::service_account("n", "sa"), needs(&finalizers("e")), &[binding]);
        assert!(report.text().ends_with(
            "\nauthorization evaluation error: missing rules may be incomplete: failed to resolve or evaluate permissions: clusterrole.rbac.authorization.k8s.io \"nowhere\" not found"
        ), "{}", report.text());
    }
}
