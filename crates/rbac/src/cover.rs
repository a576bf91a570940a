//! Coverage of one set of rules by another, which escalation prevention and the permission preflight ask for.

use mainstay_golang::quoted_list;

use crate::rule::{ALL, PolicyRule, url_covers};

/// The atoms of `servant` that no rule of `owner` covers, in the order of their breakdown; empty when all are covered.
///
/// Each servant rule is broken into single group, resource, verb and name (or URL and verb) atoms, and every atom must be covered by
/// one owner rule as a whole, as Kubernetes does.
pub fn covers(owner: &[PolicyRule], servant: &[PolicyRule]) -> Vec<PolicyRule> {
    servant.iter().flat_map(breakdown).filter(|atom| !owner.iter().any(|rule| rule_covers(rule, atom))).collect()
}

/// A rule as single atoms: group by group, then resource, verb and name; URLs last.
pub fn breakdown(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut atoms = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let atom = PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    ..PolicyRule::default()
                };
                if rule.resource_names.is_empty() {
                    atoms.push(atom);
                } else {
                    atoms.extend(rule.resource_names.iter().map(|name| PolicyRule { resource_names: vec![name.clone()], ..atom.clone() }));
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            atoms.push(PolicyRule { verbs: vec![verb.clone()], non_resource_urls: vec![url.clone()], ..PolicyRule::default() });
        }
    }
    atoms
}

/// Joins the verbs of rules about one and the same group, resource and name; other rules stay as they are and come first.
pub fn compact(rules: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut compacted: Vec<PolicyRule> = Vec::new();
    let mut simple: Vec<PolicyRule> = Vec::new();
    for rule in rules {
        let is_simple = rule.api_groups.len() == 1
            && rule.resources.len() == 1
            && rule.resource_names.len() <= 1
            && rule.non_resource_urls.is_empty()
            && !rule.verbs.is_empty();
        if !is_simple {
            compacted.push(rule.clone());
            continue;
        }
        let same = simple.iter_mut().find(|known| {
            known.api_groups == rule.api_groups && known.resources == rule.resources && known.resource_names == rule.resource_names
        });
        match same {
            Some(known) => {
                for verb in &rule.verbs {
                    if !known.verbs.contains(verb) {
                        known.verbs.push(verb.clone());
                    }
                }
            }
            None => simple.push(rule.clone()),
        }
    }
    compacted.append(&mut simple);
    compacted
}

/// One rule on one line: `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`.
pub fn compact_string(rule: &PolicyRule) -> String {
    let parts: Vec<String> = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ]
    .into_iter()
    .filter(|(_, list)| !list.is_empty())
    .map(|(label, list)| format!("{label}:{}", quoted_list(list)))
    .collect();
    format!("{{{}}}", parts.join(", "))
}

fn rule_covers(owner: &PolicyRule, atom: &PolicyRule) -> bool {
    let names = if atom.resource_names.is_empty() {
        owner.resource_names.is_empty()
    } else {
        owner.resource_names.is_empty() || atom.resource_names.iter().all(|n| owner.resource_names.contains(n))
    };
    names
        && has_all(&owner.verbs, &atom.verbs)
        && has_all(&owner.api_groups, &atom.api_groups)
        && atom.resources.iter().all(|wanted| resource_covered(&owner.resources, wanted))
        && atom.non_resource_urls.iter().all(|wanted| owner.non_resource_urls.iter().any(|url| url_covers(url, wanted)))
}

fn has_all(owner: &[String], wanted: &[String]) -> bool {
    owner.iter().any(|o| o == ALL) || wanted.iter().all(|w| owner.contains(w))
}

fn resource_covered(owner: &[String], wanted: &str) -> bool {
    owner
        .iter()
        .any(|held| held == ALL || held == wanted || wanted.split_once('/').is_some_and(|(_, sub)| held.strip_prefix("*/") == Some(sub)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn rule(json: &str) -> PolicyRule {
        serde_json::from_str(json).unwrap()
    }

    /// KAPI-AUTHZ-01: what is not covered comes back atom by atom.
    #[test]
    fn covers_reports_atoms() {
        let owner = [
            rule(r#"{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}"#),
            rule(r#"{"apiGroups":["*"],"resources":["*/status"],"verbs":["*"]}"#),
            rule(r#"{"apiGroups":[""],"resources":["secrets"],"resourceNames":["a"],"verbs":["get"]}"#),
            rule(r#"{"nonResourceURLs":["/health*"],"verbs":["get"]}"#),
        ];
        let check = |servant: &str, missing: &[&str]| {
            let found: Vec<String> = covers(&owner, &[rule(servant)]).iter().map(compact_string).collect();
            assert_eq!(found, missing, "{servant}");
        };
        check(r#"{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}"#, &[]);
        check(r#"{"apiGroups":["apps"],"resources":["deployments/status"],"verbs":["patch"]}"#, &[]);
        check(
            r#"{"apiGroups":[""],"resources":["pods"],"verbs":["get","delete"]}"#,
            &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#],
        );
        check(
            r#"{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}"#,
            &[r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#],
        );
        check(
            r#"{"apiGroups":[""],"resources":["secrets"],"resourceNames":["a","b"],"verbs":["get"]}"#,
            &[r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#],
        );
        check(r#"{"nonResourceURLs":["/healthz"],"verbs":["get"]}"#, &[]);
        check(r#"{"nonResourceURLs":["/metrics"],"verbs":["get"]}"#, &[r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#]);
    }

    #[test]
    fn compaction_joins_verbs() {
        let atoms = breakdown(&rule(r#"{"apiGroups":["a"],"resources":["x","y"],"verbs":["get","list"]}"#));
        assert_eq!(atoms.len(), 4);
        let compacted: Vec<String> = compact(&atoms).iter().map(compact_string).collect();
        assert_eq!(
            compacted,
            [r#"{APIGroups:["a"], Resources:["x"], Verbs:["get" "list"]}"#, r#"{APIGroups:["a"], Resources:["y"], Verbs:["get" "list"]}"#]
        );
    }
}
