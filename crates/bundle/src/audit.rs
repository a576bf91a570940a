//! The permissions that a bundle asks for, as a person reviews them before an installation (OLM0-ADMIN-30, MS-RBAC-01).

use std::fmt;

use mainstay_rbac::{Error, PolicyRule, Risk, parse_rules, risks};
use serde_json::Value;

use crate::csv::Csv;
use crate::permissions::{Grant, Scope};

/// A permission that is asked for, and its risks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Kind and name of the holder: a service account, or the role that grants it.
    pub holder: String,
    /// True if it holds in all namespaces.
    pub everywhere: bool,
    /// The rule, of one API group.
    pub rule: PolicyRule,
    /// Its risks, the worst first.
    pub risks: Vec<Risk>,
}

impl Asked {
    /// The places where it holds, in words.
    pub fn place(&self) -> &'static str {
        if self.everywhere { "all namespaces" } else { "watched namespaces" }
    }

    /// The rule in words.
    pub fn permission(&self) -> String {
        Grant { scope: Scope::Cluster, rule: self.rule.clone() }.to_string()
    }
}

/// The permission in one line, and its risks.
impl fmt::Display for Asked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} in {}", self.holder, self.permission(), self.place())?;
        for (index, risk) in self.risks.iter().enumerate() {
            write!(out, "{}{risk}", if index == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

/// The permissions of a CSV's service accounts. With `watches_all` its `permissions` hold in all namespaces, too: OLM makes ClusterRoles of them
/// if the OperatorGroup has no targets.
///
/// # Errors
/// A rule has the wrong shape.
pub fn asked(csv: &Csv, watches_all: bool) -> Result<Vec<Asked>, Error> {
    let mut all = Vec::new();
    for (permissions, everywhere) in [(&csv.cluster_permissions, true), (&csv.permissions, watches_all)] {
        for permission in permissions {
            let rules = parse_rules(&permission.entry)?;
            all.extend(of_rules(&format!("serviceaccount {}", permission.service_account), everywhere, &rules));
        }
    }
    Ok(all)
}

/// The permissions that a Role or ClusterRole grants; none of another kind.
///
/// # Errors
/// A rule has the wrong shape.
pub fn asked_by_role(role: &Value) -> Result<Vec<Asked>, Error> {
    let name = role["metadata"]["name"].as_str().unwrap_or_default();
    match role["kind"].as_str() {
        Some("ClusterRole") => Ok(of_rules(&format!("clusterrole {name}"), true, &parse_rules(role)?)),
        Some("Role") => Ok(of_rules(&format!("role {name}"), false, &parse_rules(role)?)),
        _ => Ok(Vec::new()),
    }
}

/// Rules of one API group each, so that a risk stands beside the permission that it is of.
fn of_rules(holder: &str, everywhere: bool, rules: &[PolicyRule]) -> Vec<Asked> {
    let of = |rule: PolicyRule| Asked { holder: holder.to_owned(), everywhere, risks: risks(&rule, everywhere), rule };
    let groups = |rule: &PolicyRule| rule.api_groups.clone();
    let mut all = Vec::new();
    for rule in rules {
        if rule.api_groups.is_empty() {
            all.push(of(rule.clone()));
        }
        all.extend(groups(rule).into_iter().map(|group| of(PolicyRule { api_groups: vec![group], ..rule.clone() })));
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// OLM0-ADMIN-30: each permission once by API group, its place by the targets, its risks in words.
    #[test]
    fn permissions_in_words() {
        let rules = json!([{"apiGroups": ["", "apps"], "resources": ["secrets"], "verbs": ["get", "list"]}]);
        let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a.v1.0.0"},
        "spec": {"install": {"strategy": "deployment", "spec": {
            "permissions": [{"serviceAccountName": "a", "rules": rules}],
            "clusterPermissions": [{"serviceAccountName": "b", "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}],
        }}}});
        let csv = Csv::parse(&csv).unwrap();
        let lines = |all: bool| asked(&csv, all).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            lines(false),
            [
                "serviceaccount b: get on /metrics in all namespaces",
                "serviceaccount a: get, list on secrets in watched namespaces",
                "serviceaccount a: get, list on secrets.apps in watched namespaces",
            ]
        );
        assert_eq!(lines(true)[1], "serviceaccount a: get, list on secrets in all namespaces: may read the secrets of all namespaces");
        let role = json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules});
        assert_eq!(
            asked_by_role(&role).unwrap()[0].to_string(),
            "clusterrole r: get, list on secrets in all namespaces: may read the secrets of all namespaces"
        );
        assert_eq!(asked_by_role(&json!({"kind": "Secret"})).unwrap(), []);
    }
}
