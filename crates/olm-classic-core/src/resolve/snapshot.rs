//! The facts of a resolution.

use std::sync::Arc;

use serde_json::Value;

use crate::api::Api;
use crate::properties;
use crate::source::SourceKey;

use super::entry::Content;
use super::error::CatalogFailure;

/// A namespace, with all that a resolution reads.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The namespace of the Subscriptions.
    pub namespace: String,
    /// The namespace whose catalogs every namespace sees.
    pub global_namespace: String,
    /// The OperatorGroups of the namespace.
    pub operator_groups: Vec<OperatorGroup>,
    /// The catalogs; those of other namespaces do not count.
    pub catalogs: Vec<Catalog>,
    /// The CSVs of the namespace; those of other namespaces do not count.
    pub csvs: Vec<Csv>,
    /// The Subscriptions of the namespace.
    pub subscriptions: Vec<Subscription>,
}

/// An OperatorGroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorGroup {
    /// Its name.
    pub name: String,
    /// True if `spec.upgradeStrategy` is `TechPreviewUnsafeFailForward` (OLM0-UPG-16).
    pub fails_forward: bool,
    /// True if the annotation that hides the global catalogs is `true` (OLM0-RES-01).
    pub excludes_global: bool,
}

/// The annotation that hides the global catalogs from a namespace.
pub const EXCLUDE_GLOBAL: &str = "olm.operatorframework.io/exclude-global-namespace-resolution";

impl OperatorGroup {
    /// Reads a group from its name, the annotation [`EXCLUDE_GLOBAL`] and its `spec`.
    pub fn read(name: &str, excludes: Option<&str>, spec: &Value) -> Self {
        Self {
            name: name.to_owned(),
            fails_forward: spec["upgradeStrategy"] == "TechPreviewUnsafeFailForward",
            excludes_global: excludes == Some("true"),
        }
    }
}

/// A CatalogSource.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// Its name and namespace.
    pub key: SourceKey,
    /// `spec.priority`.
    pub priority: i64,
    /// The content, or the reason why it cannot be read.
    pub content: Result<Arc<Content>, CatalogFailure>,
}

/// A ClusterServiceVersion on the cluster.
#[derive(Debug, Clone, Default)]
pub struct Csv {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// `spec.version` as written; empty is 0.0.0.
    pub version: String,
    /// `spec.replaces`.
    pub replaces: String,
    /// `status.phase`.
    pub phase: String,
    /// True if it is the copy of a CSV of another namespace.
    pub copied: bool,
    /// The annotation `operatorframework.io/properties`.
    pub properties: Option<String>,
    /// `spec.customresourcedefinitions.owned`: name `<plural>.<group>`, version, kind.
    pub owned_crds: Vec<(String, String, String)>,
    /// `spec.customresourcedefinitions.required`.
    pub required_crds: Vec<(String, String, String)>,
    /// `spec.apiservicedefinitions.owned`.
    pub owned_api_services: Vec<Api>,
    /// `spec.apiservicedefinitions.required`.
    pub required_api_services: Vec<Api>,
}

/// A Subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// `spec.name`, the package.
    pub package: String,
    /// `spec.channel`; empty is any.
    pub channel: String,
    /// `spec.source` and `spec.sourceNamespace`.
    pub catalog: SourceKey,
    /// `spec.startingCSV`.
    pub starting_csv: String,
    /// `status.installedCSV`.
    pub installed_csv: String,
    /// `status.currentCSV`.
    pub current_csv: String,
}

impl Csv {
    /// Reads a CSV from its place, the annotation with its properties, its `spec` and its phase.
    pub fn read((namespace, name): (&str, &str), properties: Option<&str>, spec: &Value, phase: &Value) -> Self {
        let list = |section: &str, side: &str| spec[section][side].as_array().cloned().unwrap_or_default();
        let crds = |side| {
            let entries = list("customresourcedefinitions", side);
            entries.iter().map(|crd| (text(&crd["name"]), text(&crd["version"]), text(&crd["kind"]))).collect()
        };
        let apis = |side| {
            let entries = list("apiservicedefinitions", side);
            entries.iter().map(|api| Api { group: text(&api["group"]), version: text(&api["version"]), kind: text(&api["kind"]) }).collect()
        };
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            version: text(&spec["version"]),
            replaces: text(&spec["replaces"]),
            phase: text(phase),
            copied: false,
            properties: properties.map(str::to_owned),
            owned_crds: crds("owned"),
            required_crds: crds("required"),
            owned_api_services: apis("owned"),
            required_api_services: apis("required"),
        }
    }

    /// Reads a CSV as the API has it, in this phase.
    pub fn of(object: &Value, phase: &str) -> Self {
        let metadata = &object["metadata"];
        let properties = metadata["annotations"][properties::ANNOTATION].as_str();
        Self::read((&text(&metadata["namespace"]), &text(&metadata["name"])), properties, &object["spec"], &phase.into())
    }
}

impl Subscription {
    /// Reads a Subscription.
    pub fn read(object: &Value) -> Self {
        let (spec, status) = (&object["spec"], &object["status"]);
        Self {
            name: text(&object["metadata"]["name"]),
            package: text(&spec["name"]),
            channel: text(&spec["channel"]),
            catalog: SourceKey { name: text(&spec["source"]), namespace: text(&spec["sourceNamespace"]) },
            starting_csv: text(&spec["startingCSV"]),
            installed_csv: text(&status["installedCSV"]),
            current_csv: text(&status["currentCSV"]),
        }
    }
}

impl Snapshot {
    /// The namespaces whose catalogs count, the preferred one first (OLM0-RES-01).
    pub fn namespaces(&self) -> Vec<&str> {
        let mut namespaces = vec![self.namespace.as_str()];
        // With several groups the step resolver refuses before this counts.
        if !self.operator_groups.iter().any(|group| group.excludes_global) {
            namespaces.push(&self.global_namespace);
        }
        namespaces
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
