//! A release that was loaded, and may be applied.

use std::borrow::Cow;
use std::collections::BTreeSet;

use mainstay_api::config_v1::{Architecture, Release};
use mainstay_cluster_version_core::wanted::Wanted;
use mainstay_release::{Files, Load, LoadError, Manifest, Payload};
use serde_json::Value;

use crate::pass::is_cluster_operator;

/// The prefix of the annotations with the profiles that a manifest is for.
const INCLUDE: &str = "include.release.openshift.io/";
/// The value of such an annotation that keeps a manifest from the cluster, and gives it to the Cluster Config Operator.
const FOR_THE_CONFIG_OPERATOR: &str = "false-except-for-the-config-operator";

/// The cluster as releases are filtered for it when they are loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// The profile of the cluster.
    pub profile: String,
    /// The identifier of the installation whose exclusions count.
    pub exclude_identifier: String,
    /// The feature set; empty for the default one.
    pub feature_set: String,
}

/// A release that was loaded.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The wish that it fulfils.
    pub wanted: Wanted,
    payload: Payload,
    /// The FeatureGates of the release, one for each feature set.
    feature_gates: Vec<Value>,
    /// The capabilities that are enabled so that nothing is orphaned (CVO-CAP-05).
    pub implied: BTreeSet<String>,
}

impl Accepted {
    /// Loads a release from its files.
    pub fn load(wanted: Wanted, files: &Files, circumstances: &Circumstances) -> Result<Self, LoadError> {
        let Circumstances { profile, exclude_identifier, feature_set } = circumstances;
        let known = mainstay_release::Capabilities::all();
        let load =
            Load { image: &wanted.image, profile, exclude_identifier, feature_set, known_capabilities: Some(&known), place: &wanted.image };
        let payload = Payload::load(files, load)?;
        let feature_gates = feature_gates(&payload, profile);
        Ok(Self { wanted, payload: payload.packed(), feature_gates, implied: BTreeSet::new() })
    }

    /// The pullspec.
    pub fn image(&self) -> &str {
        &self.payload.image
    }

    /// The version that the release says of itself.
    pub fn version(&self) -> &str {
        &self.payload.metadata.version_text
    }

    /// The time at which the release was made.
    pub fn created(&self) -> Option<jiff::Timestamp> {
        self.payload.references.created.as_ref()?.parse().ok()
    }

    /// The manifests, in the order in which they are loaded.
    pub fn manifests(&self) -> &[Manifest] {
        &self.payload.manifests
    }

    /// The fingerprint of the manifests.
    pub fn version_hash(&self) -> &str {
        &self.payload.version_hash
    }

    /// The release as a ClusterVersion shows it.
    pub fn release(&self) -> Release {
        let metadata = &self.payload.metadata;
        Release {
            architecture: (metadata.architecture == mainstay_release::Architecture::Multi).then_some(Architecture::Multi),
            version: metadata.version_text.clone(),
            image: self.payload.image.clone(),
            url: metadata.url.clone().unwrap_or_default(),
            channels: metadata.channels.clone(),
        }
    }

    /// The architecture as events name it.
    pub fn architecture(&self) -> &'static str {
        match self.payload.metadata.architecture {
            mainstay_release::Architecture::Multi => "Multi",
            mainstay_release::Architecture::Single => go_architecture(),
        }
    }

    /// The ClusterOperators that the release describes, with the versions that they must reach.
    pub fn cluster_operators(&self) -> impl Iterator<Item = Cow<'_, Value>> {
        self.manifests().iter().filter(|manifest| is_cluster_operator(manifest)).map(Manifest::object)
    }

    /// The release's manifests about its operators: their ClusterOperators, and the FeatureGates of its feature sets.
    pub fn told(&self) -> impl Iterator<Item = Value> {
        self.cluster_operators().map(Cow::into_owned).chain(self.feature_gates.iter().cloned())
    }
}

/// The FeatureGates that say which features each feature set has (COP-07). They are applied to no cluster: their annotation is for the Cluster
/// Config Operator alone.
fn feature_gates(payload: &Payload, profile: &str) -> Vec<Value> {
    let excluded = payload.excluded.iter().map(|(manifest, _)| manifest);
    let is_gate = |manifest: &&Manifest| {
        let id = manifest.id();
        (id.group.as_str(), id.kind.as_str()) == ("config.openshift.io", "FeatureGate")
    };
    let objects = payload.manifests.iter().chain(excluded).filter(is_gate).map(|manifest| manifest.object().into_owned());
    objects.filter(|object| object.pointer("/status/featureGates").is_some() && is_for(object, profile)).collect()
}

/// Returns whether a FeatureGate is for the clusters of a profile, or for all.
fn is_for(object: &Value, profile: &str) -> bool {
    let annotations = object["metadata"]["annotations"].as_object();
    let mut included = annotations.into_iter().flatten().filter_map(|(name, value)| Some((name.strip_prefix(INCLUDE)?, value))).peekable();
    included.peek().is_none() || included.any(|(name, value)| name == profile && (value == "true" || value == FOR_THE_CONFIG_OPERATOR))
}

/// The processor that this program was built for, in Go's spelling.
pub fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// COP-07: FeatureGates that are for the Cluster Config Operator alone count for their profile.
    #[test]
    fn feature_gates_by_profile() {
        let gate = |annotations: Value| json!({"metadata": {"name": "cluster", "annotations": annotations}});
        for (annotations, is_here) in [
            (json!({}), true),
            (json!({"include.release.openshift.io/one": "false-except-for-the-config-operator"}), true),
            (json!({"include.release.openshift.io/one": "true", "include.release.openshift.io/other": "false"}), true),
            (json!({"include.release.openshift.io/other": "false-except-for-the-config-operator"}), false),
            (json!({"include.release.openshift.io/one": "false"}), false),
        ] {
            assert_eq!(is_for(&gate(annotations.clone()), "one"), is_here, "{annotations}");
        }
        assert!(is_for(&json!({"metadata": {"name": "cluster"}}), "one"));
    }
}
