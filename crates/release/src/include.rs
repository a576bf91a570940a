//! Which manifests belong to a cluster (CVO-INC-01 to CVO-INC-06).

use std::collections::BTreeSet;

use mainstay_golang::quote;

use crate::capability::{Capabilities, named};
use crate::manifest::{Manifest, ManifestId};

/// The annotation with the capabilities that a manifest needs.
pub(crate) const CAPABILITY: &str = "capability.openshift.io/name";
const FEATURE_SET: &str = "release.openshift.io/feature-set";
const FEATURE_GATE: &str = "release.openshift.io/feature-gate";
const MAJOR_VERSION: &str = "release.openshift.io/major-version";
const EXCLUDE: &str = "exclude.release.openshift.io/";
const INCLUDE: &str = "include.release.openshift.io/";

/// The filters of one cluster. Each that is absent excludes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// The identifier of the installation whose exclusions count, e.g. `internal-openshift-hosted`.
    pub exclude_identifier: Option<&'a str>,
    /// The feature set of the cluster; empty for the default one.
    pub feature_set: Option<&'a str>,
    /// The profile of the cluster.
    pub profile: Option<&'a str>,
    /// The capabilities of the cluster.
    pub capabilities: Option<&'a Capabilities>,
    /// Let capabilities through that the release does not know.
    pub allow_unknown_capabilities: bool,
    /// The entries of `spec.overrides`.
    pub overrides: &'a [Override],
    /// The filters that came after 4.19 (CVO-INC-03), off by default.
    pub gates: Gates<'a>,
}

/// Filters of later releases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gates<'a> {
    /// The feature gates that are on.
    pub enabled: Option<&'a BTreeSet<String>>,
    /// The major version of the release.
    pub major_version: Option<u64>,
}

/// An entry of `spec.overrides`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
#[derive(Default)]
#[allow(missing_docs, reason = "the fields are those of the object")]
pub struct Override {
    pub kind: String,
    pub group: String,
    pub namespace: String,
    pub name: String,
    pub unmanaged: bool,
}

/// A feature set that annotations may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of the API")]
pub enum FeatureSet {
    CustomNoUpgrade,
    Default,
    DevPreviewNoUpgrade,
    /// Of releases after 4.19.
    Okd,
    TechPreviewNoUpgrade,
}

impl FeatureSet {
    const ALL: [Self; 5] = [Self::CustomNoUpgrade, Self::Default, Self::DevPreviewNoUpgrade, Self::Okd, Self::TechPreviewNoUpgrade];

    /// Returns the name in annotations.
    pub fn name(self) -> &'static str {
        match self {
            Self::CustomNoUpgrade => "CustomNoUpgrade",
            Self::Default => "Default",
            Self::DevPreviewNoUpgrade => "DevPreviewNoUpgrade",
            Self::Okd => "OKD",
            Self::TechPreviewNoUpgrade => "TechPreviewNoUpgrade",
        }
    }
}

