//! Recorded forms `candidates`, `pool-status` and `pool-membership`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mainstay_objects::{IntOrString, LabelSelector, Labels};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CaseError, answered, field};
use crate::pool::Pool;
use crate::pool::candidates::{Candidates, in_zones};
use crate::pool::limit::max_unavailable;
use crate::pool::membership::{SelectingPool, membership};
use crate::pool::node::{Node, NodeCondition};
use crate::pool::status::{PoolCondition, status};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedNode {
    name: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    labels: Option<Labels>,
    #[serde(default)]
    creation_timestamp: Option<Timestamp>,
    #[serde(default)]
    conditions: Option<Vec<RecordedNodeCondition>>,
    #[serde(default)]
    unschedulable: bool,
}

#[derive(Deserialize)]
struct RecordedNodeCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl From<RecordedNode> for Node {
    fn from(node: RecordedNode) -> Self {
        let conditions = node.conditions.unwrap_or_default();
        Self {
            name: node.name,
            labels: node.labels.unwrap_or_default(),
            annotations: node.annotations.unwrap_or_default(),
            created: node.creation_timestamp,
            conditions: conditions.into_iter().map(|one| NodeCondition { kind: one.kind, status: one.status }).collect(),
            unschedulable: node.unschedulable,
            update_taint: false,
        }
    }
}

fn nodes(line: &Value) -> Result<Vec<Node>, CaseError> {
    let nodes: Option<Vec<RecordedNode>> = field(line, "nodes")?;
    Ok(nodes.unwrap_or_default().into_iter().map(Node::from).collect())
}

fn names(nodes: &[&Node]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

/// Answers who of a pool's nodes is next.
pub fn candidates(line: &Value) -> Result<Value, CaseError> {
    let pool: String = field(line, "pool")?;
    let target: String = field(line, "target")?;
    let limit: Option<IntOrString> = field(line, "maxUnavailable")?;
    let operator_node: Option<String> = field(line, "operatorNode")?;
    let nodes = nodes(line)?;
    let limit = match max_unavailable(limit.as_ref(), nodes.len()) {
        Ok(limit) => limit,
        Err(error) => return answered(line, json!({"maxUnavailableError": error.to_string()})),
    };
    let unavailable: Vec<&Node> = nodes.iter().filter(|node| node.is_unavailable()).collect();
    let candidates = Candidates::among(&nodes, &target, limit);
    let mut sorted = candidates.nodes.clone();
    in_zones(&mut sorted);
    let mut out = json!({
        "maxUnavailable": limit,
        "maxUnavailableError": null,
        "unavailable": names(&unavailable),
        "candidates": names(&candidates.nodes),
        "capacity": candidates.capacity,
        "chosenInListOrder": names(candidates.in_given_order()),
        "sorted": names(&sorted),
    });
    if !candidates.nodes.is_empty() {
        let targeting = candidates.choose(&pool, operator_node.as_deref());
        let events = targeting.events(&target);
        let events: Vec<String> = events.iter().map(|event| format!("{} {} {event}", event.kind(), event.reason())).collect();
        let targeted = nodes.iter().filter(|node| targeting.nodes.iter().any(|chosen| std::ptr::eq(*chosen, *node)));
        out["targeted"] = targeted.map(|node| node.name.clone()).collect();
        out["events"] = json!(events);
        out["updateError"] = Value::Null;
    }
    answered(line, out)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedPool {
    name: String,
    target: String,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    source_in_sync: bool,
    #[serde(default)]
    status_configuration: String,
    #[serde(default)]
    conditions: Option<Vec<RecordedCondition>>,
}

#[derive(Deserialize)]
struct RecordedCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// The number of sources of the recorded pools.
const SOURCES: usize = 3;

/// Answers what a pool's status says.
pub fn pool_status(line: &Value) -> Result<Value, CaseError> {
    let recorded: RecordedPool = field(line, "pool")?;
    let nodes = nodes(line)?;
    let before: Vec<PoolCondition<bool>> = recorded
        .conditions
        .unwrap_or_default()
        .into_iter()
        .map(|one| PoolCondition { kind: one.kind, status: one.status, reason: one.reason, message: one.message, changed: true })
        .collect();
    let pool = Pool { name: recorded.name, target: recorded.target, max_unavailable: None, paused: recorded.paused };
    let status = status(&pool, &nodes, &before, &false);
    let conditions: Vec<Value> = status
        .conditions
        .iter()
        .map(|one| {
            json!({
                "type": one.kind, "status": one.status, "reason": one.reason, "message": one.message, "timeKept": one.changed,
            })
        })
        .collect();
    let classes = &status.classes;
    let out = json!({
        "observedGeneration": recorded.generation,
        "machineCount": nodes.len(),
        "updatedMachineCount": classes.updated.len(),
        "readyMachineCount": classes.ready.len(),
        "unavailableMachineCount": classes.unavailable.len(),
        "degradedMachineCount": classes.degraded.len(),
        "conditions": conditions,
        "configuration": if status.has_target { &pool.target } else { &recorded.status_configuration },
        "sources": if status.has_target || recorded.source_in_sync { SOURCES } else { 0 },
        "updated": names(&classes.updated),
        "ready": names(&classes.ready),
        "unavailable": names(&classes.unavailable),
        "degraded": names(&classes.degraded),
    });
    answered(line, out)
}

#[derive(Deserialize)]
struct RecordedSelector {
    name: String,
    #[serde(flatten)]
    selector: LabelSelector,
}

#[derive(Deserialize)]
struct RecordedMember {
    name: String,
    #[serde(default)]
    labels: Option<Labels>,
}

/// Answers which pools each node belongs to; the nodes stand under `out`, too.
pub fn pool_membership(line: &Value) -> Result<Value, CaseError> {
    let pools: Vec<RecordedSelector> = field(line, "pools")?;
    let members: Vec<RecordedMember> = field(line, "out")?;
    let pools: Vec<SelectingPool> =
        pools.into_iter().map(|pool| SelectingPool { name: pool.name, node_selector: Some(pool.selector) }).collect();
    let answers = members.into_iter().map(|node| {
        let labels = node.labels.unwrap_or_default();
        let mut answer = json!({"name": node.name, "labels": labels, "error": null, "pools": null});
        match membership(&node.name, &labels, &pools) {
            Ok(Some(found)) => {
                answer["pools"] = json!(found.pools);
                answer["alert"] = json!(u8::from(found.ignores_custom_pool));
            }
            Ok(None) => {}
            Err(error) => answer["error"] = json!(error.to_string()),
        }
        answer
    });
    answered(line, answers.collect())
}
