//! Signatures in ConfigMaps of the cluster (CVO-SIG-06, CVO-SIG-08).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::digest::ReleaseDigest;

/// The namespace of the ConfigMaps.
pub(super) const NAMESPACE: &str = "openshift-config-managed";
/// The label that they have, with any value.
pub(super) const LABEL: &str = "release.openshift.io/verification-signatures";
/// The ConfigMap that keeps what was verified.
const MANAGED: &str = "signatures-managed";

/// A ConfigMap with signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureConfigMap {
    /// Its name.
    pub name: String,
    signatures: BTreeMap<String, Vec<u8>>,
}

impl SignatureConfigMap {
    /// The namespace in which ConfigMaps with signatures are looked for.
    pub const NAMESPACE: &'static str = NAMESPACE;
    /// The label by which they are found.
    pub const LABEL: &'static str = LABEL;
    /// The name of the ConfigMap that keeps what was verified.
    pub const MANAGED: &'static str = MANAGED;

    /// Reads a ConfigMap; `None` if it is in another namespace or lacks the label. Values that are not base64 are left out: the API has none.
    pub fn of(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        if metadata["namespace"] != NAMESPACE || metadata["labels"][LABEL].is_null() {
            return None;
        }
        let decoded = |(key, value): (&String, &Value)| Some((key.clone(), STANDARD.decode(value.as_str()?).ok()?));
        let signatures = object["binaryData"].as_object().into_iter().flatten().filter_map(decoded).collect();
        Some(Self { name: metadata["name"].as_str().unwrap_or_default().to_owned(), signatures })
    }

    /// The signatures of a release: the keys begin with its digest.
    pub fn signatures<'a>(&'a self, digest: &ReleaseDigest) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let prefix = Self::prefix(digest);
        self.signatures.iter().filter(move |(key, _)| key.starts_with(&prefix)).map(|(_, signature)| signature.as_slice())
    }

    /// The beginning of the keys of a release.
    pub fn prefix(digest: &ReleaseDigest) -> String {
        digest.divided_by('-')
    }
}

/// Returns the ConfigMap `signatures-managed`, with the signatures that were verified, by digest.
pub fn managed_config_map(verified: &BTreeMap<ReleaseDigest, Vec<Vec<u8>>>) -> Value {
    config_map(MANAGED, verified.iter().flat_map(|(digest, signatures)| entries(digest, signatures, 0)))
}

/// Returns the ConfigMap with the signatures of one release, as a mirror of releases writes it (CVO-RELM-06).
pub fn release_config_map(digest: &ReleaseDigest, signatures: &[Vec<u8>]) -> Value {
    config_map(&SignatureConfigMap::prefix(digest), entries(digest, signatures, 1))
}

fn entries(digest: &ReleaseDigest, signatures: &[Vec<u8>], first: usize) -> impl Iterator<Item = (String, Value)> {
    let prefix = SignatureConfigMap::prefix(digest);
    signatures.iter().zip(first..).map(move |(signature, number)| (format!("{prefix}-{number}"), json!(STANDARD.encode(signature))))
}

fn config_map(name: &str, entries: impl Iterator<Item = (String, Value)>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": {LABEL: ""}},
        "binaryData": entries.collect::<serde_json::Map<String, Value>>(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-SIG-06, CVO-SIG-08, CVO-SIG-12: what is written is found again, by digest; the names of keys and of the ConfigMap.
    #[test]
    fn what_is_written_is_found() {
        let (one, other) = (ReleaseDigest::parse("sha256:ab").unwrap(), ReleaseDigest::parse("sha256:cd").unwrap());
        let verified = BTreeMap::from([(one.clone(), vec![b"x".to_vec(), b"y".to_vec()]), (other.clone(), vec![b"z".to_vec()])]);
        let written = managed_config_map(&verified);
        assert_eq!(written["metadata"]["name"], "signatures-managed");
        let keys: Vec<&String> = written["binaryData"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["sha256-ab-0", "sha256-ab-1", "sha256-cd-0"]);
        let read = SignatureConfigMap::of(&written).unwrap();
        assert_eq!(read.signatures(&one).collect::<Vec<_>>(), [b"x", b"y"]);
        assert_eq!(read.signatures(&other).collect::<Vec<_>>(), [b"z"]);
        let mirrored = release_config_map(&one, &[b"x".to_vec()]);
        assert_eq!(mirrored["metadata"]["name"], "sha256-ab");
        assert_eq!(mirrored["binaryData"], json!({"sha256-ab-1": "eA=="}));
    }

    /// CVO-SIG-06: other namespaces, and ConfigMaps without the label, do not count; the label's value does not matter.
    #[test]
    fn config_maps_that_do_not_count() {
        let of = |namespace: &str, labels: Value| {
            SignatureConfigMap::of(&json!({
                "metadata": {"namespace": namespace, "name": "a", "labels": labels},
                "binaryData": {"sha256-ab-1": "eA==", "sha256-ab-2": "no base64"},
            }))
        };
        assert!(of("openshift-config", json!({LABEL: ""})).is_none());
        assert!(of(NAMESPACE, json!({"other": ""})).is_none());
        assert!(of(NAMESPACE, Value::Null).is_none());
        let found = of(NAMESPACE, json!({LABEL: "any"})).unwrap();
        assert_eq!(found.signatures(&ReleaseDigest::parse("sha256:ab").unwrap()).count(), 1);
    }
}
