//! `lifecycle.mainstay.dev/v1alpha1`: what cluster owners decide beside the original APIs (MS-POL-01, MS-POL-02).
//!
//! Without a [`LifecyclePolicy`] everything behaves as `docs/spec/olm-v1.md` says.

use std::collections::BTreeMap;
use std::fmt;

use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Serialize};

/// The annotation of a ClusterExtension that was made along with a change: the [`ChangePlan`] whose approval covers its first install,
/// where [`ChangePlanSpec::approved_dependencies`] names it.
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
/// A policy concerns an object that installs a package, such as a ClusterExtension, when one of its `subjects` is of that kind, one of its
/// `packages` matches the package, *and* the object carries all of its `matchLabels`. Where several concern one object, the strictest approval
/// counts, and dependencies are planned only when at least one says `Plan` and none says `Refuse`; a field that a policy does not set says
/// nothing. Repairs of what is installed never wait.
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
    /// The kinds of objects that it is about; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub subjects: Vec<SubjectKind>,
    /// The packages that it is about, by name, `*` for any text; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9*]([-a-z0-9.*]*[a-z0-9*])?$")))]
    pub packages: Vec<String>,
    /// The labels of the objects that it is about; none means all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// What becomes of a bundle with dependencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve_dependencies: Option<ResolveDependencies>,
    /// Which changes wait for an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
}

/// A kind of objects whose lifecycle a policy is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "named by what they are")]
pub struct SubjectKind {
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
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
    printcolumn = r#"{"name":"Subject","type":"string","jsonPath":".spec.subject.name"}"#,
    printcolumn = r#"{"name":"Kind","type":"string","jsonPath":".spec.subject.kind","priority":1}"#,
    printcolumn = r#"{"name":"From","type":"string","jsonPath":".spec.from.version"}"#,
    printcolumn = r#"{"name":"To","type":"string","jsonPath":".spec.to.version"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[schemars(transform = keep_former_name)]
#[schemars(extend("x-kubernetes-validations" = [
    {"message": "subject is required", "rule": "has(self.subject) || has(self.extension)"},
    {"message": "approvedDigest must be the plan's digest", "rule": "!has(self.approvedDigest) || self.approvedDigest == self.digest"},
    {"message": "a plan is immutable but for its approval", "rule": "self.digest == oldSelf.digest && (has(oldSelf.subject) ? has(self.subject) && self.subject == oldSelf.subject : (has(self.subject) ? self.subject.name : self.extension.name) == oldSelf.extension.name && (has(self.subject) ? self.subject.uid : self.extension.uid) == oldSelf.extension.uid) && self.to == oldSelf.to && has(self.from) == has(oldSelf.from) && (!has(self.from) || self.from == oldSelf.from) && has(self.summary) == has(oldSelf.summary) && (!has(self.summary) || self.summary == oldSelf.summary)"}
]))]
pub struct ChangePlanSpec {
    /// The object whose content changes. Plans of earlier versions call it `extension`, and mean a ClusterExtension.
    #[serde(alias = "extension")]
    pub subject: Subject,
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
    /// The extensions that the approval lets install the bundles that this change depends on, each this very one.
    #[serde(default, rename = "approvedAlong", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 200))]
    pub approved_dependencies: Vec<DependencyRef>,
}

/// A ClusterExtension that installs a dependency of a change, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "named by what they are")]
pub struct DependencyRef {
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

/// The object whose lifecycle is meant, this very one: a later object of the same name has another uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = name_the_kind)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct Subject {
    #[serde(default = "former_api_version")]
    #[schemars(length(max = 317))]
    pub api_version: String,
    #[serde(default = "former_kind")]
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
    #[schemars(length(max = 253))]
    pub name: String,
    #[schemars(length(max = 64))]
    pub uid: String,
}

impl fmt::Display for Subject {
    /// `clusterextension widgets`, `subscription work/widgets`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase();
        if self.namespace.is_empty() { write!(out, "{kind} {}", self.name) } else { write!(out, "{kind} {}/{}", self.namespace, self.name) }
    }
}

/// Subjects of earlier versions name no kind: there was one.
fn former_api_version() -> String {
    "olm.operatorframework.io/v1".to_owned()
}

/// See [`former_api_version`].
fn former_kind() -> String {
    "ClusterExtension".to_owned()
}

/// Only a former subject may leave its kind out, and that stands in `extension`.
fn name_the_kind(schema: &mut Schema) {
    let Some(map) = schema.as_object_mut() else { return };
    for field in ["apiVersion", "kind"] {
        if let Some(property) = map.get_mut("properties").and_then(|all| all.get_mut(field)).and_then(|one| one.as_object_mut()) {
            property.remove("default");
        }
    }
    map.insert("required".to_owned(), serde_json::json!(["apiVersion", "kind", "name", "uid"]));
}

/// Keeps `spec.extension` in the schema, which is what stored plans of earlier versions call their subject: a schema without it would prune it.
fn keep_former_name(schema: &mut Schema) {
    let former = json_schema!({
        "type": "object",
        "description": "The ClusterExtension of a plan that an earlier version made; newer ones have a subject.",
        "properties": {"name": {"type": "string", "maxLength": 253}, "uid": {"type": "string", "maxLength": 64}},
        "required": ["name", "uid"],
    });
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(properties) = map.get_mut("properties").and_then(|all| all.as_object_mut()) {
        properties.insert("extension".to_owned(), former.to_value());
    }
    if let Some(required) = map.get_mut("required").and_then(|all| all.as_array_mut()) {
        required.retain(|name| name != "subject");
    }
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
    #[serde(rename = "rightsGained")]
    pub permissions_gained: Vec<String>,
    /// Rights that they lose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 201), inner(length(max = 1100)))]
    #[serde(rename = "rightsLost")]
    pub permissions_lost: Vec<String>,
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
            &mut self.permissions_gained,
            &mut self.permissions_lost,
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
    /// The cluster changed since; another plan took its place.
    Superseded,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// MS-POL-01: a plan that an earlier version stored names its ClusterExtension as `extension`; it is read as a subject, and written as one.
    #[test]
    fn stored_plans_of_earlier_versions_are_read() {
        let stored = json!({"extension": {"name": "widgets", "uid": "u1"}, "digest": "d", "to": {"package": "p", "name": "p.v1", "version": "1.0.0"}});
        let spec: ChangePlanSpec = serde_json::from_value(stored).unwrap();
        assert_eq!(spec.subject.to_string(), "clusterextension widgets");
        let written = serde_json::to_value(&spec).unwrap();
        let subject = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "widgets", "uid": "u1"});
        assert_eq!((&written["subject"], &written["extension"]), (&subject, &serde_json::Value::Null));
        let both = json!({"subject": subject, "extension": {"name": "widgets", "uid": "u1"}, "digest": "d", "to": {}});
        assert!(serde_json::from_value::<ChangePlanSpec>(both).is_err());
    }
}
