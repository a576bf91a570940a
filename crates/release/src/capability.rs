//! Optional parts of a cluster (CVO-CAP-01 to CVO-CAP-06).

use std::borrow::Borrow;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::manifest::Manifest;

/// The capabilities of release 4.19 (CVO-CAP-01), sorted.
pub const KNOWN: [&str; 17] = [
    "Build",
    "CSISnapshot",
    "CloudControllerManager",
    "CloudCredential",
    "Console",
    "DeploymentConfig",
    "ImageRegistry",
    "Ingress",
    "Insights",
    "MachineAPI",
    "NodeTuning",
    "OperatorLifecycleManager",
    "OperatorLifecycleManagerV1",
    "Storage",
    "baremetal",
    "marketplace",
    "openshift-samples",
];

/// The additions of each set to the one before it (CVO-CAP-02).
const ADDED: [(Baseline, &[&str]); 9] = [
    (Baseline::None, &[]),
    (Baseline::V4_11, &["baremetal", "marketplace", "openshift-samples", "MachineAPI"]),
    (Baseline::V4_12, &["Console", "Insights", "Storage", "CSISnapshot"]),
    (Baseline::V4_13, &["NodeTuning"]),
    (Baseline::V4_14, &["Build", "DeploymentConfig", "ImageRegistry"]),
    (Baseline::V4_15, &["OperatorLifecycleManager", "CloudCredential"]),
    (Baseline::V4_16, &["Ingress", "CloudControllerManager"]),
    (Baseline::V4_17, &[]),
    (Baseline::V4_18, &["OperatorLifecycleManagerV1"]),
];

/// A named set of capabilities (CVO-CAP-02).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Baseline {
    /// No capability.
    None,
    /// `v4.11`.
    V4_11,
    /// `v4.12`.
    V4_12,
    /// `v4.13`.
    V4_13,
    /// `v4.14`.
    V4_14,
    /// `v4.15`.
    V4_15,
    /// `v4.16`.
    V4_16,
    /// `v4.17`.
    V4_17,
    /// `v4.18`, and `vCurrent` of 4.19.
    V4_18,
}

/// A baseline set of another name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown baseline capability set {0:?}; known are None, v4.11 to v4.18 and vCurrent")]
pub struct UnknownBaseline(String);

impl Baseline {
    /// Reads a name; an empty one stands for `vCurrent`.
    pub fn parse(name: &str) -> Result<Self, UnknownBaseline> {
        Ok(match name {
            "None" => Self::None,
            "v4.11" => Self::V4_11,
            "v4.12" => Self::V4_12,
            "v4.13" => Self::V4_13,
            "v4.14" => Self::V4_14,
            "v4.15" => Self::V4_15,
            "v4.16" => Self::V4_16,
            "v4.17" => Self::V4_17,
            "" | "v4.18" | "vCurrent" => Self::V4_18,
            other => return Err(UnknownBaseline(other.to_owned())),
        })
    }

    /// Returns the members.
    pub fn members(self) -> impl Iterator<Item = &'static str> {
        ADDED.iter().filter(move |(set, _)| *set <= self).flat_map(|(_, names)| names.iter().copied())
    }
}

/// The capabilities of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The capabilities that the release knows.
    pub known: BTreeSet<String>,
    /// The capabilities that are on, the implicitly enabled ones among them.
    pub enabled: BTreeSet<String>,
    /// The capabilities that are on although the spec does not name them (CVO-CAP-04).
    pub implicitly_enabled: BTreeSet<String>,
}

