//! Permissions in words, as explanations, plans and command lines show them.

use std::fmt;

use crate::permissions::{Grant, Scope};

/// `get, list on deployments.apps [a, b] in namespace x`.
impl fmt::Display for Grant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = &self.rule;
        let group = rule.api_groups.iter().find(|group| !group.is_empty());
        let resources: Vec<String> =
            rule.resources.iter().map(|resource| group.map_or_else(|| resource.clone(), |group| qualified(resource, group))).collect();
        let what = if resources.is_empty() { &rule.non_resource_urls } else { &resources };
        write!(out, "{} on {}", rule.verbs.join(", "), what.join(", "))?;
        if !rule.resource_names.is_empty() {
            write!(out, " [{}]", rule.resource_names.join(", "))?;
        }
        match &self.scope {
            Scope::Cluster => Ok(()),
            Scope::Namespace(namespace) => write!(out, " in namespace {namespace}"),
        }
    }
}

/// `deployments.apps/status`, as Kubernetes writes it.
pub(crate) fn qualified(resource: &str, group: &str) -> String {
    match resource.split_once('/') {
        Some((resource, subresource)) => format!("{resource}.{group}/{subresource}"),
        None => format!("{resource}.{group}"),
    }
}

#[cfg(test)]
mod tests {
    use mainstay_rbac::PolicyRule;

    use super::*;

    /// MS-PLAN-01: permissions are shown as rules in words.
    #[test]
    fn permissions_in_words() {
        let grant = |scope, rule: PolicyRule| Grant { scope, rule }.to_string();
        let work = || Scope::Namespace("work".to_owned());
        assert_eq!(
            grant(work(), PolicyRule::resources(&["get"], &[""], &["pods"]).named(&["a", "b"])),
            "get on pods [a, b] in namespace work"
        );
        assert_eq!(
            grant(Scope::Cluster, PolicyRule::resources(&["get", "list"], &["apps"], &["deployments/status", "deployments"])),
            "get, list on deployments.apps/status, deployments.apps"
        );
        assert_eq!(grant(Scope::Cluster, PolicyRule::urls(&["get"], &["/metrics"])), "get on /metrics");
    }
}
