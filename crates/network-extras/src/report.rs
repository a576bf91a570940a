//! The ClusterOperator status, if the cluster has ClusterOperators.

use mainstay_api::cluster_operator::{Problem, Related, Report};

/// Builds the status. What is wrong was refused whole, so the component itself works on with what it had; it counts at once.
pub(crate) fn report(problem: Option<Problem>) -> Report {
    Report {
        unavailable: None,
        progressing: None,
        degraded: problem,
        not_upgradeable: None,
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        related: vec![
            Related::new("config.openshift.io", "proxies", "", "cluster"),
            Related::new("config.openshift.io", "networks", "", "cluster"),
            Related::new("", "configmaps", "openshift-config-managed", "trusted-ca-bundle"),
            Related::new("", "namespaces", "", "openshift-config"),
        ],
    }
}
