//! The validator `alpha-deprecated-apis`: APIs that newer versions of Kubernetes no longer serve.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use mainstay_versions::Version;
use serde_json::Value;

use super::finding::Finding;
use super::manifests::{CsvManifest, Manifests};
use super::{Options, go, rules};

/// Kinds that Kubernetes 1.22 removed, by `apiVersion`; CRDs are distinguished by their form.
const REMOVED_IN_1_22: [(&str, &[&str]); 11] = [
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"]),
    ("rbac.authorization.k8s.io/v1beta1", &["Role", "ClusterRoleBinding", "RoleBinding", "ClusterRole"]),
    ("apiregistration.k8s.io/v1beta1", &["APIService"]),
    ("authentication.k8s.io/v1beta1", &["TokenReview"]),
    ("authorization.k8s.io/v1beta1", &["LocalSubjectAccessReview", "SelfSubjectAccessReview", "SubjectAccessReview"]),
    ("admissionregistration.k8s.io/v1beta1", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
    ("coordination.k8s.io/v1beta1", &["Lease"]),
    ("extensions/v1beta1", &["Ingress"]),
    ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"]),
    ("storage.k8s.io/v1beta1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
    ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"]),
];

/// APIs that Kubernetes 1.25 removed: `apiVersion`, kind, group, resource.
const REMOVED_IN_1_25: [(&str, &str, &str, &str); 7] = [
    ("batch/v1beta1", "CronJob", "batch", "cronjobs"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice", "discovery.k8s.io", "endpointslices"),
    ("events.k8s.io/v1beta1", "Event", "events.k8s.io", "events"),
    ("autoscaling/v2beta1", "HorizontalPodAutoscaler", "autoscaling", "horizontalpodautoscalers"),
    ("policy/v1beta1", "PodDisruptionBudget", "policy", "poddisruptionbudgets"),
    ("policy/v1beta1", "PodSecurityPolicy", "policy", "podsecuritypolicies"),
    ("node.k8s.io/v1beta1", "RuntimeClass", "node.k8s.io", "runtimeclasses"),
];

/// The release of Kubernetes that removed a kind in this version of its API; `None` if it is still served or is not a kind of Kubernetes.
pub fn removed_in(api_version: &str, kind: &str) -> Option<&'static str> {
    if REMOVED_IN_1_22.iter().any(|(version, kinds)| *version == api_version && kinds.contains(&kind)) {
        return Some("1.22");
    }
    if api_version == "apiextensions.k8s.io/v1beta1" && kind == "CustomResourceDefinition" {
        return Some("1.22");
    }
    if REMOVED_IN_1_25.iter().any(|(version, removed, ..)| *version == api_version && *removed == kind) {
        return Some("1.25");
    }
    (api_version == "autoscaling/v2beta2" && kind == "HorizontalPodAutoscaler").then_some("1.26")
}

/// Names of objects by kind or resource, and the file of the first one.
#[derive(Default)]
pub(super) struct Found<'a> {
    names: BTreeMap<String, Vec<String>>,
    file: Option<&'a str>,
}

impl<'a> Found<'a> {
    fn add(&mut self, key: &str, name: String, file: &'a str) {
        self.names.entry(key.to_owned()).or_default().push(name);
        self.file.get_or_insert(file);
    }

    /// Returns whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// `CRD: (["a" "b"]),Role: (["c"])`; upstream leaves the order open and may end with a comma.
    pub(super) fn words(&self) -> String {
        let entries: Vec<String> = self.names.iter().map(|(key, names)| format!("{key}: ({})", go::quoted_list(names))).collect();
        entries.join(",")
    }
}

pub(super) fn validate(manifests: &Manifests, options: &Options<'_>) -> Vec<Finding> {
    let Some(csv) = &manifests.csv else { return Vec::new() };
    let name = csv.csv.name.as_str();
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    let asked = options.values.get("k8s-version").map_or("", String::as_str);
    let target = Version::parse_tolerant(asked).ok();
    if target.is_none() && !asked.is_empty() {
        let detail = format!("invalid value informed via the k8s key option : {asked}");
        errors.push(Finding::error(&rules::REMOVED_API_VERSION, name, detail));
    }
    let minimum = Version::parse_tolerant(&csv.csv.min_kube_version).ok();
    if minimum.is_none() && !csv.csv.min_kube_version.is_empty() {
        let detail = format!(
            "unable to use csv.Spec.MinKubeVersion to verify the CRD/Webhook apis because it has an invalid value: {}",
            csv.csv.min_kube_version
        );
        errors.push(Finding::error(&rules::REMOVED_API_VERSION, name, detail).at(&csv.file, "spec.minKubeVersion"));
    }
    let reaches = |minor| {
        let removal = Version::new(1, minor, 0);
        [&target, &minimum].iter().any(|version| version.as_ref().is_some_and(|version| version.cmp_precedence(&removal) != Ordering::Less))
    };
    let message = |minor, found: &Found<'_>| {
        format!(
            "this bundle is using APIs which were deprecated and removed in v1.{minor}. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-{minor}. Migrate the API(s) for {}",
            found.words()
        )
    };
    let (removed, may_be_used) = removed_in_1_25(manifests, csv);
    for (minor, found, level) in
        [(22, removed_in_1_22(manifests), true), (25, removed, true), (25, may_be_used, false), (26, removed_in_1_26(manifests), true)]
    {
        if found.is_empty() {
            continue;
        }
        let grave = level && reaches(minor);
        let new = if grave { Finding::error } else { Finding::warning };
        let finding = new(&rules::REMOVED_API, name.to_owned(), message(minor, &found)).at(found.file.unwrap_or(&csv.file), "");
        if grave { errors.push(finding) } else { warnings.push(finding) }
    }
    errors.extend(warnings);
    errors
}

