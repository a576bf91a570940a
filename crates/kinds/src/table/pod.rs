//! The cells of a pod: the summary of its containers' states.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::format::{NONE, human_duration, seconds_since};
use crate::validate::{flag, int, list, text};

pub(super) fn cells(pod: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let null = Value::Null;
    let (spec, status) = (pod.get("spec").unwrap_or(&null), pod.get("status").unwrap_or(&null));
    let summary = summary(pod, spec, status);
    let restarts = match summary.last_restart.as_ref().and_then(|time| seconds_since(Some(time), now)) {
        Some(seconds) if summary.restarts > 0 => format!("{} ({} ago)", summary.restarts, human_duration(seconds)),
        _ => summary.restarts.to_string(),
    };
    let or_none = |text: &str| json!(if text.is_empty() { NONE } else { text });
    let address = status.pointer("/podIPs/0/ip").and_then(Value::as_str).unwrap_or(text(status, "podIP"));
    let gates = list(spec, "readinessGates");
    let open = gates
        .iter()
        .filter(|gate| {
            list(status, "conditions")
                .iter()
                .any(|condition| text(condition, "type") == text(gate, "conditionType") && text(condition, "status") == "True")
        })
        .count();
    vec![
        name,
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(restarts),
        age,
        or_none(address),
        or_none(text(spec, "nodeName")),
        or_none(text(status, "nominatedNodeName")),
        if gates.is_empty() { json!(NONE) } else { json!(format!("{open}/{}", gates.len())) },
    ]
}

struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Value>,
}

fn summary(pod: &Value, spec: &Value, status: &Value) -> Summary {
    let mut out = Summary {
        reason: text(status, "phase").to_owned(),
        ready: 0,
        total: list(spec, "containers").len(),
        restarts: 0,
        last_restart: None,
    };
    if !text(status, "reason").is_empty() {
        text(status, "reason").clone_into(&mut out.reason);
    }
    let condition = |kind: &str| list(status, "conditions").iter().find(|condition| text(condition, "type") == kind);
    if condition("PodScheduled").is_some_and(|condition| text(condition, "reason") == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut out.reason);
    }
    let sidecars: Vec<&str> = list(spec, "initContainers")
        .iter()
        .filter(|container| text(container, "restartPolicy") == "Always")
        .map(|container| text(container, "name"))
        .collect();
    out.total += sidecars.len();
    let (initializing, sidecar_restarts) = init_state(spec, status, &sidecars, &mut out);
    let initialized = condition("Initialized").is_some_and(|condition| text(condition, "status") == "True");
    if !initializing || initialized {
        out.restarts = sidecar_restarts;
        let running = container_states(status, &mut out);
        if out.reason == "Completed" && running {
            let ready = condition("Ready").is_some_and(|condition| text(condition, "status") == "True");
            (if ready { "Running" } else { "NotReady" }).clone_into(&mut out.reason);
        }
    }
    if pod.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        let phase = text(status, "phase");
        if text(status, "reason") == "NodeLost" {
            "Unknown".clone_into(&mut out.reason);
        } else if phase != "Failed" && phase != "Succeeded" {
            "Terminating".clone_into(&mut out.reason);
        }
    }
    out
}

fn ended(terminated: &Value) -> String {
    if !text(terminated, "reason").is_empty() {
        return text(terminated, "reason").to_owned();
    }
    match int(terminated, "signal").unwrap_or(0) {
        0 => format!("ExitCode:{}", int(terminated, "exitCode").unwrap_or(0)),
        signal => format!("Signal:{signal}"),
    }
}

fn note_restart(status: &Value, out: &mut Summary) {
    if let Some(time) = status.pointer("/lastState/terminated/finishedAt").filter(|time| time.is_string()) {
        let later = out.last_restart.as_ref().and_then(Value::as_str).is_none_or(|known| known < time.as_str().unwrap_or_default());
        if later {
            out.last_restart = Some(time.clone());
        }
    }
}

/// Returns true if an init container is still at work, and the number of sidecar restarts.
fn init_state(spec: &Value, status: &Value, sidecars: &[&str], out: &mut Summary) -> (bool, i64) {
    let mut sidecar_restarts = 0;
    for (index, container) in list(status, "initContainerStatuses").iter().enumerate() {
        let count = int(container, "restartCount").unwrap_or(0);
        out.restarts += count;
        note_restart(container, out);
        let sidecar = sidecars.contains(&text(container, "name"));
        if sidecar {
            sidecar_restarts += count;
        }
        let state = container.get("state").unwrap_or(&Value::Null);
        if let Some(terminated) = state.get("terminated") {
            if int(terminated, "exitCode").unwrap_or(0) == 0 {
                continue;
            }
            out.reason = format!("Init:{}", ended(terminated));
            return (true, sidecar_restarts);
        }
        if sidecar && flag(container, "started") {
            out.ready += usize::from(flag(container, "ready"));
            continue;
        }
        let waiting = state.get("waiting").map_or("", |waiting| text(waiting, "reason"));
        out.reason = if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", list(spec, "initContainers").len())
        };
        return (true, sidecar_restarts);
    }
    (false, sidecar_restarts)
}

/// Returns true if any container runs; the first one's trouble is what is shown.
fn container_states(status: &Value, out: &mut Summary) -> bool {
    let mut running = false;
    for container in list(status, "containerStatuses").iter().rev() {
        out.restarts += int(container, "restartCount").unwrap_or(0);
        note_restart(container, out);
        let state = container.get("state").unwrap_or(&Value::Null);
        let waiting = state.get("waiting").map_or("", |waiting| text(waiting, "reason"));
        if !waiting.is_empty() {
            waiting.clone_into(&mut out.reason);
        } else if let Some(terminated) = state.get("terminated") {
            out.reason = ended(terminated);
        } else if flag(container, "ready") && state.get("running").is_some() {
            running = true;
            out.ready += 1;
        }
    }
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pod: &Value) -> (String, String, String) {
        let cells = cells(pod, json!("p"), json!(""), Timestamp::UNIX_EPOCH);
        let text = |at: usize| cells[at].as_str().unwrap_or_default().to_owned();
        (text(1), text(2), text(3))
    }

    /// KAPI-REST-06: what a pod's containers do is summed up as kubectl's users know it.
    #[test]
    fn states() {
        let two = json!([{"name": "a"}, {"name": "b"}]);
        let case = |status: Value| json!({"spec": {"containers": two}, "status": status});
        let expect = |ready: &str, reason: &str, restarts: &str| (ready.to_owned(), reason.to_owned(), restarts.to_owned());
        assert_eq!(shown(&case(json!({"phase": "Pending"}))), expect("0/2", "Pending", "0"));
        assert_eq!(
            shown(&case(json!({"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}}},
                {"name": "b", "ready": false, "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"finishedAt": "1969-12-31T23:58:00Z"}}}]}))),
            expect("1/2", "CrashLoopBackOff", "3 (2m ago)")
        );
        assert_eq!(
            shown(&case(json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}]}))),
            expect("0/2", "ExitCode:3", "0")
        );
        let initial = json!({"spec": {"containers": two, "initContainers": [{"name": "i"}, {"name": "j"}]}, "status": {"phase": "Pending",
            "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "j", "state": {"running": {}}}]}});
        assert_eq!(shown(&initial), expect("0/2", "Init:1/2", "0"));
        let mut going = case(json!({"phase": "Running"}));
        going["metadata"] = json!({"deletionTimestamp": "1970-01-01T00:00:00Z"});
        assert_eq!(shown(&going), expect("0/2", "Terminating", "0"));
    }
}
