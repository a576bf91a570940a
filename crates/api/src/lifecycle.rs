//! `lifecycle.mainstay.dev/v1alpha1`: what cluster owners decide beside the original APIs (MS-POL-01, MS-POL-02).
//!
//! Without a [`LifecyclePolicy`] everything behaves as `docs/spec/olm-v1.md` says.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The annotation of a ClusterExtension that was made along with a change: the [`ChangePlan`] whose approval covers its first install,
/// where [`ChangePlanSpec::approved_along`] names it.
pub const CHANGE_PLAN: &str = "lifecycle.mainstay.dev/change-plan";

/// The annotation of a ClusterExtension that lets a bundle change CRDs although existing objects may lose data (OLM1-CRD-07): `Warn`, or
/// `Warn:` and the names of the bundles that may, separated by commas.
pub const CRD_UPGRADE_SAFETY: &str = "lifecycle.mainstay.dev/crd-upgrade-safety";

/// The annotation of a ClusterExtension whose namespace is made where it is missing (OLM1-API-02); its only value is `Create`.
pub const MISSING_NAMESPACE: &str = "lifecycle.mainstay.dev/missing-namespace";

/// The annotation of a ClusterExtension that says what stays when it is deleted (OLM1-INST-15): `Orphan`, everything; `OrphanCRDs`, its CRDs and
/// so all custom resources.
pub const ON_DELETE: &str = "lifecycle.mainstay.dev/on-delete";

/// The annotation of a ClusterCatalog with a pull secret of its own (OLM1-CAT-20): the name of a Secret of type
/// `kubernetes.io/dockerconfigjson` in the controllers' namespace.
pub const PULL_SECRET: &str = "lifecycle.mainstay.dev/pull-secret";

/// The annotation of a namespace that was made for a ClusterExtension: the extension's name.
pub const MADE_FOR: &str = "lifecycle.mainstay.dev/made-for";

/// What the cluster's owners allow without being asked.
///
/// A policy concerns a ClusterExtension when one of its `packages` matches the package *and* the extension carries all of its
/// `matchLabels`. Where several concern one extension, the strictest approval counts, and dependencies are planned only when at least one
/// says `Plan` and none says `Refuse`; a field that a policy does not set says nothing. Repairs of what is installed never wait.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "lifecycle.mainstay.dev",
    version = "v1alpha1",
    kind = "LifecyclePolicy",
    plural = "lifecyclepolicies",
    singular = "lifecyclepolicy",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name":"Dependencies","type":"string","jsonPath":".spec.resolveDependencies"}"#,
    printcolumn = r#"{"name":"Approval","type":"string","jsonPath":".spec.approval"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct LifecyclePolicySpec {
    /// The packages that it is about, by name, `*` for any text; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9*]([-a-z0-9.*]*[a-z0-9*])?$")))]
    pub packages: Vec<String>,
    /// The labels of the ClusterExtensions that it is about; none means all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// What becomes of a bundle with dependencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve_dependencies: Option<ResolveDependencies>,
    /// Which changes wait for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
}

/// What becomes of a bundle with dependencies (OLM1-INST-04).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ResolveDependencies {
    /// It is refused, with what is missing; as upstream.
    #[default]
    Refuse,
    /// Extensions resolve together, and what is missing becomes part of the plan.
    Plan,
}

/// Which changes wait for an approval; the later ones include the earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Approval {
    /// None.
    #[default]
    Automatic,
    /// Upgrades that grant more than the installed version has.
    RightsIncrease,
    /// Every install and every upgrade.
    Always,
}