/// The reason why a manifest does not belong to a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Exclusion {
    /// It has no annotations at all.
    #[error("no annotations")]
    NoAnnotations,
    /// It is excluded from this kind of installation.
    #[error("{EXCLUDE}{0}=true")]
    Identifier(String),
    /// It names a feature set that does not exist.
    #[error("unrecognized value {} in {FEATURE_SET}={value}; known values are: {}", quote(.name), names(*.gated))]
    UnknownFeatureSet {
        /// The unknown name.
        name: String,
        /// The whole annotation.
        value: String,
        /// True if the filters of later releases are on, which know more.
        gated: bool,
    },
    /// It is for other feature sets.
    #[error("{} is required, and {FEATURE_SET}={}", quote(.wanted), .found.join(","))]
    FeatureSet {
        /// The feature set of the cluster.
        wanted: String,
        /// The feature sets of the manifest, sorted.
        found: Vec<String>,
    },
    /// It names feature sets and feature gates.
    #[error(
        "both feature set and feature gate annotations are present: manifests may specify either a feature set or a feature gate, but not both"
    )]
    SetAndGate,
    /// A feature gate is on that must be off.
    #[error("feature gate {0} is enabled but manifest requires it to be disabled")]
    GateOn(String),
    /// A feature gate is off that must be on.
    #[error("feature gate {0} is required but not enabled")]
    GateOff(String),
    /// It asks for a major version, and is of a kind that cannot.
    #[error("major version filtering is only supported for feature gates and custom resources")]
    MajorVersionKind,
    /// A major version that is no number.
    #[error("invalid {list} major version {quoted} in annotation: strconv.ParseUint: parsing {quoted}: {problem}", quoted = quote(.text))]
    MajorVersionSyntax {
        /// `included` or `excluded`.
        list: &'static str,
        /// The text.
        text: String,
        /// The problem, in Go's words.
        problem: &'static str,
    },
    /// A major version is asked for and ruled out at once.
    #[error("inclusion and exclusion requirements overlap: [{}]", .0.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))]
    MajorVersionOverlap(Vec<u64>),
    /// The major version is ruled out.
    #[error("major version {0} matches excluded version {0}")]
    MajorVersionExcluded(u64),
    /// The major version is not among those asked for.
    #[error("major version {0} does not match any required versions")]
    MajorVersion(u64),
    /// It does not name the profile.
    #[error("{INCLUDE}{0} unset")]
    Profile(String),
    /// It names the profile with another value than `true`.
    #[error("unrecognized value {INCLUDE}{profile}={value}")]
    ProfileValue {
        /// The profile.
        profile: String,
        /// The value.
        value: String,
    },
    /// It needs capabilities that the release does not know.
    #[error("unrecognized capability names: {}", .0.join(", "))]
    UnknownCapabilities(Vec<String>),
    /// It needs capabilities that are off.
    #[error("disabled capabilities: {}", .0.join(", "))]
    DisabledCapabilities(Vec<String>),
    /// The administrator manages the object (CVO-OVR-01).
    #[error("overridden")]
    Overridden,
}

fn names(gated: bool) -> String {
    FeatureSet::ALL.iter().filter(|set| gated || **set != FeatureSet::Okd).map(|set| set.name()).collect::<Vec<_>>().join(",")
}

impl Filter<'_> {
    /// Returns the first reason why the manifest does not belong to the cluster, in the order of CVO-INC-01.
    pub fn exclusion(&self, manifest: &Manifest) -> Option<Exclusion> {
        self.check(manifest).err()
    }

    fn check(&self, manifest: &Manifest) -> Result<(), Exclusion> {
        if !manifest.has_annotations() {
            return Err(Exclusion::NoAnnotations);
        }
        if let Some(identifier) = self.exclude_identifier
            && manifest.annotation(&format!("{EXCLUDE}{identifier}")) == Some("true")
        {
            return Err(Exclusion::Identifier(identifier.to_owned()));
        }
        self.feature_sets(manifest)?;
        if let Some(enabled) = self.gates.enabled {
            feature_gates(enabled, manifest)?;
        }
        if let Some(version) = self.gates.major_version {
            major_version(version, manifest)?;
        }
        if let Some(profile) = self.profile {
            match manifest.annotation(&format!("{INCLUDE}{profile}")) {
                None => return Err(Exclusion::Profile(profile.to_owned())),
                Some("true") => {}
                Some(value) => return Err(Exclusion::ProfileValue { profile: profile.to_owned(), value: value.to_owned() }),
            }
        }
        if let Some(capabilities) = self.capabilities {
            self.capabilities(capabilities, manifest)?;
        }
        match self.overrides.iter().find(|entry| entry.is_about(manifest.id())) {
            Some(entry) if entry.unmanaged => Err(Exclusion::Overridden),
            _ => Ok(()),
        }
    }

    fn feature_sets(&self, manifest: &Manifest) -> Result<(), Exclusion> {
        let Some(wanted) = self.feature_set else { return Ok(()) };
        let Some(value) = manifest.annotation(FEATURE_SET) else { return Ok(()) };
        let gated = self.gates.enabled.is_some();
        if gated && manifest.annotation(FEATURE_GATE).is_some() {
            return Err(Exclusion::SetAndGate);
        }
        let known = |name: &str| FeatureSet::ALL.iter().any(|set| set.name() == name && (gated || *set != FeatureSet::Okd));
        let mut found = BTreeSet::new();
        for name in value.split(',') {
            if !known(name) {
                return Err(Exclusion::UnknownFeatureSet { name: name.to_owned(), value: value.to_owned(), gated });
            }
            found.insert(name);
        }
        let wanted = if wanted.is_empty() { FeatureSet::Default.name() } else { wanted };
        if found.contains(wanted) {
            return Ok(());
        }
        Err(Exclusion::FeatureSet { wanted: wanted.to_owned(), found: found.into_iter().map(str::to_owned).collect() })
    }

    fn capabilities(&self, capabilities: &Capabilities, manifest: &Manifest) -> Result<(), Exclusion> {
        let named = named(manifest);
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let (known, unknown): (Vec<&str>, Vec<&str>) =
            named.into_iter().partition(|name| self.allow_unknown_capabilities || capabilities.known.contains(*name));
        if !unknown.is_empty() {
            return Err(Exclusion::UnknownCapabilities(owned(unknown)));
        }
        let disabled = capabilities.disabled(&known);
        if disabled.is_empty() { Ok(()) } else { Err(Exclusion::DisabledCapabilities(owned(disabled))) }
    }
}

