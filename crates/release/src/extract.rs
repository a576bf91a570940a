//! The files that `oc adm release extract` writes (CVO-RELX-01, CVO-RELX-03).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::capability::{Baseline, Capabilities, KNOWN, UnknownBaseline, implied};
use crate::files::{Files, Folder};
use crate::include::{Filter, Override};
use crate::info::{FileError, read_references};
use crate::manifest::{self, Manifest, ManifestError};
use crate::payload::is_manifest;

/// The kind of `spec.providerSpec` of each cloud's CredentialsRequests.
const CLOUDS: [(&str, &str); 10] = [
    ("alibabacloud", "AlibabaCloudProviderSpec"),
    ("aws", "AWSProviderSpec"),
    ("azure", "AzureProviderSpec"),
    ("gcp", "GCPProviderSpec"),
    ("ibmcloud", "IBMCloudProviderSpec"),
    ("nutanix", "NutanixProviderSpec"),
    ("openstack", "OpenStackProviderSpec"),
    ("ovirt", "OvirtProviderSpec"),
    ("powervs", "IBMCloudPowerVSProviderSpec"),
    ("vsphere", "VSphereProviderSpec"),
];
/// The profile of a cluster that an install-config describes.
const PROFILE: &str = "self-managed-high-availability";

/// The names of the clouds.
pub fn clouds() -> impl Iterator<Item = &'static str> {
    CLOUDS.iter().map(|(name, _)| *name)
}

/// The manifests that are asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only CredentialsRequests.
    pub credentials_requests: bool,
    /// Only CredentialsRequests of this cloud, among CredentialsRequests.
    pub cloud: Option<String>,
    /// Only what belongs to this cluster.
    pub included: Option<Inclusion>,
}

/// A cluster, as far as it decides which manifests belong to it; what is not known excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inclusion {
    /// The feature set; empty for the default one.
    pub feature_set: Option<String>,
    /// The cluster profile.
    pub profile: Option<String>,
    /// The capabilities.
    pub capabilities: Option<Capabilities>,
    /// Objects that the cluster version operator leaves alone.
    pub overrides: Vec<Override>,
    /// The cloud.
    pub platform: Option<String>,
}

/// A cluster that an install-config describes, and what its reader should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The cluster.
    pub inclusion: Inclusion,
    /// Notes.
    pub notes: Vec<String>,
}

/// A request that cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// The install-config is not YAML.
    #[error("failed to parse {path}: {error}")]
    InstallConfig {
        /// The file.
        path: String,
        /// The reason.
        error: mainstay_yaml::Error,
    },
    /// The install-config has another version.
    #[error("unrecognized {path} API version: {} (expected \"v1\")", mainstay_golang::quote(.version))]
    Version {
        /// The file.
        path: String,
        /// Its version.
        version: String,
    },
    /// A set of capabilities that is not known.
    #[error("unrecognized baselineCapabilitySet {}", mainstay_golang::quote(.0))]
    Baseline(String),
    /// A cloud that has no CredentialsRequests.
    #[error("unrecognized platform for CredentialsRequests: {}", mainstay_golang::quote(.0))]
    Platform(String),
    /// Two clouds.
    #[error("--cloud {} set, but {context} has {}", mainstay_golang::quote(.cloud), mainstay_golang::quote(.found))]
    Clouds {
        /// The cloud that was asked for.
        cloud: String,
        /// Where the other one comes from.
        context: String,
        /// The other one.
        found: String,
    },
    /// A CredentialsRequest whose kind of provider is no text.
    #[error("error extracting cred request kind: .spec.providerSpec.kind accessor error: {0} is of the type {1}, expected string")]
    ProviderKind(String, &'static str),
    /// The list of images is not one.
    #[error("unable to load image-references from release payload: {0}")]
    References(FileError),
}

/// A manifest file that is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing {file}: {}", told(.error))]
pub struct LeftOut {
    file: String,
    error: ManifestError,
}

