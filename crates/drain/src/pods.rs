//! The pods of a node, and the DaemonSets that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_machine_core::drain::filter::{Controller, Pod};
use mainstay_objects::{Labels, labels_of};
use serde_json::Value;

use crate::DrainError;

/// Pods of one answer.
const PAGE: u32 = 500;
/// Most pods of one node; Kubernetes allows 110 by default.
const MOST: usize = 10_000;

/// A pod by its place, and which one of that place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "named by what they are")]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl fmt::Display for PodRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// A pod of the node, with what an eviction asks of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which pod.
    pub pod: PodRef,
    /// The facts that the rules look at.
    pub facts: Pod,
    /// Its labels, by which budgets choose.
    pub labels: Labels,
    /// The seconds that it has to end, once it is deleted.
    pub grace: Option<i64>,
    /// When its deletion was asked for: the server's deletion time less the grace period.
    pub deleted: Option<Timestamp>,
}

impl Found {
    fn of(object: &DynamicObject) -> Self {
        let value = serde_json::to_value(object).unwrap_or(Value::Null);
        let grace = object.metadata.deletion_grace_period_seconds;
        let facts = Pod::of(&value);
        let begun = |end: Timestamp| end.checked_sub(jiff::SignedDuration::from_secs(grace.unwrap_or_default())).unwrap_or(end);
        Self {
            pod: PodRef {
                namespace: object.metadata.namespace.clone().unwrap_or_default(),
                name: object.metadata.name.clone().unwrap_or_default(),
                uid: object.metadata.uid.clone().unwrap_or_default(),
            },
            labels: labels_of(&value),
            deleted: facts.deleted.map(begun),
            facts,
            grace,
        }
    }
}

/// Reads the pods of a node, by namespace and name.
pub(crate) async fn of_node(client: &Client, node: &str, selector: Option<&str>) -> Result<Vec<Found>, DrainError> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Pod"), "pods");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut params = ListParams::default().fields(&format!("spec.nodeName={node}")).limit(PAGE);
    if let Some(selector) = selector {
        params = params.labels(selector);
    }
    let mut found = Vec::new();
    loop {
        let failed = |source| DrainError::Request { what: format!("list the pods on node {node}"), source: Box::new(source) };
        let page = api.list(&params).await.map_err(failed)?;
        found.extend(page.items.iter().map(Found::of));
        if found.len() > MOST {
            return Err(DrainError::TooManyPods { node: node.to_owned(), most: MOST });
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    found.sort_by(|one, other| one.pod.cmp(&other.pod));
    Ok(found)
}

/// Finds out which of the DaemonSets that pods name exist, by namespace and name.
pub(crate) async fn daemon_sets(client: &Client, pods: &[Found]) -> Result<BTreeSet<(String, String)>, DrainError> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("apps", "v1", "DaemonSet"), "daemonsets");
    let mut asked: BTreeMap<(String, String), bool> = BTreeMap::new();
    for found in pods {
        let Some(Controller::DaemonSet(name)) = &found.facts.controller else { continue };
        let place = (found.pod.namespace.clone(), name.clone());
        if asked.contains_key(&place) {
            continue;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &place.0, &resource);
        let failed = |source| DrainError::Request { what: format!("get daemonset {}/{name}", place.0), source: Box::new(source) };
        let exists = api.get_metadata_opt(name).await.map_err(failed)?.is_some();
        asked.insert(place, exists);
    }
    Ok(asked.into_iter().filter(|(_, exists)| *exists).map(|(place, _)| place).collect())
}
