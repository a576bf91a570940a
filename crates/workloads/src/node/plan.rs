//! What a simulated kubelet does with a pod: a pure function of the pod, its behaviour and the time (KAPI-WL-03).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::behaviour::Behaviour;
use crate::object::{Read as _, condition, items, parse_time, time};
use crate::pod;

/// Where a pod lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The address of its node.
    pub host_ip: String,
    /// Its own address.
    pub pod_ip: String,
}

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Nothing, until the pod changes.
    Rest,
    /// The pod has ended its time: it is deleted with a grace period of zero.
    Remove,
    /// The status is written, and looked at again after a while if need be.
    Report(Value, Option<Duration>),
    /// Nothing yet.
    Wait(Duration),
}

/// Decides.
pub fn plan(pod: &DynamicObject, place: &Place, behaviour: &Behaviour, now: Timestamp) -> Step {
    if pod.deleting() {
        return Step::Remove;
    }
    if pod::finished(pod) {
        return Step::Rest;
    }
    let started = parse_time(pod.at("/status/startTime"));
    let begin = started.unwrap_or(now);
    let delay = SignedDuration::try_from(behaviour.start_delay).unwrap_or(SignedDuration::MAX);
    let due = begin.saturating_add(delay).unwrap_or(Timestamp::MAX);
    let status = if now < due {
        let left: Duration = due.duration_since(now).try_into().unwrap_or_default();
        if started.is_some() {
            return Step::Wait(left);
        }
        (status(pod, place, begin, &Stage::Creating, now), Some(left))
    } else {
        let stage = behaviour.exit_code.map_or(Stage::Running, Stage::Ended);
        (status(pod, place, begin, &stage, now), None)
    };
    if *pod.at("/status") == status.0 { Step::Rest } else { Step::Report(status.0, status.1) }
}

enum Stage {
    Creating,
    Running,
    Ended(i32),
}

fn status(pod: &DynamicObject, place: &Place, started: Timestamp, stage: &Stage, now: Timestamp) -> Value {
    let mut status = pod.at("/status").as_object().cloned().unwrap_or_default();
    let (phase, ready, reason) = match stage {
        Stage::Creating => ("Pending", false, "ContainersNotReady"),
        Stage::Running => ("Running", true, ""),
        Stage::Ended(0) => ("Succeeded", false, "PodCompleted"),
        Stage::Ended(_) => ("Failed", false, "PodFailed"),
    };
    status.insert("phase".into(), json!(phase));
    status.insert("startTime".into(), time(started));
    status.insert("hostIP".into(), json!(place.host_ip));
    status.insert("hostIPs".into(), json!([{"ip": place.host_ip}]));
    if !matches!(stage, Stage::Creating) {
        let own = if pod.at("/spec/hostNetwork") == &Value::Bool(true) { &place.host_ip } else { &place.pod_ip };
        status.insert("podIP".into(), json!(own));
        status.insert("podIPs".into(), json!([{"ip": own}]));
    }
    if let Some(generation) = pod.metadata.generation {
        status.insert("observedGeneration".into(), json!(generation));
    }
    status.insert("conditions".into(), conditions(pod, stage, ready, reason, now));
    let init = containers(pod, "/spec/initContainers", stage, true, now);
    if !init.is_empty() {
        status.insert("initContainerStatuses".into(), Value::Array(init));
    }
    status.insert("containerStatuses".into(), Value::Array(containers(pod, "/spec/containers", stage, false, now)));
    Value::Object(status)
}

