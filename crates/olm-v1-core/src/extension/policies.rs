//! What the cluster's owners decided for an extension: the LifecyclePolicies that concern it, taken together (MS-POL-01, OLM1-INST-04).

use kube_core::ResourceExt;
use mainstay_api::lifecycle::{Approval, LifecyclePolicySpec, ResolveDependencies};
use mainstay_api::olm_v1::ClusterExtension;

/// A LifecyclePolicy as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyFact {
    /// Its name.
    pub name: String,
    /// What it says.
    pub spec: LifecyclePolicySpec,
}

/// What holds for one extension. The default is what holds without any policy: upstream's behaviour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruling {
    /// Which changes wait for an approval.
    pub approval: Approval,
    /// The policies that say so, by name.
    pub approval_by: Vec<String>,
    /// What becomes of a bundle with dependencies.
    pub dependencies: ResolveDependencies,
    /// The policies that say so, by name.
    pub dependencies_by: Vec<String>,
}

/// The policies taken together: the strictest approval; dependencies are planned where one says so and none refuses them.
pub fn ruling(extension: &ClusterExtension, policies: &[PolicyFact]) -> Ruling {
    let concerned: Vec<&PolicyFact> = policies.iter().filter(|policy| applies(&policy.spec, extension)).collect();
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

/// Whether a policy concerns an extension: one of its packages matches, and the extension carries all of its labels.
pub fn applies(policy: &LifecyclePolicySpec, extension: &ClusterExtension) -> bool {
    let package = extension.spec.source.catalog.as_ref().map_or("", |catalog| &catalog.package_name);
    let labels = extension.labels();
    (policy.packages.is_empty() || policy.packages.iter().any(|pattern| matches(pattern, package)))
        && policy.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether a name matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        // The earliest place leaves the most for what follows.
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