/// A change that waits for an approval. An approval holds for this very change: for its digest.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "lifecycle.mainstay.dev",
    version = "v1alpha1",
    kind = "ChangePlan",
    plural = "changeplans",
    singular = "changeplan",
    status = "ChangePlanStatus",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{"name":"Extension","type":"string","jsonPath":".spec.extension.name"}"#,
    printcolumn = r#"{"name":"From","type":"string","jsonPath":".spec.from.version"}"#,
    printcolumn = r#"{"name":"To","type":"string","jsonPath":".spec.to.version"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[schemars(extend("x-kubernetes-validations" = [
    {"message": "approvedDigest must be the plan's digest", "rule": "!has(self.approvedDigest) || self.approvedDigest == self.digest"},
    {"message": "a plan is immutable but for its approval", "rule": "self.digest == oldSelf.digest && self.extension == oldSelf.extension && self.to == oldSelf.to && has(self.from) == has(oldSelf.from) && (!has(self.from) || self.from == oldSelf.from) && has(self.summary) == has(oldSelf.summary) && (!has(self.summary) || self.summary == oldSelf.summary)"}
]))]
pub struct ChangePlanSpec {
    /// Whose change it is.
    pub extension: ExtensionRef,
    /// What the change comes to; another change has another digest.
    #[schemars(length(max = 80))]
    pub digest: String,
    /// What is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<BundleRef>,
    /// What will be.
    pub to: BundleRef,
    /// What a person needs to know to decide.
    #[serde(default, skip_serializing_if = "ChangeSummary::is_empty")]
    pub summary: ChangeSummary,
    /// The approval: the digest, repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub approved_digest: Option<String>,
    /// The extensions that the approval lets install the bundles that come along, each this very one; whoever approves names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub approved_along: Vec<AlongRef>,
}

/// A ClusterExtension that installs a bundle along with a change, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "named by what they are")]
pub struct AlongRef {
    #[schemars(length(max = 253))]
    pub name: String,
    #[schemars(length(max = 64))]
    pub uid: String,
    #[schemars(length(max = 253))]
    pub package: String,
    #[schemars(length(max = 63))]
    pub namespace: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub service_account: String,
}

/// A ClusterExtension, this very one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct ExtensionRef {
    #[schemars(length(max = 253))]
    pub name: String,
    #[schemars(length(max = 64))]
    pub uid: String,
}

/// A bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct BundleRef {
    #[schemars(length(max = 1000))]
    pub package: String,
    #[schemars(length(max = 1000))]
    pub name: String,
    #[schemars(length(max = 1000))]
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1000))]
    pub image: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1000))]
    pub catalog: String,
}

/// What a change does, in lines for people. Each list is cut where it would become too long, and says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChangeSummary {
    /// Rights that the bundle's accounts gain, as rules in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 201), inner(length(max = 1100)))]
    pub rights_gained: Vec<String>,
    /// Rights that they lose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 201), inner(length(max = 1100)))]
    pub rights_lost: Vec<String>,
    /// CRDs that are created, changed or deleted, with what the change does to custom resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 201), inner(length(max = 1100)))]
    pub custom_resource_definitions: Vec<String>,
    /// Images that will run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 201), inner(length(max = 1100)))]
    pub images: Vec<String>,
    /// Objects with what happens to them, and the fields that change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 201), inner(length(max = 1100)))]
    pub changes: Vec<String>,
    /// Bundles that are installed or upgraded along with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub dependencies: Vec<BundleRef>,
    /// What else a person should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 201), inner(length(max = 1100)))]
    pub warnings: Vec<String>,
}

impl ChangeSummary {
    /// How many lines a list may have, the one that says that it was cut not counted.
    pub const LINES: usize = 200;
    /// How long a line may be, in bytes, the mark of a cut not counted.
    pub const LINE: usize = 1000;

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The same within the limits of the API.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        for list in [
            &mut self.rights_gained,
            &mut self.rights_lost,
            &mut self.custom_resource_definitions,
            &mut self.images,
            &mut self.changes,
            &mut self.warnings,
        ] {
            let beyond = list.len().saturating_sub(Self::LINES);
            list.truncate(Self::LINES);
            list.iter_mut().filter(|line| line.len() > Self::LINE).for_each(|line| {
                let end = (0..=Self::LINE).rev().find(|at| line.is_char_boundary(*at)).unwrap_or_default();
                line.truncate(end);
                line.push_str(" ...");
            });
            if beyond > 0 {
                list.push(format!("... and {beyond} more"));
            }
        }
        self
    }
}

/// How far a plan has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChangePlanStatus {
    /// Where it stands.
    pub phase: ChangePlanPhase,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Where a plan stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ChangePlanPhase {
    /// It waits for an approval.
    #[default]
    Pending,
    /// It is approved and about to be done.
    Approved,
    /// It was done.
    Applied,
    /// The world has moved on; another plan took its place.
    Superseded,
}
