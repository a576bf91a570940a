//! The service account of an OperatorGroup, and what it should not be allowed to do (OLM0-ADMIN-30).

use mainstay_rbac::{PolicyRule, Risk, compact_string, risks};

/// Cluster-wide permissions of a group's account that it should not have: OLM writes CRDs and APIServices with its own permissions, and with
/// those of the account a bundle could replace the APIs of others. `rules` are the account's cluster-wide rules.
pub fn excessive(namespace: &str, account: &str, rules: &[PolicyRule]) -> Vec<String> {
    let kinds = [(Risk::WritesCrds, "CustomResourceDefinitions"), (Risk::WritesApiServices, "APIServices")];
    let held = |risk: Risk| {
        let rule = rules.iter().find(|rule| {
            let found = risks(rule, true);
            found.contains(&risk) || found.contains(&Risk::Everything)
        })?;
        Some(compact_string(rule))
    };
    let warning = |(risk, kind): (Risk, &str)| {
        let rule = held(risk)?;
        Some(format!(
            "serviceaccount {namespace}/{account} may write {kind} ({rule}): the account of an OperatorGroup must not, because bundles that it \
             installs could change APIs of the whole cluster; OLM writes them with its own permissions"
        ))
    };
    kinds.into_iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-ADMIN-30: an account that may write CRDs or APIServices is warned of, one that reads them is not.
    #[test]
    fn writers_of_apis_are_warned_of() {
        let rule = PolicyRule::resources;
        let crds = rule(&["create"], &["apiextensions.k8s.io"], &["customresourcedefinitions"]);
        let services = rule(&["patch"], &["apiregistration.k8s.io"], &["*"]);
        let reads = rule(&["get"], &["apiextensions.k8s.io"], &["customresourcedefinitions"]);
        let told = |rules: &[PolicyRule]| excessive("ns", "a", rules);
        assert!(told(std::slice::from_ref(&crds))[0].starts_with("serviceaccount ns/a may write CustomResourceDefinitions ("));
        assert!(told(&[reads.clone(), services])[0].contains("may write APIServices"));
        assert_eq!(told(&[rule(&["*"], &["*"], &["*"])]).len(), 2);
        assert_eq!(told(&[reads, rule(&["*"], &["apps"], &["*"])]), Vec::<String>::new());
    }
}
