//! ConfigMap `cluster-autoscaler-status`: what a pass found and decided, in upstream's form with the reason of each decision (COP-CAS-05).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::group::Group;
use crate::plan::{Plan, Snapshot};
use crate::reason::Resize;

/// The name of the ConfigMap.
pub const STATUS: &str = "cluster-autoscaler-status";
/// Its key.
pub const KEY: &str = "status";
/// Its annotation with the time of the last pass.
pub const LAST_UPDATED: &str = "cluster-autoscaler.kubernetes.io/last-updated";
/// Most nodes whose reasons are listed for a set.
const MOST_NODES: usize = 100;

/// Counts of nodes in a set or in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Machines that are nodes.
    pub total: usize,
    /// Those that are ready.
    pub ready: usize,
    /// Those that are starting.
    pub not_started: usize,
    /// Those that are not ready and should be.
    pub unready: usize,
    /// Those that are going.
    pub being_deleted: usize,
    /// Machines that never became nodes.
    pub long_unregistered: usize,
    /// Machines that are becoming nodes.
    pub unregistered: usize,
}

impl NodeCounts {
    /// Counts the nodes of a set.
    pub fn of_group(group: &Group, snapshot: &Snapshot, plan: &Plan) -> Self {
        let nodes: BTreeMap<&str, &crate::Node> = snapshot.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let mut counts = Self { unregistered: plan.upcoming.get(&group.id).copied().unwrap_or_default(), ..Self::default() };
        counts.long_unregistered = plan.failed.iter().filter(|failed| failed.group == group.id).count();
        for machine in &group.machines {
            let Some(node) = machine.node.as_deref().and_then(|name| nodes.get(name)) else { continue };
            counts.add(node, machine.is_deleting, plan);
        }
        counts
    }

    /// Counts the nodes of the cluster.
    pub fn of_cluster(snapshot: &Snapshot, plan: &Plan) -> Self {
        let mut counts = Self { unregistered: plan.upcoming.values().sum(), long_unregistered: plan.failed.len(), ..Self::default() };
        let machines = snapshot.groups.iter().flat_map(|group| &group.machines).filter(|machine| machine.is_deleting);
        let going: std::collections::BTreeSet<&str> = machines.filter_map(|machine| machine.node.as_deref()).collect();
        for node in &snapshot.nodes {
            counts.add(node, going.contains(node.name.as_str()), plan);
        }
        counts
    }

    fn add(&mut self, node: &crate::Node, is_going: bool, plan: &Plan) {
        self.total += 1;
        let counted = if is_going || node.is_deleting {
            &mut self.being_deleted
        } else if node.is_ready {
            &mut self.ready
        } else if plan.health.unready.contains(&node.name) {
            &mut self.unready
        } else {
            &mut self.not_started
        };
        *counted += 1;
    }

    fn to_value(self) -> Value {
        json!({
            "registered": {
                "total": self.total, "ready": self.ready, "notStarted": self.not_started, "unready": {"total": self.unready},
                "beingDeleted": self.being_deleted,
            },
            "longUnregistered": self.long_unregistered, "unregistered": self.unregistered,
        })
    }
}

/// One aspect with its times; the time of the last change is kept while its status stays.
fn aspect(status: &str, before: Option<&Value>, now: &str, more: Value) -> Value {
    let kept = before.filter(|before| before["status"] == status).and_then(|before| before["lastTransitionTime"].as_str());
    let mut aspect = more;
    aspect["status"] = json!(status);
    aspect["lastProbeTime"] = json!(now);
    aspect["lastTransitionTime"] = json!(kept.unwrap_or(now));
    aspect
}

/// Returns the status after a pass. `before` is the last one.
pub fn status(snapshot: &Snapshot, plan: &Plan, before: Option<&Value>) -> Value {
    let now = format!("{:.0}", snapshot.now);
    let empty = Value::Null;
    let before = before.unwrap_or(&empty);
    let wide = |name: &str| before.pointer(&format!("/clusterWide/{name}"));
    let is_going_up = !plan.growth.resizes.is_empty() || plan.upcoming.values().any(|count| *count > 0);
    let candidates = plan.unneeded.len();
    let health = if plan.health.is_cluster_unhealthy { "Unhealthy" } else { "Healthy" };
    let counts = NodeCounts::of_cluster(snapshot, plan).to_value();
    let groups: Vec<Value> = snapshot.groups.iter().map(|group| of_group(group, snapshot, plan, before, &now)).collect();
    json!({
        "time": now,
        "autoscalerStatus": "Running",
        "clusterWide": {
            "health": aspect(health, wide("health"), &now, json!({"nodeCounts": counts})),
            "scaleUp": aspect(if is_going_up { "InProgress" } else { "NoActivity" }, wide("scaleUp"), &now, json!({})),
            "scaleDown": aspect(presence(candidates), wide("scaleDown"), &now, json!({"candidates": candidates})),
        },
        "nodeGroups": groups,
    })
}

