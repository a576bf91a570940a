//! The document that `mainstay plan -o json` prints and that a saved plan holds. Names are stable.

use mainstay_api::lifecycle::BundleRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::revision::InstalledBundle;

/// The complete effect of a change of one subject (MS-PLAN-01).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preview {
    /// The subject's name.
    #[serde(rename = "extension")]
    pub subject: String,
    /// True if the change can be applied or there is nothing to do.
    #[serde(rename = "doable")]
    pub applicable: bool,
    /// Objects that the command itself writes before the cluster acts: the extension, its namespace, the account and its permissions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Object>,
    /// The permissions that the installer's account gains, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "installerRights")]
    pub installer_permissions: Vec<String>,
    /// The server's answers to the command's own writes as a dry run, if it was asked (MS-PLAN-03).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verification: Vec<Verification>,
    /// The update path: the bundles that the cluster installs, one after the other (OLM1-UPG-06, OLM1-UPG-07). The last one stays.
    pub steps: Vec<Step>,
}

/// One bundle of the path, and the complete effect of installing it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// The kind of the change.
    pub kind: Kind,
    /// The bundle that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Bundle>,
    /// The bundle that is installed before the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Bundle>,
    /// The reasons for choosing this bundle, most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The reason why the step cannot be applied; absent if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Bundles that it needs and that no extension asks for yet: they are installed together with it, dependencies first (OLM1-INST-04).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// The approval that it waits for; absent if it waits for none (MS-POL-01).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Every object, with the effect on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Object>,
    /// CRDs that are created, changed or deleted, with the effect on custom resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub custom_resource_definitions: Vec<CrdChange>,
    /// Permissions that the operator's accounts gain, as rules in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "rightsGained")]
    pub permissions_gained: Vec<String>,
    /// Permissions that they lose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "rightsLost")]
    pub permissions_lost: Vec<String>,
    /// Images that are pulled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Webhooks and APIServices that are added, changed or removed: everything that can block other requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_extensions: Vec<String>,
    /// Workloads that stop or restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restart>,
    /// Permissions and webhooks of the bundle for resources that this cluster does not serve now. Optional parts of an operator look like that,
    /// too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_served: Vec<String>,
    /// Warnings that a person should read although nothing is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The server's answer to each change as a dry run, if it was asked (MS-PLAN-03).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verification: Vec<Verification>,
}

/// The kind of the change that a step makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// There is nothing to do.
    #[default]
    Nothing,
    /// Nothing is installed yet.
    Install,
    /// Another bundle or other content is installed.
    Upgrade,
    /// The installed content is repaired.
    Repair,
    /// The installed content is removed.
    Uninstall,
    /// The change cannot be applied.
    Refused,
}

/// A bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct Bundle {
    pub package: String,
    pub name: String,
    pub version: String,
    pub image: String,
    /// Empty if it is not known any more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub catalog: String,
}

impl Bundle {
    /// Returns a bundle that is named elsewhere.
    pub fn named(bundle: &BundleRef) -> Self {
        let BundleRef { package, name, version, image, catalog } = bundle.clone();
        Self { package, name, version, image, catalog }
    }

    /// Returns the bundle of a record.
    pub fn installed(bundle: &InstalledBundle) -> Self {
        let InstalledBundle { package, name, version, reference } = bundle.clone();
        Self { package, name, version, image: reference, catalog: String::new() }
    }
}

/// A bundle that is installed together with another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Dependency {
    /// The bundle.
    pub bundle: Bundle,
    /// The bundles that need it, each with what it is needed for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

/// An approval that a change waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Approval {
    /// The ChangePlan that has to be approved; absent if the cluster does not keep it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_plan: Option<String>,
    /// The reasons why an approval is needed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// True if dependencies that it installs are the only reason.
    #[serde(skip)]
    pub for_dependencies: bool,
}

/// A problem because of which a step cannot be applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Problem {
    /// The obstacle, in the words of the condition.
    pub message: String,
    /// Further facts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// Alternatives that work; each was tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The hints that were tried: a command, and its effect.
    #[serde(skip)]
    pub tried: Vec<(String, String)>,
    /// True if no catalog has the package at all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_package: bool,
}

