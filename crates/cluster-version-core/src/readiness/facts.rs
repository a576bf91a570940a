//! The facts that the checks rest on.

use std::collections::BTreeSet;

use jiff::Timestamp;
use mainstay_api::config_v1::ClusterVersion;
use mainstay_diagnostics::SharedError;
use mainstay_lifecycle::preview::CustomResources;
use mainstay_objects::condition;
use mainstay_versions::Version;
use serde_json::Value;

use super::catalogs::{CatalogOperator, NextCatalog};
use super::certificates::CertificateFacts;
use super::images::ImageAnswers;
use crate::plan::Plan;
use crate::upgradeable::ConfigMap;

/// A fact, or why it is not known.
pub type Read<T> = Result<T, SharedError>;

/// The release that the cluster is to get.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// Its version.
    pub version: &'a str,
    /// Its content, which only the checks of content need.
    pub release: Read<Release<'a>>,
}

/// The content of the release.
#[derive(Clone, Debug)]
pub struct Release<'a> {
    /// The plan of the update to it.
    pub plan: &'a Plan,
    /// The version of Kubernetes in it, if it says it.
    pub kubernetes: Option<Version>,
    /// The definitions that it changes.
    pub crds: Vec<CrdFacts>,
}

/// A definition of the cluster that the release has otherwise.
#[derive(Clone, Debug)]
pub struct CrdFacts {
    /// The definition in the cluster.
    pub live: Value,
    /// The definition as the update leaves it.
    pub wanted: Value,
    /// The objects of its kind.
    pub instances: Read<CustomResources>,
}

/// A ClusterServiceVersion with the last minor version that it supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorLimit {
    /// Namespace and name.
    pub name: String,
    /// The minor version, `4.18`, or why it cannot be read.
    pub limit: Result<(u64, u64), SharedError>,
}

/// A pod, as far as drains and capacity ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Namespace and name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// The kind of its controller; none if nothing makes it again.
    pub controller: Option<String>,
    /// True for a static pod.
    pub is_mirror: bool,
    /// True if it has ended.
    pub is_finished: bool,
    /// True if it keeps data in an emptyDir volume that lies on disk.
    pub keeps_local_data: bool,
    /// Processor time that it asks for, in thousandths of a core.
    pub cpu: i128,
    /// Memory that it asks for, in bytes.
    pub memory: i128,
}

/// Facts about the cluster and the update.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The ClusterVersion.
    pub cluster_version: &'a ClusterVersion,
    /// The wanted release.
    pub target: Target<'a>,
    /// The answer to the risks of the wanted release by metrics that were given; none if its condition counts.
    pub answered_risks: Option<Recommended>,
    /// The ClusterOperators.
    pub operators: Read<Vec<Value>>,
    /// The MachineConfigPools.
    pub pools: Read<Vec<Value>>,
    /// The nodes.
    pub nodes: Read<Vec<Value>>,
    /// The pods.
    pub pods: Read<Vec<PodFacts>>,
    /// The PodDisruptionBudgets.
    pub budgets: Read<Vec<Value>>,
    /// The ConfigMap with gates.
    pub gates: ConfigMap,
    /// The ConfigMap with acknowledgments.
    pub acks: ConfigMap,
    /// The operators of OLM that say which versions they support.
    pub operator_limits: Read<Vec<OperatorLimit>>,
    /// Requests to versions that are going to be removed: APIRequestCounts, or the series of the API server's metric.
    pub deprecated_requests: Read<Vec<DeprecatedRequests>>,
    /// The ValidatingWebhookConfigurations and MutatingWebhookConfigurations.
    pub webhooks: Read<Vec<Value>>,
    /// The EndpointSlices, as namespace and Service with whether an endpoint is ready.
    pub ready_services: Read<BTreeSet<(String, String)>>,
    /// The checks of the API server's health that fail.
    pub failing_health: Read<Vec<String>>,
    /// The time of the checks.
    pub now: Timestamp,
    /// Certificates that are presented or trusted.
    pub certificates: Read<Vec<CertificateFacts>>,
    /// The Operators that come from catalogs.
    pub catalog_operators: Read<Vec<CatalogOperator>>,
    /// The catalogs of those Operators whose images change with the release.
    pub next_catalogs: Read<Vec<NextCatalog>>,
    /// The answers of registries about the images of the release.
    pub images: Read<ImageAnswers>,
}

/// The condition Recommended of an update, by answers that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommended {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// Requests to a version of an API that a later Kubernetes does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeprecatedRequests {
    /// The resource: `flowschemas.v1beta3.flowcontrol.apiserver.k8s.io`.
    pub resource: String,
    /// The Kubernetes version without it: `1.32`.
    pub removed_in: String,
    /// The number of requests that are known.
    pub requests: u64,
    /// The users and programs that sent most of them, if they are known.
    pub users: Vec<String>,
}

impl Facts<'_> {
    /// The version that the cluster has.
    pub(super) fn current(&self) -> &str {
        &self.cluster_version.status.desired.version
    }

    /// Returns true if the update leads to another minor version; also if that is not known.
    pub(super) fn is_minor_update(&self) -> bool {
        match (Version::parse(self.current()), Version::parse(self.target.version)) {
            (Ok(from), Ok(to)) => (from.major(), from.minor()) != (to.major(), to.minor()),
            _ => true,
        }
    }
}

/// A copy of an error for a check that needs the fact.
pub(super) fn known<T>(fact: &Read<T>) -> Read<&T> {
    fact.as_ref().map_err(Clone::clone)
}

/// A text field of an object; empty if it is missing.
pub(super) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Namespace and name of an object, or its name alone.
pub(super) fn name(object: &Value) -> String {
    match (text(object, "/metadata/namespace"), text(object, "/metadata/name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// The condition of an object, if it has this status.
pub(super) fn condition_is<'v>(object: &'v Value, kind: &str, status: &str) -> Option<&'v Value> {
    condition(object, kind).filter(|condition| condition["status"] == status)
}

/// Reason and message of a condition, as one text.
pub(super) fn said(condition: &Value) -> String {
    match (text(condition, "/reason"), text(condition, "/message")) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}