/// CRDs of the older form, and objects of removed kinds.
pub(super) fn removed_in_1_22(manifests: &Manifests) -> Found<'_> {
    let mut found = Found::default();
    for crd in &manifests.old_crds {
        found.add("CRD", crd.name().to_owned(), &crd.file);
    }
    for object in &manifests.objects {
        let removed = REMOVED_IN_1_22.iter().any(|(version, kinds)| *version == object.api_version() && kinds.contains(&object.kind()));
        if removed {
            found.add(object.kind(), object.name().to_owned(), &object.file);
        }
    }
    found
}

/// Removed kinds that are used, and resources that the operator may use in a removed version.
fn removed_in_1_25<'a>(manifests: &'a Manifests, csv: &'a CsvManifest) -> (Found<'a>, Found<'a>) {
    let mut removed = Found::default();
    let mut may_be = Found::default();
    let is_removed =
        |version: &str, kind: &str| REMOVED_IN_1_25.iter().any(|(removed, removed_kind, ..)| *removed == version && *removed_kind == kind);
    for object in &manifests.objects {
        if object.api_version() != "operators.coreos.com/v1alpha1" {
            if is_removed(object.api_version(), object.kind()) {
                removed.add(object.kind(), object.name().to_owned(), &object.file);
            }
        } else if object.kind() == "ClusterServiceVersion" {
            let mut told: BTreeSet<String> = BTreeSet::new();
            for (key, field) in [("owned", "Owned"), ("required", "Required")] {
                for (index, crd) in list(&csv.csv.object["spec"]["customresourcedefinitions"][key]).iter().enumerate() {
                    for (inner, resource) in list(&crd["resources"]).iter().enumerate() {
                        let text = |key: &str| resource[key].as_str().unwrap_or_default();
                        told.insert(format!("{}s", text("kind").to_lowercase()));
                        if is_removed(text("version"), text("kind")) {
                            let name = format!("ClusterServiceVersion.Spec.CustomResourceDefinitions.{field}[{index}].Resource[{inner}]");
                            removed.add(text("kind"), name, &object.file);
                        }
                    }
                }
            }
            for (field, permissions) in [("ClusterPermissions", &csv.csv.cluster_permissions), ("Permissions", &csv.csv.permissions)] {
                for (index, permission) in permissions.iter().enumerate() {
                    for (inner, rule) in list(&permission.entry["rules"]).iter().enumerate() {
                        for group in list(&rule["apiGroups"]).iter().filter_map(Value::as_str) {
                            for resource in list(&rule["resources"]).iter().filter_map(Value::as_str) {
                                let known = REMOVED_IN_1_25.iter().any(|(_, _, known, plural)| *known == group && *plural == resource);
                                if known && !told.contains(resource) {
                                    let name =
                                        format!("ClusterServiceVersion.Spec.InstallStrategy.StrategySpec.{field}[{index}].Rules[{inner}]");
                                    may_be.add(resource, name, &object.file);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    (removed, may_be)
}

fn removed_in_1_26(manifests: &Manifests) -> Found<'_> {
    let mut found = Found::default();
    for object in manifests.objects.iter().filter(|object| object.api_version() == "autoscaling/v2beta2") {
        if object.kind() == "HorizontalPodAutoscaler" {
            found.add(object.kind(), object.name().to_owned(), &object.file);
        }
    }
    found
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
