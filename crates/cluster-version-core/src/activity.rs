//! Changes of ClusterOperators that are worth another look at the manifests at once (CVO-SYNC-04).

use std::collections::BTreeMap;

use mainstay_api::condition::Status;
use mainstay_api::config_v1::ClusterOperator;

/// The ClusterOperators as they were seen last.
#[derive(Debug, Default)]
pub struct Activity {
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    version: Option<String>,
    available: Option<Status>,
    degraded: Option<Status>,
}

impl Activity {
    /// Notes the ClusterOperators, and returns whether one that was known before reached another version, or is available or degraded
    /// otherwise than before.
    pub fn observe(&mut self, operators: &[ClusterOperator]) -> bool {
        let now: BTreeMap<String, Seen> = operators
            .iter()
            .map(|operator| {
                let condition = |kind: &str| {
                    let conditions = &operator.status.conditions;
                    conditions.iter().find(|condition| condition.kind == kind).map(|condition| condition.status)
                };
                let version = operator.status.versions.iter().find(|version| version.name == "operator");
                let seen = Seen {
                    version: version.map(|version| version.version.clone()),
                    available: condition("Available"),
                    degraded: condition("Degraded"),
                };
                (operator.metadata.name.clone().unwrap_or_default(), seen)
            })
            .collect();
        let is_new = now.iter().any(|(name, now)| self.seen.get(name).is_some_and(|before| before != now));
        self.seen = now;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operators(version: &str, degraded: &str, progressing: &str) -> Vec<ClusterOperator> {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let operator = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "etcd"},
            "status": {
                "conditions": [condition("Available", "True"), condition("Degraded", degraded), condition("Progressing", progressing)],
                "versions": [{"name": "operator", "version": version}, {"name": "etcd", "version": progressing}],
            },
        });
        vec![serde_json::from_value(operator).unwrap_or_else(|error| panic!("{error}"))]
    }

    /// CVO-SYNC-04: a version of the operator, Available and Degraded count; Progressing, other versions and new operators do not.
    #[test]
    fn changes_that_count() {
        let mut activity = Activity::default();
        let mut observed = |operators: &[ClusterOperator]| activity.observe(operators);
        assert!(!observed(&operators("1", "False", "False")), "seen for the first time");
        assert!(!observed(&operators("1", "False", "False")));
        assert!(!observed(&operators("1", "False", "True")));
        assert!(observed(&operators("2", "False", "True")));
        assert!(observed(&operators("2", "True", "True")));
        assert!(!observed(&[]));
        assert!(!observed(&operators("3", "True", "True")), "made again");
    }
}