impl Override {
    /// Returns whether the entry names the object. The namespace of an entry for a cluster-wide object counts for nothing (CVO-INC-02).
    pub fn is_about(&self, id: &ManifestId) -> bool {
        let namespace = if id.namespace.is_empty() { "" } else { &self.namespace };
        (&self.group, &self.kind, &self.name, namespace) == (&id.group, &id.kind, &id.name, &id.namespace)
    }
}

/// The parts of a list of requirements; `-` in front asks for the contrary.
fn requirements(list: &str) -> impl Iterator<Item = (bool, &str)> {
    list.split(',').map(str::trim).filter(|one| !one.is_empty()).map(|one| match one.strip_prefix('-') {
        Some(rest) => (false, rest),
        None => (true, one),
    })
}

fn feature_gates(enabled: &BTreeSet<String>, manifest: &Manifest) -> Result<(), Exclusion> {
    for (on, gate) in requirements(manifest.annotation(FEATURE_GATE).unwrap_or_default()) {
        match (on, enabled.contains(gate)) {
            (true, false) => return Err(Exclusion::GateOff(gate.to_owned())),
            (false, true) => return Err(Exclusion::GateOn(gate.to_owned())),
            _ => {}
        }
    }
    Ok(())
}

fn major_version(version: u64, manifest: &Manifest) -> Result<(), Exclusion> {
    let Some(list) = manifest.annotation(MAJOR_VERSION) else { return Ok(()) };
    let kind = (manifest.id().group.as_str(), manifest.id().kind.as_str());
    if !matches!(kind, ("config.openshift.io", "FeatureGate") | ("apiextensions.k8s.io", "CustomResourceDefinition")) {
        return Err(Exclusion::MajorVersionKind);
    }
    let (mut included, mut excluded) = (BTreeSet::new(), BTreeSet::new());
    for (wanted, text) in requirements(list) {
        let set = if wanted { &mut included } else { &mut excluded };
        set.insert(number(text).map_err(|problem| Exclusion::MajorVersionSyntax {
            list: if wanted { "included" } else { "excluded" },
            text: text.to_owned(),
            problem,
        })?);
    }
    let both: Vec<u64> = included.intersection(&excluded).copied().collect();
    if !both.is_empty() {
        return Err(Exclusion::MajorVersionOverlap(both));
    }
    if included.contains(&version) {
        return Ok(());
    }
    if excluded.contains(&version) {
        return Err(Exclusion::MajorVersionExcluded(version));
    }
    if included.is_empty() { Ok(()) } else { Err(Exclusion::MajorVersion(version)) }
}

/// Reads a number as Go's `ParseUint` does.
fn number(text: &str) -> Result<u64, &'static str> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("invalid syntax");
    }
    text.parse().map_err(|_| "value out of range")
}
