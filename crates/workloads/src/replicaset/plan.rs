//! The plan for a ReplicaSet: the pods that it creates, those that it deletes, and its status.

use std::collections::HashMap;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use crate::object::{Object, Read as _, condition, put, time};
use crate::pod;

/// The most pods created or deleted at once.
pub const BURST: usize = 500;

/// The plan for the pods.
#[derive(Debug, PartialEq)]
pub enum Pods {
    /// There are as many as desired.
    Enough,
    /// This many pods are missing.
    Make(usize),
    /// These pods are surplus.
    Delete(Vec<Object>),
}

/// Compares the active pods with the desired number. `related` are all pods of the same Deployment; a node with many of them counts as
/// crowded.
pub fn pods(replicaset: &DynamicObject, active: &[Object], related: &[Object], now: Timestamp) -> Pods {
    let wanted = usize::try_from(replicaset.int("/spec/replicas").unwrap_or(1)).unwrap_or_default();
    if replicaset.deleting() || active.len() == wanted {
        return Pods::Enough;
    }
    if active.len() < wanted {
        return Pods::Make((wanted - active.len()).min(BURST));
    }
    let mut crowd: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| pod::active(pod)) {
        *crowd.entry(pod.text("/spec/nodeName")).or_default() += 1;
    }
    let mut ranked = active.to_vec();
    first_to_go(&mut ranked, &|node| crowd.get(node).copied().unwrap_or_default(), now);
    ranked.truncate((active.len() - wanted).min(BURST));
    Pods::Delete(ranked)
}

/// Sorts pods so that the first to delete come first; `crowd` returns the number of related pods on a node.
pub fn first_to_go(pods: &mut [Object], crowd: &dyn Fn(&str) -> usize, now: Timestamp) {
    pods.sort_by_cached_key(|pod| rank(pod, crowd(pod.text("/spec/nodeName")), now));
}

type Rank = (bool, u8, bool, i64, std::cmp::Reverse<usize>, i64, std::cmp::Reverse<i64>, std::cmp::Reverse<Timestamp>, String);

/// Returns the deletion rank of a pod: unassigned, pending, not ready, cheap, crowded, ready for a short time, often restarted,
/// and young pods go first (upstream's ActivePodsWithRanks).
fn rank(pod: &DynamicObject, crowd: usize, now: Timestamp) -> Rank {
    let phase = match pod.text("/status/phase") {
        "Pending" | "" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let cost = pod.annotation("controller.kubernetes.io/pod-deletion-cost").and_then(|cost| cost.parse().ok()).unwrap_or_default();
    // Upstream compares times of readiness on a logarithmic scale, so that age alone does not decide.
    let ready_for = pod::ready_since(pod).map_or(0, |since| now.duration_since(since).as_secs().max(1).ilog2().into());
    let assigned = !pod.text("/spec/nodeName").is_empty();
    (
        assigned,
        phase,
        pod::ready(pod),
        cost,
        std::cmp::Reverse(crowd),
        ready_for,
        std::cmp::Reverse(pod::restarts(pod)),
        std::cmp::Reverse(pod.created()),
        pod.name().to_owned(),
    )
}

/// Returns the status; `failure` is the reason why pods could not be created or deleted.
pub fn status(replicaset: &DynamicObject, active: &[Object], failure: Option<(&str, &str)>, now: Timestamp) -> Value {
    let labels = replicaset.at("/spec/template/metadata/labels");
    let min_ready = replicaset.int("/spec/minReadySeconds").unwrap_or_default();
    let labelled = |pod: &&Object| {
        let wanted = labels.as_object().into_iter().flatten();
        let mut wanted = wanted.map(|(key, value)| pod.labels().get(key).map(String::as_str) == value.as_str());
        wanted.all(|same| same)
    };
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let mut status = Map::new();
    status.insert("replicas".into(), json!(active.len()));
    put(&mut status, "fullyLabeledReplicas", count(active.iter().filter(labelled).count()));
    put(&mut status, "readyReplicas", count(active.iter().filter(|pod| pod::ready(pod)).count()));
    put(&mut status, "availableReplicas", count(active.iter().filter(|pod| pod::available(pod, min_ready, now)).count()));
    put(&mut status, "observedGeneration", replicaset.metadata.generation.unwrap_or_default());
    let before = replicaset.at("/status/conditions");
    let mut conditions: Vec<Value> = before.as_array().cloned().unwrap_or_default();
    match failure {
        Some((reason, message)) => {
            let known = condition(before, "ReplicaFailure").is_some_and(|failed| failed["status"] == "True" && failed["reason"] == reason);
            if !known {
                conditions.retain(|condition| condition["type"] != "ReplicaFailure");
                conditions.push(json!({"type": "ReplicaFailure", "status": "True", "lastTransitionTime": time(now), "reason": reason, "message": message}));
            }
        }
        None => conditions.retain(|condition| condition["type"] != "ReplicaFailure"),
    }
    if !conditions.is_empty() {
        status.insert("conditions".into(), Value::Array(conditions));
    }
    Value::Object(status)
}