/// The sentence of Go's library for a text that is no YAML.
fn told(error: &ManifestError) -> String {
    match error {
        ManifestError::Syntax(syntax) if syntax.problem.starts_with("invalid map key") => {
            format!("error parsing: error converting YAML to JSON: yaml: {}", syntax.problem)
        }
        ManifestError::Syntax(syntax) => {
            format!("error parsing: error converting YAML to JSON: yaml: line {}: {}", syntax.line, syntax.problem)
        }
        other => other.to_string(),
    }
}

/// What is written.
#[derive(Clone, Debug, Default)]
pub struct Extracted {
    /// The files, by name.
    pub files: Vec<(String, Vec<u8>)>,
    /// Files that cannot be read.
    pub left_out: Vec<LeftOut>,
}

impl Extracted {
    /// Returns the sentence about the files that cannot be read.
    pub fn errors(&self) -> Option<String> {
        match self.left_out.as_slice() {
            [] => None,
            [only] => Some(format!("Errors: {only}")),
            several => {
                let lines: Vec<String> = several.iter().map(|error| format!("* {error}")).collect();
                Some(format!("Errors: \n\n{}\n", lines.join("\n")))
            }
        }
    }
}

/// Returns the files that are asked for. `context` names where the cluster's description comes from.
pub fn extract(files: &Files, wanted: &Wanted, context: &str) -> Result<Extracted, ExtractError> {
    let mut provider = wanted.cloud.as_deref().and_then(provider_of);
    if let Some(platform) = wanted.included.as_ref().and_then(|included| included.platform.as_deref()) {
        if let Some(cloud) = wanted.cloud.as_deref().filter(|cloud| *cloud != platform) {
            return Err(ExtractError::Clouds { cloud: cloud.to_owned(), context: context.to_owned(), found: platform.to_owned() });
        }
        provider = Some(provider_of(platform).ok_or_else(|| ExtractError::Platform(platform.to_owned()))?);
    }
    let filter = wanted.included.as_ref().map(|included| Filter {
        feature_set: included.feature_set.as_deref(),
        profile: included.profile.as_deref(),
        capabilities: included.capabilities.as_ref(),
        overrides: &included.overrides,
        ..Filter::default()
    });
    let mut extracted = Extracted::default();
    for (name, content) in files.in_folder(Folder::Release) {
        let is_references = name == "image-references";
        if (is_references || name == "release-metadata") && !wanted.credentials_requests {
            if is_references {
                read_references(content).map_err(ExtractError::References)?;
            }
            extracted.files.push((name.to_owned(), content.to_vec()));
            continue;
        }
        if !is_manifest(name) {
            continue;
        }
        let manifests = match manifest::parse(name, content) {
            Ok(manifests) => manifests,
            Err(error) => {
                extracted.left_out.push(LeftOut { file: name.to_owned(), error });
                continue;
            }
        };
        let mut written = String::new();
        for manifest in &manifests {
            let belongs = filter.as_ref().is_none_or(|filter| {
                // Requests for people who make the Secrets themselves may have no annotations.
                wanted.credentials_requests && is_credentials_request(manifest) && has_no_annotations(manifest)
                    || filter.exclusion(manifest).is_none()
            });
            if belongs && (!wanted.credentials_requests || is_wanted(manifest, provider)?) {
                written.push_str("---\n");
                written.push_str(&mainstay_yaml::to_string(&manifest.object()));
            }
        }
        if !written.is_empty() {
            extracted.files.push((name.to_owned(), written.into_bytes()));
        }
    }
    Ok(extracted)
}

fn provider_of(cloud: &str) -> Option<&'static str> {
    CLOUDS.iter().find(|(name, _)| *name == cloud).map(|(_, kind)| *kind)
}

fn is_credentials_request(manifest: &Manifest) -> bool {
    let id = manifest.id();
    id.group == "cloudcredential.openshift.io" && manifest.version() == "v1" && id.kind == "CredentialsRequest"
}

