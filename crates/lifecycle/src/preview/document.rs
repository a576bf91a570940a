//! The document: what `mainstay plan -o json` prints, and what a saved plan holds. Names are stable.

use mainstay_api::lifecycle::BundleRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::revision::InstalledBundle;

/// Everything that a change of one subject would do (MS-PLAN-01).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preview {
    /// The subject's name.
    #[serde(rename = "extension")]
    pub subject: String,
    /// Whether it can be applied, or there is nothing to do.
    #[serde(rename = "doable")]
    pub applicable: bool,
    /// What the command itself writes before the cluster acts: the extension, its namespace, the account and its rights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Object>,
    /// The rights that the installer's account gets beyond what it has, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub installer_rights: Vec<String>,
    /// What the server answered to what the command itself writes, as a dry run, where it was asked (MS-PLAN-03).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verification: Vec<Verification>,
    /// The update path: what the cluster does, one bundle after the other (OLM1-UPG-06, OLM1-UPG-07). The last one stays.
    pub steps: Vec<Step>,
}

/// One bundle of the path, and everything that installing it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Step {
    /// What kind of change it is.
    pub kind: Kind,
    /// The bundle that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Bundle>,
    /// The bundle that is installed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Bundle>,
    /// Why this bundle, most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Why it cannot be done; absent where it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Bundles that it needs and nobody asked for yet: they are installed along with it, dependencies first (OLM1-INST-04).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// The approval that it waits for; absent where it waits for none (MS-POL-01).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Every object, with what happens to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Object>,
    /// CRDs that are made, changed or deleted, with what that does to custom resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub custom_resource_definitions: Vec<CrdChange>,
    /// Rights that the operator's accounts gain, as rules in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rights_gained: Vec<String>,
    /// Rights that they lose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rights_lost: Vec<String>,
    /// Images that are pulled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Webhooks and APIServices that are added, changed or removed: whatever stands in the way of other requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_extensions: Vec<String>,
    /// What stops or starts anew.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restart>,
    /// Rights and webhooks of the bundle for what this cluster does not serve now. Optional parts of an operator look like that, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_served: Vec<String>,
    /// What a person should know although nothing is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What the server answered to each change as a dry run, where it was asked (MS-PLAN-03).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verification: Vec<Verification>,
}

/// What kind of change a step is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Nothing is to be done.
    #[default]
    Nothing,
    /// Nothing was installed.
    Install,
    /// Another bundle, or other content.
    Upgrade,
    /// What is installed is put right.
    Repair,
    /// It goes.
    Uninstall,
    /// It cannot be done.
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
    /// Empty where it is not known any more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub catalog: String,
}

impl Bundle {
    /// A bundle that is named elsewhere.
    pub fn named(bundle: &BundleRef) -> Self {
        let BundleRef { package, name, version, image, catalog } = bundle.clone();
        Self { package, name, version, image, catalog }
    }

    /// The bundle of a record.
    pub fn installed(bundle: &InstalledBundle) -> Self {
        let InstalledBundle { package, name, version, reference } = bundle.clone();
        Self { package, name, version, image: reference, catalog: String::new() }
    }
}

/// A bundle that is installed along with another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Dependency {
    /// The bundle.
    pub bundle: Bundle,
    /// Who needs it, and what for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<String>,
}

/// An approval that is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Approval {
    /// The ChangePlan that is to be approved; absent where the cluster does not keep it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_plan: Option<String>,
    /// Why somebody has to be asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Whether dependencies that it installs are the only reason.
    #[serde(skip)]
    pub for_dependencies: bool,
}

/// Why a step cannot be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Problem {
    /// What is in the way; the words of the condition.
    pub message: String,
    /// Further facts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// What would work; each was tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    /// The hints that were tried: a command, and what it does.
    #[serde(skip)]
    pub tried: Vec<(String, String)>,
    /// Whether no catalog has the package at all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_package: bool,
}

/// An object, and what happens to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct Object {
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// What happens to it.
    pub change: Change,
    /// Whose it is, where somebody else's: `ClusterExtension other`, or `nobody`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Why it is as it is, where that needs words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The fields that change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// How many more fields change than `fields` names.
    #[serde(skip_serializing_if = "is_zero")]
    pub fields_omitted: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Change {
    /// It belongs to somebody else, and is in the way.
    Conflicting,
    /// It cannot be told: nobody may look, or the plan ended before it was looked at.
    Unknown,
    /// It goes.
    Deleted,
    /// It is there and becomes the extension's.
    Adopted,
    /// It changes.
    Changed,
    /// It is new.
    Created,
    /// The new bundle does not hold it, and it stays.
    Kept,
    /// It is as wanted.
    #[default]
    Unchanged,
}

impl Change {
    /// Whether something happens.
    pub fn is_one(self) -> bool {
        matches!(self, Self::Created | Self::Changed | Self::Adopted | Self::Deleted)
    }
}

/// A field that changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FieldChange {
    /// Where: `.spec.template.spec.containers[name=manager].image`.
    pub path: String,
    /// What stands there now; absent where nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// What will; absent where nothing will.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// A CRD that is made, changed or deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdChange {
    /// Its name.
    pub name: String,
    /// What happens to it.
    pub change: Change,
    /// Changes of its schema that the upgrade check refuses (OLM1-CRD-02), one a line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// How the versions change: `v1beta1 is no longer served`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// The custom resources that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing: Option<Existing>,
    /// Why nobody can tell which custom resources exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub existing_unknown: Option<String>,
}

/// The custom resources of a CRD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Existing {
    /// How many there are.
    pub count: usize,
    /// How many were held against the new schema; with very many, only the first.
    pub checked: usize,
    /// Those that are valid now and would not be any more: `namespace/name: why`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<String>,
    /// How many these are; `invalid` names the first of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub invalid_count: usize,
    /// Those with data in fields that the new schema prunes: `namespace/name: fields`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losing: Vec<String>,
    /// How many these are; `losing` names the first of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub losing_count: usize,
    /// What was not looked at, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// An image that is pulled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// As it is named.
    pub reference: String,
    /// By what: `the bundle`, `Deployment work/widgets, container manager`.
    pub used_by: Vec<String>,
    /// Its digest and size.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub size: Option<ImageSize>,
    /// Why they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_unknown: Option<String>,
}

/// Digest and size of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSize {
    /// What the registry says the reference stands for now.
    pub digest: String,
    /// Bytes of its layers, as they are transferred.
    pub size: u64,
}

/// A workload whose pods start anew, or end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Restart {
    /// `Deployment work/widgets`.
    pub workload: String,
    /// Why.
    pub because: String,
}

/// What the server said to one change as a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Verification {
    /// `create Deployment work/widgets`.
    pub step: String,
    /// Who asked: the acting account, or the user and why not the account.
    pub asked_as: String,
    /// Whether it was accepted; absent where it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// The server's words, or why it was not asked.
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