fn conditions(pod: &DynamicObject, stage: &Stage, ready: bool, reason: &str, now: Timestamp) -> Value {
    let before = pod.at("/status/conditions");
    let generation = pod.metadata.generation;
    let creating = matches!(stage, Stage::Creating);
    let has_init = items(pod, "/spec/initContainers").next().is_some();
    let names: Vec<&str> = items(pod, "/spec/containers").filter_map(|container| container["name"].as_str()).collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let ended = matches!(stage, Stage::Ended(_));
    let all: [(&str, bool, &str, &str); 5] = [
        ("PodReadyToStartContainers", !creating && !ended, "", ""),
        ("Initialized", !(creating && has_init), if creating && has_init { "ContainersNotInitialized" } else { "" }, ""),
        ("Ready", ready, reason, if creating { &unready } else { "" }),
        ("ContainersReady", ready, reason, if creating { &unready } else { "" }),
        ("PodScheduled", true, "", ""),
    ];
    let mut list = Vec::new();
    for (kind, state, reason, message) in all {
        let state = if state { "True" } else { "False" };
        let since =
            condition(before, kind).filter(|present| present["status"] == state).map(|present| present["lastTransitionTime"].clone());
        let mut next = Map::new();
        next.insert("type".into(), json!(kind));
        if let Some(generation) = generation {
            next.insert("observedGeneration".into(), json!(generation));
        }
        next.insert("status".into(), json!(state));
        next.insert("lastProbeTime".into(), Value::Null);
        next.insert("lastTransitionTime".into(), since.filter(|since| !since.is_null()).unwrap_or_else(|| time(now)));
        for (name, text) in [("reason", reason), ("message", message)] {
            if state == "False" && !text.is_empty() {
                next.insert(name.into(), json!(text));
            }
        }
        list.push(Value::Object(next));
    }
    // Conditions of others (readiness gates, disruption) stay.
    let own = |kind: &Value| all.iter().any(|(name, ..)| kind == name);
    list.extend(before.as_array().into_iter().flatten().filter(|condition| !own(&condition["type"])).cloned());
    Value::Array(list)
}

fn containers(pod: &DynamicObject, pointer: &str, stage: &Stage, init: bool, now: Timestamp) -> Vec<Value> {
    let list = if init { pod.at("/status/initContainerStatuses") } else { pod.at("/status/containerStatuses") };
    let known = |name: &Value| list.as_array().into_iter().flatten().find(|status| status["name"] == *name);
    items(pod, pointer)
        .map(|container| {
            let image = container["image"].as_str().unwrap_or_default();
            let id = identity(pod.uid(), container["name"].as_str().unwrap_or_default());
            let sidecar = init && container["restartPolicy"] == "Always";
            let runs = |since: Value| json!({"running": {"startedAt": since}});
            let ended = |code: i32| {
                let reason = if code == 0 { "Completed" } else { "Error" };
                json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": time(now), "finishedAt": time(now), "containerID": id}})
            };
            let before = known(&container["name"]).and_then(|status| status.pointer("/state/running/startedAt")).cloned();
            let since = before.unwrap_or_else(|| time(now));
            let (state, ready, started) = match stage {
                Stage::Creating => (json!({"waiting": {"reason": if init { "PodInitializing" } else { "ContainerCreating" }}}), false, false),
                Stage::Running if init && !sidecar => {
                    // Init containers ended before, once: their times stay.
                    let before = known(&container["name"]).map(|status| status["state"].clone());
                    (before.filter(|state| !state["terminated"].is_null()).unwrap_or_else(|| ended(0)), true, false)
                }
                Stage::Running => (runs(since), true, true),
                Stage::Ended(code) => (ended(if init { 0 } else { *code }), init, false),
            };
            let mut status = json!({
                "name": container["name"],
                "image": image,
                "imageID": format!("{image}@sha256:{:x}", Sha256::digest(image)),
                "ready": ready,
                "started": started,
                "restartCount": known(&container["name"]).and_then(|status| status["restartCount"].as_i64()).unwrap_or_default(),
                "state": state,
                "lastState": {},
            });
            if matches!(stage, Stage::Creating) {
                status["imageID"] = json!("");
            } else {
                status["containerID"] = json!(id);
            }
            status
        })
        .collect()
}

/// A container's identity: no container exists, so it says which one it would be.
fn identity(uid: &str, name: &str) -> String {
    format!("simulated://{:x}", Sha256::digest(format!("{uid}/{name}")))
}