fn has_no_annotations(manifest: &Manifest) -> bool {
    !manifest.has_annotations() || manifest.annotations().as_object().is_none_or(serde_json::Map::is_empty)
}

/// Returns whether it is a CredentialsRequest of the cloud.
fn is_wanted(manifest: &Manifest, provider: Option<&str>) -> Result<bool, ExtractError> {
    if !is_credentials_request(manifest) {
        return Ok(false);
    }
    let Some(provider) = provider else { return Ok(true) };
    match &manifest.object()["spec"]["providerSpec"]["kind"] {
        Value::Null => Ok(false),
        Value::String(kind) => Ok(kind == provider),
        other => Err(ExtractError::ProviderKind(mainstay_golang::value::plain(other), mainstay_golang::value::type_name(other))),
    }
}

impl Described {
    /// Reads an install-config.
    pub fn of_install_config(path: &str, text: &str) -> Result<Self, ExtractError> {
        let config = mainstay_yaml::parse(text).map_err(|error| ExtractError::InstallConfig { path: path.to_owned(), error })?;
        let version = config["apiVersion"].as_str().unwrap_or_default();
        if version != "v1" {
            return Err(ExtractError::Version { path: path.to_owned(), version: version.to_owned() });
        }
        let mut described = Self {
            inclusion: Inclusion {
                feature_set: Some(config["featureSet"].as_str().unwrap_or_default().to_owned()),
                profile: Some(PROFILE.to_owned()),
                platform: config["platform"].as_object().and_then(|platforms| platforms.keys().next_back().cloned()),
                ..Inclusion::default()
            },
            notes: Vec::new(),
        };
        if let Value::Object(capabilities) = &config["capabilities"] {
            let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
            let set = text(capabilities.get("baselineCapabilitySet"));
            let unknown = || ExtractError::Baseline(set.clone());
            // Unlike in a ClusterVersion, a set must be named.
            let baseline = if set.is_empty() { Err(unknown()) } else { Baseline::parse(&set).map_err(|UnknownBaseline { .. }| unknown()) }?;
            let note = |what: &str| {
                format!("If the eventual cluster will not be the same minor version as this unknown 'oc', the {what} may differ.")
            };
            if set == "vCurrent" {
                described.notes.push(note("actual vCurrent capability set"));
            }
            described.notes.push(note("known capability sets"));
            let more = capabilities.get("additionalEnabledCapabilities").and_then(Value::as_array).into_iter().flatten();
            let enabled = baseline.members().map(str::to_owned).chain(more.filter_map(Value::as_str).map(str::to_owned)).collect();
            described.inclusion.capabilities = Some(known(enabled));
        }
        Ok(described)
    }
}

/// Capabilities of which 4.19 knows all.
fn known(enabled: BTreeSet<String>) -> Capabilities {
    Capabilities { known: KNOWN.iter().map(|&name| name.to_owned()).collect(), enabled, implicitly_enabled: BTreeSet::new() }
}

impl Inclusion {
    /// Takes the capabilities of a newer release as they would be implicitly enabled by an update to it (CVO-RELX-03): those that objects, which
    /// the cluster has today, move behind. Files that cannot be read count for nothing.
    pub fn imply(&mut self, update: &Files, current: &Files) {
        let filter = Filter { feature_set: self.feature_set.as_deref(), profile: self.profile.as_deref(), ..Filter::default() };
        let manifests = |files: &Files| -> Vec<Manifest> {
            let read = files.in_folder(Folder::Release).filter(|(name, _)| is_manifest(name));
            let all = read.flat_map(|(name, content)| manifest::parse(name, content).unwrap_or_default());
            all.filter(|manifest| filter.exclusion(manifest).is_none()).collect()
        };
        let (update, current) = (manifests(update), manifests(current));
        if let Some(capabilities) = &mut self.capabilities {
            let implied = implied(&update, &current, capabilities);
            capabilities.known.extend(implied.iter().cloned());
            capabilities.imply(implied);
        }
    }

