//! The first release of a cluster that has none: the objects by which the Cluster Version Operator begins (CVO-RUN-07).

use mainstay_objects::Step;
use mainstay_release::signature::{ReleaseDigest, SignatureConfigMap, release_config_map};
use serde_json::{Value, json};

/// The namespace of the operator.
const NAMESPACE: &str = "openshift-cluster-version";

/// A request for the first release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The pullspec, by digest.
    pub image: String,
    /// The version that the release has.
    pub version: String,
    /// The channel of updates; empty for none.
    pub channel: String,
    /// The update service; `None` for the default one.
    pub update_service: Option<String>,
    /// A signature of the release, as the cluster is to keep it.
    pub signature: Option<(ReleaseDigest, Vec<u8>)>,
    /// The ID of the cluster: a UUID.
    pub cluster_id: String,
    /// The annotation by which the operator knows that the cluster is its own.
    pub managed: &'static str,
}

/// The reason for which a release is not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallRefusal {
    /// The cluster is at a release, or on its way to one.
    #[error("exists already, at {0}")]
    Exists(String),
}

/// The steps that begin an installation; `live` is the ClusterVersion if there is one.
///
/// # Errors
/// There is a ClusterVersion: another release is an update.
pub fn install(live: Option<&Value>, wanted: &Installation) -> Result<Vec<Step>, InstallRefusal> {
    if let Some(live) = live {
        let named = ["/status/desired/version", "/status/desired/image", "/spec/desiredUpdate/image"];
        let at = named.iter().filter_map(|path| live.pointer(path)?.as_str()).find(|text| !text.is_empty());
        return Err(InstallRefusal::Exists(at.unwrap_or("no release").to_owned()));
    }
    let namespace = |name: &str| Step::CreateOnce(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    let mut steps = vec![namespace(NAMESPACE)];
    if let Some((digest, signature)) = &wanted.signature {
        steps.push(namespace(SignatureConfigMap::NAMESPACE));
        steps.push(Step::Apply {
            object: release_config_map(digest, std::slice::from_ref(signature)),
            force: true,
            expect: mainstay_objects::Expect::default(),
        });
    }
    let mut spec = json!({
        "clusterID": wanted.cluster_id, "channel": wanted.channel,
        "desiredUpdate": {"version": wanted.version, "image": wanted.image},
    });
    if let Some(service) = &wanted.update_service {
        spec["upstream"] = json!(service);
    }
    steps.push(Step::Create(json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": {"name": "version", "annotations": {wanted.managed: "true"}}, "spec": spec,
    })));
    Ok(steps)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn wanted() -> Installation {
        Installation {
            image: "registry.example/release@sha256:ab".to_owned(),
            version: "4.18.1".to_owned(),
            channel: "stable-4.18".to_owned(),
            update_service: None,
            signature: None,
            cluster_id: "00000000-0000-4000-8000-000000000000".to_owned(),
            managed: "mainstay.dev/managed",
        }
    }

    /// CVO-RUN-07: the ClusterVersion comes last, so that the operator finds the rest; the signature is where it is looked for (CVO-SIG-06).
    #[test]
    fn steps() {
        let digest = ReleaseDigest::parse("sha256:ab").unwrap();
        let signed = Installation {
            signature: Some((digest, b"x".to_vec())),
            update_service: Some("https://updates.example/graph".to_owned()),
            ..wanted()
        };
        let steps = install(None, &signed).unwrap();
        assert_eq!(steps.len(), 4);
        let Step::Apply { object, .. } = &steps[2] else { unreachable!("{steps:?}") };
        assert_eq!(object["metadata"]["namespace"], "openshift-config-managed");
        assert_eq!(object["binaryData"], json!({"sha256-ab-1": "eA=="}));
        let Some(Step::Create(version)) = steps.last() else { unreachable!("{steps:?}") };
        assert_eq!(
            version["spec"],
            json!({
                "clusterID": "00000000-0000-4000-8000-000000000000", "channel": "stable-4.18", "upstream": "https://updates.example/graph",
                "desiredUpdate": {"version": "4.18.1", "image": "registry.example/release@sha256:ab"},
            })
        );
        let plain = install(None, &wanted()).unwrap();
        assert_eq!(plain.len(), 2, "nothing for signatures without one");
        let Some(Step::Create(version)) = plain.last() else { unreachable!("{plain:?}") };
        assert!(version["spec"].get("upstream").is_none());
    }

    /// CVO-RUN-07: a cluster with a release is not installed again.
    #[test]
    fn refused() {
        for (live, said) in [
            (json!({"status": {"desired": {"version": "4.18.0", "image": "a"}}}), "exists already, at 4.18.0"),
            (json!({"spec": {"desiredUpdate": {"image": "b"}}}), "exists already, at b"),
            (json!({"spec": {}}), "exists already, at no release"),
        ] {
            assert_eq!(install(Some(&live), &wanted()).unwrap_err().to_string(), said);
        }
    }
}
