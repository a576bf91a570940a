//! Coverage of rules against a slow, obvious oracle.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_rbac::{Attributes, PolicyRule, UserInfo, breakdown, compact, covers};
use proptest::prelude::*;

const VERBS: [&str; 3] = ["get", "list", "delete"];
const GROUPS: [&str; 2] = ["", "apps"];
const RESOURCES: [&str; 4] = ["pods", "pods/status", "deployments", "deployments/status"];
const NAMES: [&str; 3] = ["", "a", "b"];
const PATHS: [&str; 4] = ["/healthz", "/healthz/ping", "/metrics", "/"];

/// Every request of the little world above.
fn requests() -> Vec<Attributes> {
    let user = UserInfo::default();
    let mut all = Vec::new();
    for verb in VERBS {
        for path in PATHS {
            all.push(Attributes::url(user.clone(), verb, path));
        }
        for group in GROUPS {
            for resource in RESOURCES {
                for name in NAMES {
                    all.push(Attributes::resource(user.clone(), verb, "ns", group, resource, name));
                }
            }
        }
    }
    all
}

fn some_of(choices: &'static [&'static str], least: usize) -> impl Strategy<Value = Vec<String>> {
    prop::sample::subsequence(choices, least..=choices.len()).prop_map(|list| list.into_iter().map(str::to_owned).collect())
}

fn rule() -> impl Strategy<Value = PolicyRule> {
    let on_resources = (
        some_of(&["get", "list", "delete", "*"], 1),
        some_of(&["", "apps", "*"], 1),
        some_of(&["pods", "pods/status", "deployments", "*/status", "*"], 1),
        some_of(&["a", "b"], 0),
    )
        .prop_map(|(verbs, api_groups, resources, resource_names)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls: Vec::new(),
        });
    let on_paths = (some_of(&["get", "list", "*"], 1), some_of(&["/healthz", "/healthz/*", "/health*", "/metrics", "*"], 1))
        .prop_map(|(verbs, non_resource_urls)| PolicyRule { verbs, non_resource_urls, ..PolicyRule::default() });
    prop_oneof![3 => on_resources, 1 => on_paths]
}

fn allowed(rules: &[PolicyRule], request: &Attributes) -> bool {
    rules.iter().any(|rule| rule.allows(request))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// KAPI-AUTHZ-01: who may grant rules could have done by themselves everything that the rules allow.
    #[test]
    fn covered_rules_allow_nothing_new(owner in prop::collection::vec(rule(), 0..4), servant in prop::collection::vec(rule(), 1..3)) {
        let missing = covers(&owner, &servant);
        for request in requests() {
            if allowed(&servant, &request) {
                prop_assert!(allowed(&owner, &request) || allowed(&missing, &request), "{request:?}");
            }
        }
        let mut all = owner;
        all.extend(missing);
        prop_assert!(covers(&all, &servant).is_empty());
    }

    /// KAPI-AUTHZ-01: taking rules apart and joining them again changes nothing of what they allow.
    #[test]
    fn breakdown_and_compaction_keep_the_meaning(rules in prop::collection::vec(rule(), 1..4)) {
        let atoms: Vec<PolicyRule> = rules.iter().flat_map(breakdown).collect();
        let joined = compact(&atoms);
        for request in requests() {
            prop_assert_eq!(allowed(&rules, &request), allowed(&atoms, &request));
            prop_assert_eq!(allowed(&rules, &request), allowed(&joined, &request));
        }
        prop_assert!(covers(&rules, &joined).is_empty());
    }
}