    /// Reads a cluster's objects: FeatureGate `cluster`, ClusterVersion, Infrastructure `cluster` and the operator's Deployment.
    pub fn of_cluster(
        feature_gate: &Value,
        cluster_version: &Value,
        infrastructure: &Value,
        deployment: &Value,
    ) -> Result<Self, ClusterError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names = |value: &Value| -> BTreeSet<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let status = &cluster_version["status"]["capabilities"];
        let mut capabilities = Capabilities {
            known: names(&status["knownCapabilities"]),
            enabled: names(&status["enabledCapabilities"]),
            implicitly_enabled: BTreeSet::new(),
        };
        let version = text(&cluster_version["status"]["desired"]["version"]);
        match version.split('.').collect::<Vec<_>>().as_slice() {
            // Every update from 4.13 switches it on.
            ["4", "13", _, ..] => {
                capabilities.known.insert("MachineAPI".to_owned());
                capabilities.enabled.insert("MachineAPI".to_owned());
            }
            [major, minor, _, ..] if [major, minor].iter().all(|part| part.parse::<u64>().is_ok()) => {}
            _ => return Err(ClusterError::Version(version)),
        }
        if infrastructure["status"]["platformStatus"].is_null() {
            return Err(ClusterError::Platform(mainstay_golang::value::plain(&infrastructure["status"])));
        }
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
        let variables = containers.flat_map(|container| container["env"].as_array().into_iter().flatten());
        let overrides = cluster_version["spec"]["overrides"].clone();
        Ok(Self {
            feature_set: Some(text(&feature_gate["spec"]["featureSet"])),
            profile: variables
                .filter(|variable| variable["name"] == "CLUSTER_PROFILE")
                .map(|variable| text(&variable["value"]))
                .next_back(),
            capabilities: Some(capabilities),
            overrides: if overrides.is_null() {
                Vec::new()
            } else {
                serde_json::from_value(overrides).map_err(|_| ClusterError::Overrides)?
            },
            platform: Some(text(&infrastructure["status"]["platformStatus"]["type"]).to_lowercase()),
        })
    }
}

/// A cluster whose objects do not say what is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// Its version is none.
    #[error("failed to parse major.minor version from ClusterVersion status.desired.version {}", mainstay_golang::quote(.0))]
    Version(String),
    /// Its platform is not known.
    #[error("cluster infrastructure does not declare status.platformStatus: {0}")]
    Platform(String),
    /// The overrides have another form.
    #[error("the overrides of ClusterVersion version cannot be read")]
    Overrides,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn files(manifests: &[(&str, &str)]) -> Files {
        let mut files = Files::default();
        for (name, capability) in manifests {
            let mut object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n", "annotations": {"a": "b"}}});
            if !capability.is_empty() {
                object["metadata"]["annotations"]["capability.openshift.io/name"] = (*capability).into();
            }
            files.add(&format!("release-manifests/{name}.yaml"), object.to_string().into_bytes()).unwrap();
        }
        files
    }

    /// CVO-RELX-03: a capability that the cluster does not know is taken as enabled if an object of today moves behind it, and only then.
    #[test]
    fn new_capabilities() {
        let (update, current) =
            (files(&[("moved", "New"), ("added", "Other"), ("off", "Console")]), files(&[("moved", ""), ("off", "Console")]));
        let known = BTreeSet::from(["Console".to_owned(), "Build".to_owned()]);
        let capabilities = Capabilities { known, enabled: BTreeSet::from(["Build".to_owned()]), implicitly_enabled: BTreeSet::new() };
        let mut included = Inclusion { capabilities: Some(capabilities), ..Inclusion::default() };
        let names = |included: &Inclusion| -> Vec<String> {
            let wanted = Wanted { included: Some(included.clone()), ..Wanted::default() };
            extract(&update, &wanted, "").unwrap().files.into_iter().map(|(name, _)| name).collect()
        };
        assert!(names(&included).is_empty());
        included.imply(&update, &current);
        assert_eq!(names(&included), ["moved.yaml"]);
    }
}
