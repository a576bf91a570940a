//! The status of a Deployment: counts, Available, Progressing, ReplicaFailure.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::plan::{Bounds, Facts, Set, remaining};
use crate::object::{Read as _, condition, put, time};

/// A status, and the time after which it may change.
pub struct Outcome {
    /// The whole status.
    pub status: Value,
    /// The time after which it may change.
    pub again: Option<Duration>,
}

/// Returns the progress deadline in seconds.
pub fn deadline(deployment: &DynamicObject) -> Option<i64> {
    // The largest number means none (upstream's HasProgressDeadline).
    deployment.int("/spec/progressDeadlineSeconds").filter(|seconds| *seconds != i64::from(i32::MAX))
}

/// Sets a condition; an unchanged status and reason keep the existing one.
pub fn set(conditions: &mut Vec<Value>, kind: &str, state: &str, reason: &str, message: &str, now: Timestamp) {
    let mut since = time(now);
    if let Some(present) = conditions.iter().find(|condition| condition["type"] == kind) {
        if present["status"] == state && present["reason"] == reason {
            return;
        }
        if present["status"] == state {
            since = present["lastTransitionTime"].clone();
        }
    }
    conditions.retain(|condition| condition["type"] != kind);
    conditions.push(json!({
        "type": kind, "status": state, "reason": reason, "message": message,
        "lastUpdateTime": time(now), "lastTransitionTime": since,
    }));
}

/// Decides the status. `rollout` is true if progress is judged; it is not while the Deployment is paused or scaled.
pub fn decide(facts: &Facts<'_>, bounds: &Bounds, sets: &[Set], new: Option<&Set>, mut conditions: Vec<Value>, rollout: bool) -> Outcome {
    let (deployment, now) = (facts.deployment, facts.now);
    let sum = |number: fn(&Set) -> i64| sets.iter().map(number).sum::<i64>();
    let available = sum(|set| set.available);
    let mut status = Map::new();
    put(&mut status, "observedGeneration", deployment.metadata.generation.unwrap_or_default());
    put(&mut status, "replicas", sum(|set| set.current));
    put(&mut status, "updatedReplicas", new.map_or(0, |new| new.current));
    put(&mut status, "readyReplicas", sum(|set| set.ready));
    put(&mut status, "availableReplicas", available);
    put(&mut status, "unavailableReplicas", (sum(|set| set.replicas) - available).max(0));
    if let Some(count) = deployment.int("/status/collisionCount") {
        status.insert("collisionCount".into(), json!(count));
    }
    if available >= bounds.replicas - bounds.unavailable {
        set(&mut conditions, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now);
    } else {
        set(&mut conditions, "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now);
    }
    if rollout {
        progress(facts, bounds, &status, new, &mut conditions);
        replica_failure(sets, new, &mut conditions);
    }
    let again = deadline(deployment).and_then(|seconds| {
        let progressing = conditions.iter().find(|condition| condition["type"] == "Progressing")?;
        let settled = ["NewReplicaSetAvailable", "ProgressDeadlineExceeded"].iter().any(|reason| progressing["reason"] == *reason);
        let watched = rollout && !settled;
        // Times have whole seconds, so the next look is a second later.
        watched.then(|| remaining(&progressing["lastUpdateTime"], seconds, now).unwrap_or_default() + Duration::from_secs(1))
    });
    if !conditions.is_empty() {
        status.insert("conditions".into(), Value::Array(conditions));
    }
    Outcome { status: Value::Object(status), again }
}

fn progress(facts: &Facts<'_>, bounds: &Bounds, status: &Map<String, Value>, new: Option<&Set>, conditions: &mut Vec<Value>) {
    let (deployment, now) = (facts.deployment, facts.now);
    let Some(deadline) = deadline(deployment) else {
        conditions.retain(|condition| condition["type"] != "Progressing");
        return;
    };
    let is = |name: &str| status.get(name).and_then(Value::as_i64).unwrap_or_default();
    let was = |name: &str| deployment.at("/status")[name].as_i64().unwrap_or_default();
    let before = condition(deployment.at("/status/conditions"), "Progressing");
    let done = before.is_some_and(|before| before["reason"] == "NewReplicaSetAvailable");
    if is("replicas") == is("updatedReplicas") && done {
        return;
    }
    let subject = match new {
        Some(new) => format!("ReplicaSet \"{}\"", new.name),
        None => format!("Deployment \"{}\"", deployment.name()),
    };
    let complete = ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|name| is(name) == bounds.replicas);
    let moved = is("updatedReplicas") > was("updatedReplicas")
        || is("replicas") - is("updatedReplicas") < was("replicas") - was("updatedReplicas")
        || is("readyReplicas") > was("readyReplicas")
        || is("availableReplicas") > was("availableReplicas");
    if complete {
        set(conditions, "Progressing", "True", "NewReplicaSetAvailable", &format!("{subject} has successfully progressed."), now);
    } else if moved {
        let present = conditions.iter().find(|condition| condition["type"] == "Progressing").cloned();
        conditions.retain(|condition| condition["type"] != "Progressing");
        set(conditions, "Progressing", "True", "ReplicaSetUpdated", &format!("{subject} is progressing."), now);
        if let (Some(present), Some(set)) = (present.filter(|present| present["status"] == "True"), conditions.last_mut()) {
            set["lastTransitionTime"] = present["lastTransitionTime"].clone();
        }
    } else if timed_out(conditions, deadline, now) {
        set(conditions, "Progressing", "False", "ProgressDeadlineExceeded", &format!("{subject} has timed out progressing."), now);
    }
}

fn timed_out(conditions: &[Value], deadline: i64, now: Timestamp) -> bool {
    let Some(progressing) = conditions.iter().find(|condition| condition["type"] == "Progressing") else { return false };
    match progressing["reason"].as_str() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => remaining(&progressing["lastUpdateTime"], deadline, now).is_some_and(|left| left.is_zero()),
    }
}

fn replica_failure(sets: &[Set], new: Option<&Set>, conditions: &mut Vec<Value>) {
    let failure = |set: &Set| condition(set.object.as_ref()?.at("/status/conditions"), "ReplicaFailure").cloned();
    let failed = new.and_then(failure).or_else(|| sets.iter().find_map(failure));
    match failed {
        Some(failed) => {
            let known = conditions.iter().any(|condition| {
                condition["type"] == "ReplicaFailure" && condition["status"] == failed["status"] && condition["reason"] == failed["reason"]
            });
            if !known {
                conditions.retain(|condition| condition["type"] != "ReplicaFailure");
                let since = &failed["lastTransitionTime"];
                conditions.push(json!({
                    "type": "ReplicaFailure", "status": failed["status"], "reason": failed["reason"], "message": failed["message"],
                    "lastUpdateTime": since, "lastTransitionTime": since,
                }));
            }
        }
        None => conditions.retain(|condition| condition["type"] != "ReplicaFailure"),
    }
}
