//! The containers of a simulated node, as `crictl ps` lists those of a real one (OLM0-ADMIN-45).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_workloads::node::object::SIMULATED;
use serde_json::Value;

use crate::failure::refused;
use crate::session::Session;

/// A container of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The ID, without its scheme.
    pub id: String,
    /// The image.
    pub image: String,
    /// The time at which it started or ended.
    pub created: Option<Timestamp>,
    /// `Running`, `Exited` or `Waiting`.
    pub state: &'static str,
    /// The name.
    pub name: String,
    /// The restarts before this run.
    pub attempt: i64,
    /// The pod.
    pub pod: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The process, if a program stands for the image.
    pub process: bool,
}

/// The containers of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeContainers {
    /// True if the node is simulated.
    pub simulated: bool,
    /// The containers, in order of their pods.
    pub containers: Vec<Container>,
}

/// Reads the containers of a node.
///
/// # Errors
/// The node is not there, or its pods cannot be read.
pub async fn containers(session: &Session, node: &str) -> Result<NodeContainers, Failure> {
    let nodes: Api<Node> = Api::all(session.client.clone());
    let found = nodes.get_opt(node).await.map_err(|error| refused(format!("node {node}"), &error))?;
    let found = found.ok_or_else(|| {
        Failure::new(FailureKind::NotFound, format!("node {node}"), "not found").hint("kubectl get nodes lists the nodes")
    })?;
    let pods: Api<Pod> = Api::all(session.client.clone());
    let listed = pods.list(&ListParams::default().fields(&format!("spec.nodeName={node}"))).await;
    let listed = listed.map_err(|error| refused("pods", &error))?;
    let pods: Vec<Value> = listed.items.iter().filter_map(|pod| serde_json::to_value(pod).ok()).collect();
    let simulated = found.metadata.labels.as_ref().and_then(|labels| labels.get(SIMULATED)).is_some_and(|value| value == "true");
    Ok(NodeContainers { simulated, containers: of_pods(&pods) })
}

/// Returns the containers of pods, init containers first.
pub fn of_pods(pods: &[Value]) -> Vec<Container> {
    let mut all = Vec::new();
    for pod in pods {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        for list in ["initContainerStatuses", "containerStatuses"] {
            for status in pod["status"][list].as_array().into_iter().flatten() {
                let id = status["containerID"].as_str().unwrap_or_default();
                let time = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).and_then(|time| time.parse().ok());
                let (state, created) = if status["state"]["running"].is_object() {
                    ("Running", time("/state/running/startedAt"))
                } else if status["state"]["terminated"].is_object() {
                    ("Exited", time("/state/terminated/startedAt"))
                } else if status["lastState"]["terminated"].is_object() {
                    ("Exited", time("/lastState/terminated/startedAt"))
                } else {
                    ("Waiting", None)
                };
                all.push(Container {
                    id: id.split_once("://").map_or(id, |(_, id)| id).to_owned(),
                    image: status["image"].as_str().unwrap_or_default().to_owned(),
                    created,
                    state,
                    name: status["name"].as_str().unwrap_or_default().to_owned(),
                    attempt: status["restartCount"].as_i64().unwrap_or_default(),
                    pod: text("name"),
                    namespace: text("namespace"),
                    process: id.starts_with("process:"),
                });
            }
        }
    }
    all.sort_by(|one, other| (&one.namespace, &one.pod).cmp(&(&other.namespace, &other.pod)));
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "a table of cases")]
    use serde_json::json;

    use super::*;

    /// OLM0-ADMIN-45: containers are listed with pod, state and attempts; one that never ran waits, one between two runs has exited.
    #[test]
    fn containers_are_listed() {
        let at = "2026-01-01T00:00:00Z";
        let status = |name: &str, id: &str, restarts: i64, state: Value, last: Value| json!({"name": name, "image": format!("{name}:1"), "containerID": id, "restartCount": restarts, "state": state, "lastState": last});
        let ended = json!({"terminated": {"startedAt": at, "exitCode": 1}});
        let pods = [
            json!({"metadata": {"name": "b", "namespace": "n"}, "status": {"containerStatuses": [status("waits", "", 0, json!({"waiting": {}}), json!({}))]}}),
            json!({"metadata": {"name": "a", "namespace": "n"}, "status": {
                "initContainerStatuses": [status("setup", "simulated://1", 0, ended.clone(), json!({}))],
                "containerStatuses": [status("main", "process://7-1", 0, json!({"running": {"startedAt": at}}), json!({})), status("loops", "simulated://3", 4, json!({"waiting": {"reason": "CrashLoopBackOff"}}), ended)],
            }}),
        ];
        let shown: Vec<_> = of_pods(&pods)
            .into_iter()
            .map(|one| (one.pod, one.name, one.state, one.attempt, one.id, one.process, one.created.is_some()))
            .collect();
        let row = |pod: &str, name: &str, state, attempt, id: &str, process, created| {
            (pod.to_owned(), name.to_owned(), state, attempt, id.to_owned(), process, created)
        };
        assert_eq!(
            shown,
            [
                row("a", "setup", "Exited", 0, "1", false, true),
                row("a", "main", "Running", 0, "7-1", true, true),
                row("a", "loops", "Exited", 4, "3", false, true),
                row("b", "waits", "Waiting", 0, "", false, false),
            ]
        );
    }
}