impl Capabilities {
    /// Returns the capabilities of a ClusterVersion's `spec.capabilities` (null if unset) and of what was enabled before, which never goes off
    /// again (CVO-CAP-03, CVO-CAP-04).
    pub fn of(spec: &Value, before: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, UnknownBaseline> {
        let baseline = Baseline::parse(spec["baselineCapabilitySet"].as_str().unwrap_or_default())?;
        let additional = spec["additionalEnabledCapabilities"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut enabled: BTreeSet<String> = baseline.members().map(str::to_owned).chain(additional.map(str::to_owned)).collect();
        let implicitly_enabled: BTreeSet<String> = before.into_iter().map(Into::into).filter(|name| !enabled.contains(name)).collect();
        enabled.extend(implicitly_enabled.iter().cloned());
        Ok(Self { known: KNOWN.iter().map(|&name| name.to_owned()).collect(), enabled, implicitly_enabled })
    }

    /// Returns every known capability, enabled: a release that is loaded with them keeps the manifests of all.
    pub fn all() -> Self {
        let known: BTreeSet<String> = KNOWN.iter().map(|&name| name.to_owned()).collect();
        Self { enabled: known.clone(), known, implicitly_enabled: BTreeSet::new() }
    }

    /// Adds capabilities that must be on so that no managed object is orphaned.
    pub fn imply(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            if self.enabled.insert(name.clone()) {
                self.implicitly_enabled.insert(name);
            }
        }
    }

    /// Returns the capabilities that are off and keep a manifest out.
    pub(crate) fn disabled<'m>(&self, named: &[&'m str]) -> Vec<&'m str> {
        named.iter().copied().filter(|&name| !self.enabled.contains(name)).collect()
    }
}

/// Returns the capabilities that a manifest needs, in the order in which its annotation names them.
pub fn named(manifest: &Manifest) -> Vec<&str> {
    match manifest.annotation(crate::include::CAPABILITY) {
        None | Some("") => Vec::new(),
        Some(list) => list.split('+').collect(),
    }
}

/// Returns the capabilities that must become implicitly enabled before an update (CVO-CAP-05), those of before among them: a manifest that is
/// applied today moves behind one that is off.
pub fn implied(update: &[impl Borrow<Manifest>], current: &[impl Borrow<Manifest>], capabilities: &Capabilities) -> BTreeSet<String> {
    let mut implied = capabilities.implicitly_enabled.clone();
    let mut today = std::collections::BTreeMap::<_, Vec<&Manifest>>::new();
    for manifest in current.iter().map(Borrow::borrow) {
        today.entry(manifest.id()).or_default().push(manifest);
    }
    // A manifest without annotations is never applied, and so orphans nothing.
    let off = |manifest: &Manifest| !manifest.has_annotations() || !capabilities.disabled(&named(manifest)).is_empty();
    for manifest in update.iter().map(Borrow::borrow).filter(|manifest| off(manifest)) {
        for before in today.get(manifest.id()).into_iter().flatten().filter(|before| !off(before)) {
            let (now, before) = (named(manifest), named(before));
            let new = now.iter().filter(|name| !before.contains(name) && !capabilities.enabled.contains(**name));
            implied.extend(new.map(|&name| name.to_owned()));
        }
    }
    implied
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    /// CVO-CAP-02: each set is the one before it, and more; the newest has all known ones.
    #[test]
    fn sets_grow() {
        let of = |name: &str| Baseline::parse(name).unwrap().members().map(str::to_owned).collect::<BTreeSet<_>>();
        let names = ["None", "v4.11", "v4.12", "v4.13", "v4.14", "v4.15", "v4.16", "v4.17", "v4.18"];
        assert_eq!(names.map(|name| of(name).len()), [0, 4, 8, 9, 12, 14, 16, 16, 17]);
        assert!(names.windows(2).all(|pair| of(pair[0]).is_subset(&of(pair[1]))));
        assert_eq!(of("vCurrent"), KNOWN.iter().map(|&name| name.to_owned()).collect());
        assert_eq!((of(""), of("vCurrent")), (of("v4.18"), of("v4.18")));
        assert!(Baseline::parse("v4.9").unwrap_err().to_string().starts_with("unknown baseline capability set \"v4.9\""));
    }

    /// CVO-CAP-03, CVO-CAP-04, CVO-CAP-06: additional ones and those of before count; those of before that the spec does not name are implicit.
    #[test]
    fn nothing_goes_off_again() {
        let spec = json!({"baselineCapabilitySet": "v4.11", "additionalEnabledCapabilities": ["Console"]});
        let capabilities = Capabilities::of(&spec, ["Console", "Storage"]).unwrap();
        assert!(["baremetal", "Console", "Storage"].iter().all(|name| capabilities.enabled.contains(*name)));
        assert_eq!(capabilities.implicitly_enabled, BTreeSet::from(["Storage".to_owned()]));
        let widened = json!({"baselineCapabilitySet": "v4.11", "additionalEnabledCapabilities": ["Console", "Storage"]});
        assert!(Capabilities::of(&widened, ["Console", "Storage"]).unwrap().implicitly_enabled.is_empty());
    }
}
