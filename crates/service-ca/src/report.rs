//! The ClusterOperator status of the service CA, if the cluster has ClusterOperators (COP-SCA-05).

use mainstay_api::cluster_operator::{Problem, Related, Report};

use crate::NAMESPACE;

/// The facts behind the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// True if there is a CA.
    pub has_authority: bool,
    /// The error of the last attempt at the CA.
    pub failing: Option<String>,
}

impl Facts {
    /// The current problem, whether or not it lasts.
    pub fn problem(&self) -> Option<Problem> {
        self.failing.as_ref().map(|failing| Problem::new("SigningKeyFailing", failing.clone()))
    }
}

/// Builds the status; `degraded` is a problem that has lasted.
pub(crate) fn report(facts: &Facts, degraded: Option<Problem>) -> Report {
    let missing = (!facts.has_authority)
        .then(|| Problem::new("NoSigningKey", facts.failing.clone().unwrap_or_else(|| "The signing key is not there yet".to_owned())));
    Report {
        progressing: missing.clone().map(|problem| Problem::new("MakingSigningKey", problem.message)),
        version: missing.is_none().then(|| env!("CARGO_PKG_VERSION").to_owned()),
        unavailable: missing,
        degraded,
        not_upgradeable: None,
        related: vec![
            Related::new("operator.openshift.io", "servicecas", "", "cluster"),
            Related::new("", "namespaces", "", NAMESPACE),
            Related::new("", "secrets", NAMESPACE, crate::authority::SECRET),
        ],
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use mainstay_api::cluster_operator;
    use serde_json::json;

    use super::*;

    /// COP-SCA-05, COP-G-08: without a CA it is not available and says why; a failure alone does not make it unavailable.
    #[test]
    fn it_is_available_with_a_ca() {
        let status = |facts: &Facts| cluster_operator::status(&json!({}), &report(facts, None), Timestamp::UNIX_EPOCH);
        let first = status(&Facts { has_authority: false, failing: Some("forbidden".into()) });
        assert_eq!((&first["conditions"][0]["status"], &first["conditions"][0]["message"]), (&json!("False"), &json!("forbidden")));
        assert_eq!((&first["conditions"][1]["status"], first.get("versions")), (&json!("True"), None));
        let later = status(&Facts { has_authority: true, failing: Some("forbidden".into()) });
        assert_eq!((&later["conditions"][0]["status"], &later["versions"][0]["name"]), (&json!("True"), &json!("operator")));
    }
}
