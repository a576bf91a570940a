//! The ClusterOperator status of the marketplace, if the cluster has ClusterOperators.

use mainstay_api::cluster_operator::{Problem, Related, Report};

use crate::NAMESPACE;

/// The facts behind the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The release whose catalogs were last made; none before the first success.
    pub release: Option<String>,
    /// The error of the last attempt.
    pub failing: Option<String>,
}

impl Facts {
    /// The current problem, whether or not it lasts.
    pub fn problem(&self) -> Option<Problem> {
        self.failing.as_ref().map(|failing| Problem::new("DefaultCatalogsFailing", failing.clone()))
    }
}

/// Builds the status; `degraded` is a problem that has lasted. Without any success it is not available; with one it stays so, since its
/// catalogs are there.
pub(crate) fn report(facts: &Facts, degraded: Option<Problem>) -> Report {
    let first = || {
        Problem::new("NoDefaultCatalogs", facts.failing.clone().unwrap_or_else(|| "The default catalogs were not looked at yet".to_owned()))
    };
    let missing = facts.release.is_none().then(first);
    Report {
        progressing: missing.clone().map(|problem| Problem::new("MakingDefaultCatalogs", problem.message)),
        unavailable: missing,
        version: facts.release.clone(),
        degraded,
        not_upgradeable: None,
        related: vec![
            Related::new("", "namespaces", "", NAMESPACE),
            Related::new("operators.coreos.com", "catalogsources", NAMESPACE, ""),
            Related::new("config.openshift.io", "operatorhubs", "", "cluster"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-HUB-11: the version follows the catalogs; a failure after a success does not take availability away.
    #[test]
    fn the_version_follows_the_catalogs() {
        let first = report(&Facts { release: None, failing: Some("forbidden".into()) }, None);
        assert_eq!((first.version, first.unavailable.map(|problem| problem.message)), (None, Some("forbidden".to_owned())));
        let later = report(&Facts { release: Some("4.19.0".into()), failing: Some("forbidden".into()) }, None);
        assert_eq!((later.version.as_deref(), later.unavailable), (Some("4.19.0"), None));
    }
}
