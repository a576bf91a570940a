//! The facts of a resolution.

use std::sync::Arc;

use crate::api::Api;
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
