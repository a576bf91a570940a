//! The decisions of the cluster's owners: the LifecyclePolicies that apply to a subject, combined (MS-POL-01, OLM1-INST-04).

use std::collections::BTreeMap;

use mainstay_api::lifecycle::{Approval, LifecyclePolicySpec, ResolveDependencies, SubjectKind};

/// A LifecyclePolicy as read from the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyFact {
    /// Its name.
    pub name: String,
    /// Its spec.
    pub spec: LifecyclePolicySpec,
}

/// The properties of a subject that policies match.
#[derive(Clone, Copy, Debug)]
pub struct Concerned<'a> {
    /// Its `apiVersion`.
    pub api_version: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// The package that it installs.
    pub package: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// The decision for one subject. The default is the one without any policy: upstream's behaviour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruling {
    /// The changes that wait for an approval.
    pub approval: Approval,
    /// The names of the policies that decide this.
    pub approval_by: Vec<String>,
    /// The treatment of a bundle with dependencies.
    pub dependencies: ResolveDependencies,
    /// The names of the policies that decide this.
    pub dependencies_by: Vec<String>,
}

/// Combines the policies: the strictest approval wins; dependencies are planned if one policy allows them and none refuses them.
pub fn ruling(subject: Concerned<'_>, policies: &[PolicyFact]) -> Ruling {
    let concerned: Vec<&PolicyFact> = policies.iter().filter(|policy| applies(&policy.spec, subject)).collect();
    let approval = concerned.iter().filter_map(|policy| policy.spec.approval).max().unwrap_or_default();
    let says = |wanted| concerned.iter().any(|policy| policy.spec.resolve_dependencies == Some(wanted));
    let planned = says(ResolveDependencies::Plan) && !says(ResolveDependencies::Refuse);
    let dependencies = if planned { ResolveDependencies::Plan } else { ResolveDependencies::Refuse };
    let named = |holds: &dyn Fn(&LifecyclePolicySpec) -> bool| {
        concerned.iter().filter(|policy| holds(&policy.spec)).map(|policy| policy.name.clone()).collect()
    };
    Ruling {
        approval,
        approval_by: named(&|spec| spec.approval == Some(approval)),
        dependencies,
        dependencies_by: named(&|spec| spec.resolve_dependencies == Some(dependencies)),
    }
}

/// Returns true if a policy applies to a subject: it lists the subject's kind, one of its packages matches, and the subject carries all of its
/// labels.
pub fn applies(policy: &LifecyclePolicySpec, subject: Concerned<'_>) -> bool {
    let is_of = |kind: &SubjectKind| kind.api_version == subject.api_version && kind.kind == subject.kind;
    (policy.subjects.is_empty() || policy.subjects.iter().any(is_of))
        && (policy.packages.is_empty() || policy.packages.iter().any(|pattern| matches(pattern, subject.package)))
        && policy.match_labels.iter().all(|(key, value)| subject.labels.get(key) == Some(value))
}

/// Returns true if a name matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        // The earliest match leaves the most text for the rest of the pattern.
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-POL-01: a policy of other kinds says nothing.
    #[test]
    fn kinds_choose() {
        let labels = BTreeMap::new();
        let subject = Concerned { api_version: "example.com/v1", kind: "Widget", package: "widgets", labels: &labels };
        let of = |api_version: &str, kind: &str| LifecyclePolicySpec {
            subjects: vec![SubjectKind { api_version: api_version.to_owned(), kind: kind.to_owned() }],
            ..LifecyclePolicySpec::default()
        };
        assert!(applies(&LifecyclePolicySpec::default(), subject));
        assert!(applies(&of("example.com/v1", "Widget"), subject));
        assert!(!applies(&of("example.com/v1", "Gadget"), subject) && !applies(&of("example.com/v2", "Widget"), subject));
    }

    /// MS-POL-01: `*` stands for any text, at any place and as often as wanted.
    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("widgets", "widgets", true),
            ("widgets", "widgets-more", false),
            ("*", "", true),
            ("*", "anything", true),
            ("widgets-*", "widgets-", true),
            ("widgets-*", "widgets", false),
            ("*-operator", "foo-operator", true),
            ("*-operator", "operator", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a**c", "ac", true),
            ("*ab*ab", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
