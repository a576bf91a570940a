//! The plan for a node: its conditions, its taints, and the eviction of its pods, as pure functions (KAPI-WL-01).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use crate::object::{Read as _, condition, items, parse_time, time};
use crate::scheduler::plan::tolerates;

/// The time that a node may be silent.
pub const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// The time that a new node may be silent.
pub const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Conditions that become unknown once the kubelet is silent.
const FOLLOWED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The plan for a node.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Its conditions, if they change.
    pub conditions: Option<Value>,
    /// Its taints, if they change.
    pub taints: Option<Value>,
    /// True if it just became not ready, which is recorded once.
    pub ceased: bool,
    /// True if it is silent, so that none of its pods is ready. This holds as long as the silence: a pod whose update failed is
    /// updated at the next look.
    pub lost: bool,
    /// The time until the next look.
    pub again: Option<Duration>,
}

/// Decides the next changes. `heard` is the time of the kubelet's last sign of life.
pub fn plan(node: &DynamicObject, heard: Option<Timestamp>, now: Timestamp) -> Plan {
    let present = node.at("/status/conditions");
    let ready = condition(present, "Ready");
    let grace = if ready.is_some() { GRACE } else { STARTUP_GRACE };
    let since = heard.unwrap_or_else(|| node.created()).max(node.created());
    let until = since.saturating_add(grace).unwrap_or(Timestamp::MAX);
    let silent = until <= now;
    let mut plan = Plan { lost: silent, ..Plan::default() };
    let mut conditions = present.clone();
    if silent {
        conditions = unknown(node, now);
    } else {
        plan.again = Duration::try_from(until.duration_since(now)).ok();
    }
    let state = |conditions: &Value| condition(conditions, "Ready").and_then(|ready| ready["status"].as_str()).map(str::to_owned);
    plan.ceased = state(present).as_deref() == Some("True") && state(&conditions).as_deref() != Some("True");
    let wanted = taints(node, &conditions, now);
    let own = node.at("/spec/taints").as_array().cloned().unwrap_or_default();
    if own != wanted {
        plan.taints = Some(Value::Array(wanted));
    }
    if conditions != *present {
        plan.conditions = Some(conditions);
    }
    plan
}

/// Returns the conditions of a silent node.
fn unknown(node: &DynamicObject, now: Timestamp) -> Value {
    let mut conditions = node.at("/status/conditions").as_array().cloned().unwrap_or_default();
    for kind in FOLLOWED {
        match conditions.iter_mut().find(|one| one["type"] == kind) {
            Some(one) if one["status"] == "Unknown" => {}
            Some(one) => {
                one["status"] = json!("Unknown");
                one["reason"] = json!("NodeStatusUnknown");
                one["message"] = json!("Kubelet stopped posting node status.");
                one["lastTransitionTime"] = time(now);
            }
            None => conditions.push(json!({
                "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": time(node.created()), "lastTransitionTime": time(now),
            })),
        }
    }
    Value::Array(conditions)
}

/// Returns the taints that a node should have: its own, and those of its state. A taint that stays keeps its time.
fn taints(node: &DynamicObject, conditions: &Value, now: Timestamp) -> Vec<Value> {
    let is = |kind: &str, state: &str| condition(conditions, kind).is_some_and(|one| one["status"] == state);
    let (bad, lost) = (is("Ready", "False"), is("Ready", "Unknown"));
    let wanted = [
        (NOT_READY, "NoSchedule", bad),
        (UNREACHABLE, "NoSchedule", lost),
        ("node.kubernetes.io/memory-pressure", "NoSchedule", is("MemoryPressure", "True")),
        ("node.kubernetes.io/disk-pressure", "NoSchedule", is("DiskPressure", "True")),
        ("node.kubernetes.io/pid-pressure", "NoSchedule", is("PIDPressure", "True")),
        ("node.kubernetes.io/network-unavailable", "NoSchedule", is("NetworkUnavailable", "True")),
        ("node.kubernetes.io/unschedulable", "NoSchedule", node.at("/spec/unschedulable") == &json!(true)),
        (NOT_READY, "NoExecute", bad),
        (UNREACHABLE, "NoExecute", lost),
    ];
    let place = |taint: &Value| wanted.iter().find(|(key, effect, _)| taint["key"] == *key && taint["effect"] == *effect);
    let mut taints: Vec<Value> =
        items(node, "/spec/taints").filter(|taint| place(taint).is_none_or(|(.., wanted)| *wanted)).cloned().collect();
    for (key, effect, _) in wanted.iter().filter(|(.., wanted)| *wanted) {
        if !taints.iter().any(|taint| taint["key"] == *key && taint["effect"] == *effect) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": time(now)}));
        }
    }
    taints
}