/// An object, and the effect on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct Object {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// The effect on the object.
    pub change: Change,
    /// The owner, if it is not the extension: `ClusterExtension other`, or `nobody`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The reason for the change, if it needs an explanation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The fields that change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// Number of changed fields that `fields` does not name.
    #[serde(skip_serializing_if = "is_zero")]
    pub fields_omitted: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The effect of a change on an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Change {
    /// It is managed by another owner, and is in the way.
    Conflicting,
    /// The effect is unknown: the object cannot be read, or the plan ended before it was looked up.
    Unknown,
    /// It is deleted.
    Deleted,
    /// It exists and becomes the extension's.
    Adopted,
    /// It changes.
    Changed,
    /// It is created.
    Created,
    /// It is no longer part of the bundle, and stays.
    Kept,
    /// It is as wanted.
    #[default]
    Unchanged,
}

impl Change {
    /// Returns true if the object is written or deleted.
    pub fn is_one(self) -> bool {
        matches!(self, Self::Created | Self::Changed | Self::Adopted | Self::Deleted)
    }
}

/// A field that changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FieldChange {
    /// The field's path: `.spec.template.spec.containers[name=manager].image`.
    pub path: String,
    /// The current value; absent if the field is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The future value; absent if the field is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// A CRD that is created, changed or deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdChange {
    /// Its name.
    pub name: String,
    /// The effect on the CRD.
    pub change: Change,
    /// Changes of its schema that the upgrade check refuses (OLM1-CRD-02), one a line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Changes of the versions: `v1beta1 is no longer served`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// The custom resources that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<Existing>,
    /// The reason why the existing custom resources are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_unknown: Option<String>,
}

/// The custom resources of a CRD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Existing {
    /// Number of custom resources.
    pub count: usize,
    /// Number of custom resources checked against the new schema; if there are very many, only the first.
    pub checked: usize,
    /// Custom resources that are valid now and would become invalid: `namespace/name: why`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<String>,
    /// Number of invalid custom resources; `invalid` names the first of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub invalid_count: usize,
    /// Custom resources with data in fields that the new schema prunes: `namespace/name: fields`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losing: Vec<String>,
    /// Number of custom resources that lose data; `losing` names the first of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub losing_count: usize,
    /// Checks that were skipped, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An image that is pulled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// The image reference as written.
    pub reference: String,
    /// The users of the image: `the bundle`, `Deployment work/widgets, container manager`.
    pub used_by: Vec<String>,
    /// Its digest and size.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub size: Option<ImageSize>,
    /// The reason why digest and size are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_unknown: Option<String>,
}

/// Digest and size of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSize {
    /// The digest that the registry returns for the reference now.
    pub digest: String,
    /// Size of its layers in bytes, as they are transferred.
    pub size: u64,
}

/// A workload whose pods restart or stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Restart {
    /// The workload: `Deployment work/widgets`.
    pub workload: String,
    /// The reason for the restart.
    pub because: String,
}

/// The server's answer to one change as a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Verification {
    /// The change: `create Deployment work/widgets`.
    pub step: String,
    /// The identity that asked: the acting account, or the user with the reason for not using the account.
    pub asked_as: String,
    /// True if the change was accepted; absent if the server could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// The server's words, or the reason why it was not asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub answer: String,
}

impl std::fmt::Display for Change {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.pad(match self {
            Self::Conflicting => "conflict",
            Self::Unknown => "unknown",
            Self::Deleted => "delete",
            Self::Adopted => "adopt",
            Self::Created => "create",
            Self::Changed => "change",
            Self::Kept => "keep",
            Self::Unchanged => "unchanged",
        })
    }
}

impl std::fmt::Display for FieldChange {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |value: &Option<serde_json::Value>| {
            let Some(value) = value else { return "nothing".to_owned() };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let line = text.lines().next().unwrap_or_default();
            let cut: String = line.chars().take(80).collect();
            if cut.len() < text.len() { format!("{cut}...") } else { cut }
        };
        write!(out, "{} {} -> {}", self.path, short(&self.from), short(&self.to))
    }
}
