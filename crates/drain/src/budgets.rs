//! The disruption budgets that forbid an eviction.

use std::fmt;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use mainstay_objects::{Labels, Requirements};
use serde_json::Value;

/// Most budgets of one namespace that are looked at.
const MOST: u32 = 500;

/// A PodDisruptionBudget, with the counts of its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: String,
    /// Pods that are healthy.
    pub current_healthy: i64,
    /// Pods that must be.
    pub desired_healthy: i64,
    /// Pods that may be evicted now.
    pub disruptions_allowed: i64,
}

impl Budget {
    fn of(object: &DynamicObject) -> Self {
        let count = |field: &str| object.data.pointer(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or_default();
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            current_healthy: count("currentHealthy"),
            desired_healthy: count("desiredHealthy"),
            disruptions_allowed: count("disruptionsAllowed"),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, current_healthy, desired_healthy, disruptions_allowed } = self;
        write!(out, "{name} (currentHealthy {current_healthy}, desiredHealthy {desired_healthy}, disruptionsAllowed {disruptions_allowed})")
    }
}

/// Finds the budgets of a namespace that cover a pod with these labels. Who may evict may not be allowed to read budgets: then none is known,
/// and the server's own words stay.
pub(crate) async fn covering(client: &Client, namespace: &str, labels: &Labels) -> Vec<Budget> {
    let gvk = GroupVersionKind::gvk("policy", "v1", "PodDisruptionBudget");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "poddisruptionbudgets");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    match api.list(&ListParams::default().limit(MOST)).await {
        Ok(all) => all.items.iter().filter(|budget| covers(budget, labels)).map(Budget::of).collect(),
        Err(error) => {
            tracing::debug!(%error, namespace, "the disruption budgets of a blocked pod cannot be read");
            Vec::new()
        }
    }
}

/// An absent selector covers nothing, an empty one everything.
fn covers(budget: &DynamicObject, labels: &Labels) -> bool {
    budget
        .data
        .pointer("/spec/selector")
        .filter(|selector| selector.is_object())
        .is_some_and(|selector| Requirements::of_selector(selector).matches(labels))
}