/// Returns the time at which a pod must leave its node because of NoExecute taints; `None` if it may stay for good.
pub fn evicted_at(pod: &DynamicObject, node: &DynamicObject) -> Option<Timestamp> {
    let taints = items(node, "/spec/taints").filter(|taint| taint["effect"] == "NoExecute");
    taints
        .filter_map(|taint| {
            let added = parse_time(&taint["timeAdded"]).unwrap_or_else(|| node.created()).max(pod.created());
            let mut bearable: Option<Option<i64>> = None;
            for toleration in items(pod, "/spec/tolerations").filter(|toleration| tolerates(toleration, taint)) {
                let seconds = toleration["tolerationSeconds"].as_i64();
                // The shortest of several toleration times.
                bearable = Some(match bearable {
                    Some(Some(less)) => Some(seconds.map_or(less, |seconds| less.min(seconds))),
                    _ => seconds,
                });
            }
            match bearable {
                Some(None) => None,
                Some(Some(seconds)) => Some(added.saturating_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX)),
                None => Some(Timestamp::MIN),
            }
        })
        .min()
}

/// Returns the DisruptionTarget condition of a pod, for its list of conditions.
pub fn disrupted(pod: &DynamicObject, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut own = Map::new();
    own.insert("type".into(), json!("DisruptionTarget"));
    if let Some(generation) = pod.metadata.generation {
        own.insert("observedGeneration".into(), json!(generation));
    }
    for (name, value) in [
        ("status", json!("True")),
        ("lastProbeTime", Value::Null),
        ("lastTransitionTime", time(now)),
        ("reason", json!(reason)),
        ("message", json!(message)),
    ] {
        own.insert(name.into(), value);
    }
    Value::Object(own)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use super::*;

    const NOW: &str = "2026-01-01T10:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn node(spec: Value, ready: Option<&str>) -> DynamicObject {
        let conditions: Vec<Value> = ready.iter().map(|state| json!({"type": "Ready", "status": state})).collect();
        let metadata = json!({"name": "n", "creationTimestamp": "2026-01-01T09:00:00Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}})).unwrap()
    }

    fn keys(plan: &Plan) -> Option<Vec<String>> {
        let text = |taint: &Value| {
            format!("{}:{}", taint["key"].as_str().unwrap().trim_start_matches("node.kubernetes.io/"), taint["effect"].as_str().unwrap())
        };
        plan.taints.as_ref().map(|taints| taints.as_array().unwrap().iter().map(text).collect())
    }

    /// KAPI-WL-01: silence, conditions and taints.
    #[test]
    fn taints_follow_conditions() {
        let heard = Some(at("2026-01-01T09:59:30Z"));
        let long_ago = Some(at("2026-01-01T09:59:00Z"));
        let own = json!({"key": "mine", "effect": "NoSchedule"});
        let lost = ["unreachable:NoSchedule", "unreachable:NoExecute"];
        let bad = ["not-ready:NoSchedule", "not-ready:NoExecute"];
        let none: &[&str] = &[];
        let cases = [
            ("well", json!({}), Some("True"), heard, None, false),
            ("not well", json!({}), Some("False"), heard, Some(&bad[..]), false),
            ("silent", json!({}), Some("True"), long_ago, Some(&lost[..]), true),
            ("never heard of", json!({}), None, None, Some(&lost[..]), false),
            (
                "well again",
                json!({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}),
                Some("True"),
                heard,
                Some(none),
                false,
            ),
            (
                "closed",
                json!({"unschedulable": true, "taints": [own]}),
                Some("True"),
                heard,
                Some(&["mine:NoSchedule", "unschedulable:NoSchedule"][..]),
                false,
            ),
            ("only its own", json!({"taints": [own]}), Some("True"), heard, None, false),
            (
                "admitted, and no word of it yet",
                json!({"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}),
                None,
                heard,
                Some(none),
                false,
            ),
        ];
        for (name, spec, ready, heard, expected, ceased) in cases {
            let plan = plan(&node(spec, ready), heard, at(NOW));
            let keys = keys(&plan);
            assert_eq!(
                keys.as_deref(),
                expected.map(|list| list.iter().map(|&key| key.to_owned()).collect::<Vec<_>>()).as_deref(),
                "{name}"
            );
            assert_eq!(plan.ceased, ceased, "{name}");
        }
        // What was written of a node before something else failed does not hide that it is lost.
        let half = plan(&node(json!({}), Some("Unknown")), long_ago, at(NOW));
        assert_eq!((half.ceased, half.lost), (false, true));
        assert!(!plan(&node(json!({}), Some("Unknown")), heard, at(NOW)).lost, "it was heard of again");
        let young = plan(&node(json!({}), Some("True")), heard, at(NOW));
        assert_eq!(young.again, Some(Duration::from_secs(20)));
    }

    /// KAPI-WL-01: tolerationSeconds run from when the taint came.
    #[test]
    fn pods_leave_when_they_tolerate_no_longer() {
        let taint = json!({"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": "2026-01-01T09:59:00Z"});
        let node = node(json!({"taints": [taint, {"key": "soft", "effect": "NoSchedule"}]}), Some("Unknown"));
        let pod = |tolerations: Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"tolerations": tolerations}})).unwrap()
        };
        let exists =
            |seconds: Value| json!({"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        assert_eq!(evicted_at(&pod(json!([])), &node), Some(Timestamp::MIN));
        assert_eq!(evicted_at(&pod(json!([exists(json!(300))])), &node), Some(at("2026-01-01T10:04:00Z")));
        assert_eq!(evicted_at(&pod(json!([exists(json!(300)), exists(json!(60))])), &node), Some(at(NOW)));
        assert_eq!(evicted_at(&pod(json!([{"operator": "Exists"}])), &node), None);
    }
}
