//! Simulated nodes of the cluster, read from the labels of its nodes and from the ConfigMap that `mainstay up` writes about webhooks.

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, GroupVersionKind, ListParams};
use mainstay_apiserver::remote::LocalService;
use mainstay_apply::WriteError;
use mainstay_diagnostics::Failure;
use mainstay_olm_v1_core::extension::webhooks::Simulation;
use mainstay_runtime::KindError;
use mainstay_workloads::node::object::SIMULATED;
use serde_json::{Value, json};

use crate::failure::{not_written, refused};
use crate::session::Session;

/// The ConfigMap in which `mainstay up` publishes the webhooks that are answered.
const PUBLISHED: (&str, &str) = ("kube-system", "mainstay-up-webhooks");
const LOCAL_SERVICES: &str = "local-services";
/// Maximum number of configurations that are read of one kind.
const MOST: usize = 1_000;
const PASSES_OVER: &str = "skip-simulated-webhooks";

/// Returns the ConfigMap in which `mainstay up` publishes the webhooks whose pods are simulated.
pub fn published(local: &[LocalService], passes_over: bool) -> Value {
    let services: Vec<String> = local.iter().map(|service| format!("{}/{}", service.namespace, service.name)).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PUBLISHED.1, "namespace": PUBLISHED.0},
        "data": {LOCAL_SERVICES: services.join(","), PASSES_OVER: passes_over.to_string()}})
}

fn of_published(everywhere: bool, published: &ConfigMap) -> Simulation {
    let text = |key: &str| published.data.as_ref().and_then(|data| data.get(key)).map(String::as_str).unwrap_or_default();
    Simulation {
        everywhere,
        passes_over: text(PASSES_OVER) == "true",
        local_services: text(LOCAL_SERVICES).split(',').filter(|service| !service.is_empty()).map(str::to_owned).collect(),
    }
}

/// Reads the simulation of the cluster. A cluster that publishes nothing about webhooks counts as simulating nothing.
pub async fn read(session: &Session) -> Result<Simulation, Failure> {
    let nodes: Api<Node> = Api::all(session.client.clone());
    let some = async |labels: String| {
        let found = nodes.list(&ListParams::default().labels(&labels).limit(1)).await.map_err(|error| refused("nodes", &error))?;
        Ok::<_, Failure>(!found.items.is_empty())
    };
    if !some(format!("{SIMULATED}=true")).await? {
        return Ok(Simulation::default());
    }
    let everywhere = !some(format!("{SIMULATED}!=true")).await?;
    let (namespace, name) = PUBLISHED;
    let maps: Api<ConfigMap> = Api::namespaced(session.client.clone(), namespace);
    let found = maps.get_opt(name).await.map_err(|error| refused(format!("configmap {namespace}/{name}"), &error))?;
    Ok(found.map(|published| of_published(everywhere, &published)).unwrap_or_default())
}

/// The played part of a cluster with a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// The cluster operators whose status is played.
    pub operators: usize,
    /// All cluster operators.
    pub of: usize,
    /// The nodes.
    pub nodes: usize,
}

/// Counts the cluster operators that are played (CVO-SIM-05, COP-G-10); `None` for a cluster without any.
pub async fn operators(session: &Session) -> Result<Option<Simulated>, Failure> {
    let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator");
    match session.writer.list(&gvk, MOST).await {
        Ok(all) => Ok(of_operators(&all)),
        Err(WriteError::Kind { source: KindError::NotServed { .. }, .. }) => Ok(None),
        Err(error) => Err(not_written(&error)),
    }
}

fn of_operators(all: &[Value]) -> Option<Simulated> {
    let is_played = |operator: &&Value| operator["metadata"]["annotations"].get(SIMULATED).is_some_and(|mark| mark == "true");
    let operators = all.iter().filter(is_played).count();
    (!all.is_empty()).then_some(Simulated { operators, of: all.len(), nodes: 0 })
}

/// Returns true if a node is simulated.
pub fn is_simulated(node: &Node) -> bool {
    node.metadata.labels.as_ref().and_then(|labels| labels.get(SIMULATED)).is_some_and(|mark| mark == "true")
}

/// Lists the webhook configurations of the cluster.
pub async fn configurations(session: &Session) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        found.extend(session.writer.list(&gvk, MOST).await.map_err(|error| not_written(&error))?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// CVO-SIM-05: cluster operators with the mark are counted; a cluster without any has no such line.
    #[test]
    fn played_operators_are_counted() {
        let operator = |mark: Value| json!({"metadata": {"name": "x", "annotations": {SIMULATED: mark}}});
        let all = [operator("true".into()), operator("false".into()), json!({"metadata": {"name": "y"}}), operator("true".into())];
        assert_eq!(of_operators(&all), Some(Simulated { operators: 2, of: 4, nodes: 0 }));
        assert_eq!(of_operators(&[]), None);
        let node = |labels: Value| serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap();
        assert!(is_simulated(&node(json!({SIMULATED: "true"}))) && !is_simulated(&node(json!({}))));
    }

    /// KAPI-WL-06, MS-PLAN-01: what is published of webhooks is read back.
    #[test]
    fn webhooks_are_published() {
        let read = |local: &[&str], passes_over| {
            let local: Vec<LocalService> = local.iter().map(|text| text.parse().unwrap()).collect();
            of_published(true, &serde_json::from_value(published(&local, passes_over)).unwrap())
        };
        assert_eq!(read(&[], false), Simulation { everywhere: true, ..Simulation::default() });
        let told = read(&["a/b=127.0.0.1:1", "c/d=127.0.0.1:2"], true);
        assert_eq!(told, Simulation { everywhere: true, passes_over: true, local_services: vec!["a/b".into(), "c/d".into()] });
    }
}