fn presence(candidates: usize) -> &'static str {
    if candidates > 0 { "CandidatesPresent" } else { "NoCandidates" }
}

fn of_group(group: &Group, snapshot: &Snapshot, plan: &Plan, before: &Value, now: &str) -> Value {
    let name = group.id.to_string();
    let old = before["nodeGroups"].as_array().into_iter().flatten().find(|old| old["name"] == name);
    let nodes: Vec<&str> = group.machines.iter().filter_map(|machine| machine.node.as_deref()).collect();
    let health = if plan.health.unhealthy.contains(&group.id) { "Unhealthy" } else { "Healthy" };
    let resize = plan.growth.resizes.iter().find(|resize| resize.group == group.id);
    let up = match plan.backoff(&group.id, snapshot.now) {
        Some(_) => "Backoff",
        None if resize.is_some() || plan.upcoming.get(&group.id).is_some_and(|count| *count > 0) => "InProgress",
        None => "NoActivity",
    };
    let backoff = match plan.backoff(&group.id, snapshot.now) {
        Some(until) => json!({"backoffInfo": {"until": format!("{until:.0}")}}),
        None => json!({}),
    };
    let candidates = nodes.iter().filter(|node| plan.unneeded.contains_key(**node)).count();
    let mut out = json!({
        "name": name,
        "health": aspect(health, old.and_then(|old| old.get("health")), now, json!({
            "nodeCounts": NodeCounts::of_group(group, snapshot, plan).to_value(),
            "cloudProviderTarget": resize.map_or(group.replicas, |resize: &Resize| resize.to), "minSize": group.min, "maxSize": group.max,
        })),
        "scaleUp": aspect(up, old.and_then(|old| old.get("scaleUp")), now, backoff),
        "scaleDown": aspect(presence(candidates), old.and_then(|old| old.get("scaleDown")), now, json!({"candidates": candidates})),
    });
    if let Some(verdict) = plan.growth.groups.get(&group.id) {
        let decision = json!({"reason": verdict.reason(), "message": verdict.to_string()});
        let old = old.and_then(|old| old.get("lastDecision"));
        let since = old.filter(|old| old["reason"] == decision["reason"] && old["message"] == decision["message"]);
        out["lastDecision"] = decision;
        out["lastDecision"]["since"] = since.map_or_else(|| json!(now), |old| old["since"].clone());
    }
    let listed = nodes.iter().filter_map(|node| {
        let kept = plan.shrinkage.kept.get(*node).map(|kept| (kept.reason(), kept.to_string()));
        let removed =
            || plan.shrinkage.removals.iter().find(|removal| removal.node == **node).map(|_| ("Removed", "it is removed".to_owned()));
        let (reason, message) = kept.or_else(removed)?;
        Some(json!({"name": node, "reason": reason, "message": message}))
    });
    out["nodes"] = listed.take(MOST_NODES).collect();
    out
}

/// Returns the data of the ConfigMap.
pub fn written(status: &Value) -> String {
    mainstay_yaml::to_string(status)
}

/// Reads the data of a ConfigMap; `None` if it is none of this form.
pub fn read(config_map: &Value) -> Option<Value> {
    let text = config_map.pointer("/data")?.get(KEY)?.as_str()?;
    mainstay_yaml::parse(text).ok().filter(Value::is_object)
}

/// The status of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The time of the pass.
    pub time: Option<Timestamp>,
    /// Why it grows or does not: one word and a sentence.
    pub decision: Option<(String, String)>,
    /// Since when that is so.
    pub since: Option<Timestamp>,
    /// Its nodes that stay, or go: name, word, sentence.
    pub nodes: Vec<(String, String, String)>,
}

impl Reported {
    /// Reads what a ConfigMap says of a set; `None` if it says nothing.
    pub fn of(config_map: &Value, group: &crate::GroupId) -> Option<Self> {
        let status = read(config_map)?;
        let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let name = group.to_string();
        let own = status["nodeGroups"].as_array()?.iter().find(|own| own["name"] == name)?;
        let decision = own.get("lastDecision");
        let nodes = own["nodes"].as_array().into_iter().flatten();
        Some(Self {
            time: text(&status, "time").parse().ok(),
            decision: decision.map(|decision| (text(decision, "reason"), text(decision, "message"))),
            since: decision.and_then(|decision| text(decision, "since").parse().ok()),
            nodes: nodes.map(|node| (text(node, "name"), text(node, "reason"), text(node, "message"))).collect(),
        })
    }
}
