//! The permission preflight: could the account do everything that the install needs? (OLM1-PERM-09..14)
//!
//! Answered from the cluster's roles and bindings alone; nothing is tried.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mainstay_bundle::kinds;
use mainstay_rbac::{
    Attributes, PolicyIndex, PolicyRule, RBAC_GROUP, RoleRef, RoleView, UserInfo, authorize, confirm_no_escalation, parse_rules,
};
use serde_json::Value;

/// What the account lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By namespace (empty: cluster-wide), one atom of missing right each.
    pub missing: BTreeMap<String, Vec<PolicyRule>>,
    /// What could not be evaluated.
    pub errors: Vec<String>,
}

impl Report {
    /// Whether nothing is lacking.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.errors.is_empty()
    }

    /// The report's lines, one per rule, sorted (OLM1-PERM-12).
    pub fn lines(&self) -> Vec<String> {
        let lines =
            |(namespace, rules): (&String, &Vec<PolicyRule>)| merged(rules).iter().map(|rule| line(namespace, rule)).collect::<Vec<_>>();
        self.missing.iter().flat_map(lines).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The text for the condition (OLM1-PERM-12, -13).
    pub fn text(&self) -> String {
        let mut text = String::from("pre-authorization failed: ");
        if !self.missing.is_empty() {
            text.push_str("service account requires the following permissions to manage cluster extension:");
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

/// Asks everything that installing, keeping and removing `objects` needs of `user`.
pub fn check(policy: &PolicyIndex, user: &UserInfo, extension: &str, objects: &[Value]) -> Report {
    let mut check = Check { policy, user, report: Report::default() };
    check.may("", "update", "olm.operatorframework.io", "clusterextensions/finalizers", extension);
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
    for object in objects {
        check.escalation(object, objects);
    }
    check.report
}

struct Check<'a> {
    policy: &'a PolicyIndex,
    user: &'a UserInfo,
    report: Report,
}

impl Check<'_> {
    fn allows(&self, namespace: &str, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        authorize(self.policy, &Attributes::resource(self.user.clone(), verb, namespace, group, resource, name)).allowed
    }

    fn may(&mut self, namespace: &str, verb: &str, group: &str, resource: &str, name: &str) {
        if !self.allows(namespace, verb, group, resource, name) {
            let rule = PolicyRule::resources(&[verb], &[group], &[resource]);
            let rule = if name.is_empty() { rule } else { rule.named(&[name]) };
            self.report.missing.entry(namespace.to_owned()).or_default().push(rule);
        }
    }

    /// Whether the account may write the role or binding, as escalation prevention asks (OLM1-PERM-11).
    fn escalation(&mut self, object: &Value, objects: &[Value]) {
        let target = Target::of(object);
        if target.group != RBAC_GROUP {
            return;
        }
        match object["kind"].as_str() {
            Some("Role" | "ClusterRole") if !self.allows(&target.namespace, "escalate", RBAC_GROUP, &target.resource, &target.name) => {
                let rules = granted(object);
                self.must_hold(&target.namespace, rules.map_err(|error| error.to_string()));
            }
            Some("RoleBinding" | "ClusterRoleBinding") => {
                let text = |key: &str| object["roleRef"][key].as_str().unwrap_or_default().to_owned();
                let reference = RoleRef { api_group: text("apiGroup"), kind: text("kind"), name: text("name") };
                let resource = if reference.kind == "Role" { "roles" } else { "clusterroles" };
                if !self.allows(&target.namespace, "bind", RBAC_GROUP, resource, &reference.name) {
                    let in_manifest = objects.iter().find(|role| is_role(role, &reference, &target.namespace));
                    let rules = match in_manifest {
                        Some(role) => granted(role),
                        None => self.policy.referenced(&reference, &target.namespace).map(|rules| rules.to_vec()),
                    };
                    self.must_hold(&target.namespace, rules.map_err(|error| error.to_string()));
                }
            }
            _ => {}
        }
    }

    fn must_hold(&mut self, namespace: &str, rules: Result<Vec<PolicyRule>, String>) {
        let result = rules.map(|rules| confirm_no_escalation(self.policy, self.user, namespace, &rules));
        match result {
            Ok(Ok(())) => {}
            Ok(Err((missing, errors))) => {
                self.report.missing.entry(namespace.to_owned()).or_default().extend(missing);
                self.report.errors.extend(errors.iter().map(ToString::to_string));
            }
            Err(error) => self.report.errors.push(error),
        }
    }
}

/// What a role of the manifest grants. What will be aggregated nobody knows, so it may be everything.
fn granted(role: &Value) -> Result<Vec<PolicyRule>, mainstay_rbac::Error> {
    if role["aggregationRule"].is_object() {
        return Ok(vec![PolicyRule::resources(&["*"], &["*"], &["*"]), PolicyRule::urls(&["*"], &["*"])]);
    }
    parse_rules(role)
}

fn is_role(object: &Value, reference: &RoleRef, namespace: &str) -> bool {
    let target = Target::of(object);
    target.group == RBAC_GROUP
        && object["kind"].as_str() == Some(&reference.kind)
        && target.name == reference.name
        && (reference.kind == "ClusterRole" || target.namespace == namespace)
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
            // Every kind that rendering lets through has a row.
            resource: row.map_or_else(|| format!("{}s", kind.to_lowercase()), |row| row.resource.to_owned()),
            namespace: if row.is_none_or(|row| row.namespaced) { namespace } else { String::new() },
            name: text(&object["metadata"]["name"]),
        }
    }
}

/// Rules that differ only in their verbs become one; verbs and lists are sorted, `*` stands alone.
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

    /// OLM1-PERM-09, OLM1-PERM-10, OLM1-PERM-11, OLM1-PERM-12: the questions, the missing rights of granted roles, the report's form.
    #[test]
    fn the_report_lists_what_is_missing() {
        let user = UserInfo::service_account("widgets", "installer");
        let rules = json!([
            {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "update", "patch", "delete", "create"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"], "verbs": ["*"]},
        ]);
        // `*` on roles holds escalate and bind, so the pods of the role are not asked for.
        assert_eq!(
            check(&policy(&rules), &user, "widgets", &objects()).lines(),
            [
                r#"Namespace:"" APIGroups:[] Resources:[services] Verbs:[list,watch]"#,
                r#"Namespace:"" APIGroups:[olm.operatorframework.io] Resources:[clusterextensions/finalizers] ResourceNames:[widgets] Verbs:[update]"#,
            ]
        );
        let nothing = check(&PolicyIndex::default(), &user, "widgets", &objects());
        assert!(nothing.lines().contains(&r#"Namespace:"" APIGroups:[] Resources:[pods] Verbs:[get,list]"#.to_owned()));
        assert!(nothing.text().starts_with(
            "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n  Namespace:\"\" "
        ));
        let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        assert!(check(&policy(&all), &user, "widgets", &objects()).is_empty());
    }

    /// OLM1-PERM-13, OLM1-PERM-14: a binding to a role that is nowhere is named.
    #[test]
    fn an_unknown_role_is_named() {
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nowhere"}});
        let report = check(&PolicyIndex::default(), &UserInfo::service_account("n", "sa"), "e", &[binding]);
        assert!(report.text().ends_with(
            "\nauthorization evaluation error: missing rules may be incomplete: failed to resolve or evaluate permissions: clusterrole.rbac.authorization.k8s.io \"nowhere\" not found"
        ), "{}", report.text());
    }
}
