//! Another Cluster Version Operator on the cluster (CVO-RUN-07, COP-G-11).

use serde_json::Value;

/// The annotation of a ClusterVersion that this program looks after: a Deployment that one of its releases brings is then no stranger's.
pub const MANAGED: &str = "mainstay.dev/managed";
/// The name of the operator's Deployment, in its namespace.
pub const DEPLOYMENT: &str = "cluster-version-operator";

/// An operator that already looks after the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another Cluster Version Operator runs here: image {}", if .image.is_empty() { "unknown" } else { .image })]
pub struct Rival {
    /// The image of its first container; empty if the Deployment does not say.
    pub image: String,
}

/// The operator that is to be left alone, from its Deployment. A Deployment that is scaled to zero does nothing.
pub fn rival(deployment: Option<&Value>, cluster_version: Option<&Value>) -> Option<Rival> {
    let spec = &deployment?["spec"];
    if spec["replicas"] == 0 || cluster_version.is_some_and(|version| version["metadata"]["annotations"][MANAGED] == "true") {
        return None;
    }
    let image = spec["template"]["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
    Some(Rival { image: image.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(replicas: u32, image: &str) -> Value {
        json!({"spec": {"replicas": replicas, "template": {"spec": {"containers": [{"image": image}]}}}})
    }

    /// CVO-RUN-07, COP-G-11: a Deployment is a rival unless it is scaled down or the cluster is marked as this program's.
    #[test]
    fn rivals() {
        let marked = |value: &str| json!({"metadata": {"annotations": {MANAGED: value}}});
        let foreign = deployment(1, "quay.example/release@sha256:00");
        let found = Some(Rival { image: "quay.example/release@sha256:00".to_owned() });
        assert_eq!(rival(None, None), None);
        assert_eq!(rival(Some(&foreign), None), found);
        assert_eq!(rival(Some(&foreign), Some(&marked("false"))), found);
        assert_eq!(rival(Some(&foreign), Some(&marked("true"))), None);
        assert_eq!(rival(Some(&deployment(0, "quay.example/release")), None), None);
        assert_eq!(rival(Some(&json!({"spec": {}})), None), Some(Rival { image: String::new() }));
    }
}
