//! The plan for a DaemonSet: the nodes that get a pod, the pods that are deleted, and the status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use crate::object::{Object, Read as _, items, put};
use crate::pod;
use crate::revision::HASH;
use crate::scheduler::affinity::matches_node;
use crate::scheduler::plan::tolerated;

const GENERATION: &str = "deprecated.daemonset.template.generation";

/// The facts that a decision rests on.
pub struct Facts<'a> {
    /// The DaemonSet.
    pub set: &'a DynamicObject,
    /// The hash of its current template.
    pub hash: &'a str,
    /// Its pods.
    pub pods: &'a [Object],
    /// All nodes.
    pub nodes: &'a [Object],
    /// The current time.
    pub now: Timestamp,
}

/// The plan for the pods.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// The nodes that get a pod.
    pub make: Vec<String>,
    /// The pods that are deleted.
    pub delete: Vec<Object>,
}

/// Builds the pod for a node. Node affinity assigns it, so the scheduler still decides.
pub fn body(set: &DynamicObject, hash: &str, node: &str) -> Value {
    let mut body = pod::from_template(set.at("/spec/template"), "apps/v1", "DaemonSet", set);
    body["metadata"]["labels"][HASH] = json!(hash);
    let generation = set.annotation(GENERATION).map_or_else(|| set.metadata.generation.unwrap_or(1).to_string(), str::to_owned);
    body["metadata"]["labels"]["pod-template-generation"] = json!(generation);
    let term = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let affinity = &mut body["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"];
    match affinity.as_array_mut().filter(|terms| !terms.is_empty()) {
        Some(terms) => terms.iter_mut().for_each(|one| one["matchFields"] = term.clone()),
        None => *affinity = json!([{"matchFields": term}]),
    }
    let mut tolerations = body["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    for toleration in own_tolerations(set) {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    body["spec"]["tolerations"] = json!(tolerations);
    body
}

/// Returns the tolerations of every pod of a DaemonSet, in upstream's order.
fn own_tolerations(set: &DynamicObject) -> Vec<Value> {
    let toleration = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    let mut all = vec![
        toleration("not-ready", "NoExecute"),
        toleration("unreachable", "NoExecute"),
        toleration("disk-pressure", "NoSchedule"),
        toleration("memory-pressure", "NoSchedule"),
        toleration("pid-pressure", "NoSchedule"),
        toleration("unschedulable", "NoSchedule"),
    ];
    if set.at("/spec/template/spec/hostNetwork") == &json!(true) {
        all.push(toleration("network-unavailable", "NoSchedule"));
    }
    all
}

/// Builds the pod that a DaemonSet would give a node; `None` if it gives none.
pub fn pod_for(set: &DynamicObject, node: &DynamicObject) -> Option<Value> {
    fits(set, node).0.then(|| body(set, "", node.name()))
}

/// Returns two answers: if a pod should start on a node, and if an existing one may stay.
fn fits(set: &DynamicObject, node: &DynamicObject) -> (bool, bool) {
    let mut spec = set.at("/spec/template/spec").clone();
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    tolerations.extend(own_tolerations(set));
    spec["tolerations"] = json!(tolerations);
    let pod = DynamicObject { types: None, metadata: kube::api::ObjectMeta::default(), data: json!({"spec": spec}) };
    if !matches_node(&pod, node) {
        return (false, false);
    }
    let untolerated = |effect: &str| items(node, "/spec/taints").any(|taint| taint["effect"] == effect && !tolerated(&pod, taint));
    let evicted = untolerated("NoExecute");
    (!evicted && !untolerated("NoSchedule"), !evicted)
}

/// Returns the node that a pod is on, or is meant for.
fn node_of(pod: &DynamicObject) -> &str {
    let assigned = pod.text("/spec/nodeName");
    if !assigned.is_empty() {
        return assigned;
    }
    pod.text("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0")
}

fn by_node<'a>(facts: &Facts<'a>) -> BTreeMap<&'a str, Vec<&'a Object>> {
    let mut by_node: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
    for pod in facts.pods {
        by_node.entry(node_of(pod)).or_default().push(pod);
    }
    by_node
}

/// Decides the next changes.
pub fn plan(facts: &Facts<'_>) -> Plan {
    let mut plan = Plan::default();
    let by_node = by_node(facts);
    let rolling = facts.set.text("/spec/updateStrategy/type") != "OnDelete";
    let min_ready = facts.set.int("/spec/minReadySeconds").unwrap_or_default();
    let mut wanted = 0;
    let mut unavailable = 0;
    let mut old: Vec<(bool, Object)> = Vec::new();
    let surges = rolling && pod::scaled(facts.set.at("/spec/updateStrategy/rollingUpdate/maxSurge"), 100, true) > 0;
    let updated = |pod: &Object| pod.labels().get(HASH).map(String::as_str) == Some(facts.hash);
    let (mut surging, mut outdated): (i64, Vec<(bool, String)>) = (0, Vec::new());
    for node in facts.nodes {
        let (begin, stay) = fits(facts.set, node);
        let there = by_node.get(node.name()).map(Vec::as_slice).unwrap_or_default();
        wanted += i64::from(begin);
        if begin && there.is_empty() {
            plan.make.push(node.name().to_owned());
            unavailable += 1;
            continue;
        }
        let living: Vec<&&Object> = there.iter().filter(|pod| !pod.deleting()).collect();
        if !stay {
            plan.delete.extend(living.into_iter().map(|pod| (**pod).clone()));
            continue;
        }
        // Pods that have ended are replaced once they are gone; of several running ones, the oldest stays.
        let (ended, mut running): (Vec<&&Object>, Vec<&&Object>) = living.into_iter().partition(|pod| pod::finished(pod));
        plan.delete.extend(ended.into_iter().map(|pod| (**pod).clone()));
        running.sort_by_key(|pod| (pod.text("/spec/nodeName").is_empty(), pod.created()));
        if surges {
            // A new pod may start beside an old one; once it is available, the old one is deleted.
            let new = running.iter().position(|pod| updated(pod)).map(|at| running.remove(at));
            let before = running.iter().position(|pod| !updated(pod)).map(|at| running.remove(at));
            plan.delete.extend(running.iter().map(|pod| (**pod).clone()));
            match (before, new) {
                (Some(before), Some(new)) => {
                    surging += 1;
                    if pod::available(new, min_ready, facts.now) {
                        plan.delete.push((**before).clone());
                    }
                }
                (Some(before), None) => outdated.push((pod::available(before, min_ready, facts.now), node.name().to_owned())),
                _ => {}
            }
            continue;
        }
        plan.delete.extend(running.iter().skip(1).map(|pod| (***pod).clone()));
        match running.first() {
            Some(pod) => {
                let available = pod::available(pod, min_ready, facts.now);
                unavailable += i64::from(begin && !available);
                if pod.labels().get(HASH).map(String::as_str) != Some(facts.hash) {
                    old.push((available, (***pod).clone()));
                }
            }
            None => unavailable += i64::from(begin),
        }
    }
    // The pods of a deleted node are deleted.
    for (name, pods) in &by_node {
        if !facts.nodes.iter().any(|node| node.name() == *name) {
            plan.delete.extend(pods.iter().filter(|pod| !pod.deleting()).map(|pod| (*pod).clone()));
        }
    }
    if surges {
        let most = pod::scaled(facts.set.at("/spec/updateStrategy/rollingUpdate/maxSurge"), wanted, true).max(1);
        let mut left = (most - surging).max(0);
        for (available, node) in outdated {
            // If the old pod is not available, a new one can only help.
            if available {
                if left == 0 {
                    continue;
                }
                left -= 1;
            }
            plan.make.push(node);
        }
    } else if rolling {
        let most = pod::scaled(facts.set.at("/spec/updateStrategy/rollingUpdate/maxUnavailable"), wanted, true).max(1);
        let mut left = (most - unavailable).max(0);
        for (available, pod) in old {
            // The deletion of an unavailable pod costs nothing.
            if available {
                if left == 0 {
                    continue;
                }
                left -= 1;
            }
            plan.delete.push(pod);
        }
    }
    plan
}

/// Returns the status.
pub fn status(facts: &Facts<'_>) -> Value {
    let by_node = by_node(facts);
    let min_ready = facts.set.int("/spec/minReadySeconds").unwrap_or_default();
    let (mut desired, mut current, mut misplaced, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0, 0);
    for node in facts.nodes {
        let (begin, _) = fits(facts.set, node);
        let there = by_node.get(node.name()).and_then(|pods| pods.iter().min_by_key(|pod| (pod.deleting(), pod.created())));
        if !begin {
            misplaced += i64::from(there.is_some());
            continue;
        }
        desired += 1;
        let Some(pod) = there else { continue };
        current += 1;
        ready += i64::from(pod::ready(pod));
        available += i64::from(pod::available(pod, min_ready, facts.now));
        updated += i64::from(pod.labels().get(HASH).map(String::as_str) == Some(facts.hash));
    }
    let mut status = Map::new();
    status.insert("currentNumberScheduled".into(), json!(current));
    status.insert("numberMisscheduled".into(), json!(misplaced));
    status.insert("desiredNumberScheduled".into(), json!(desired));
    status.insert("numberReady".into(), json!(ready));
    put(&mut status, "observedGeneration", facts.set.metadata.generation.unwrap_or_default());
    put(&mut status, "updatedNumberScheduled", updated);
    put(&mut status, "numberAvailable", available);
    put(&mut status, "numberUnavailable", desired - available);
    Value::Object(status)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use std::sync::Arc;

    use super::*;

    fn object(value: Value) -> Object {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn node(name: &str) -> Object {
        object(json!({"metadata": {"name": name, "uid": name}, "spec": {}}))
    }

    fn pod(name: &str, node: &str, hash: &str, ready: bool) -> Object {
        let state = if ready { "True" } else { "False" };
        let metadata =
            json!({"name": name, "uid": name, "labels": {HASH: hash}, "creationTimestamp": format!("2026-01-01T00:00:0{}Z", name.len())});
        object(
            json!({"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": state}]}}),
        )
    }

    fn decide(strategy: Value, pods: &[Object]) -> (Vec<String>, Vec<String>) {
        let set = object(json!({"metadata": {"name": "d", "uid": "d"}, "spec": {"template": {"spec": {}}, "updateStrategy": strategy}}));
        let nodes = [node("a"), node("b"), node("c")];
        let facts = Facts { set: &set, hash: "new", pods, nodes: &nodes, now: "2026-01-01T00:10:00Z".parse().unwrap() };
        let decided = plan(&facts);
        (decided.make, decided.delete.iter().map(|pod| pod.name().to_owned()).collect())
    }

    /// KAPI-WL-01: which nodes get a pod and which pods go, by update strategy.
    #[test]
    fn updates() {
        let rolling = |unavailable: Value, surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}});
        let old = || vec![pod("p", "a", "old", true), pod("pp", "b", "old", true), pod("ppp", "c", "old", true)];
        let with = |more: Object| {
            let mut pods = old();
            pods.push(more);
            pods
        };
        let none: [&str; 0] = [];
        let cases: [(&str, Value, Vec<Object>, &[&str], &[&str]); 8] = [
            ("nothing there", rolling(json!(1), json!(0)), Vec::new(), &["a", "b", "c"], &none),
            ("one at a time", rolling(json!(1), json!(0)), old(), &none, &["p"]),
            ("two thirds", rolling(json!("60%"), json!(0)), old(), &none, &["p", "pp"]),
            ("one is away", rolling(json!(1), json!(0)), old()[1..].to_vec(), &["a"], &none),
            ("by hand", json!({"type": "OnDelete"}), old(), &none, &none),
            ("one more at a time", rolling(json!(0), json!(1)), old(), &["a"], &none),
            ("the new one begins", rolling(json!(0), json!(1)), with(pod("pppp", "a", "new", false)), &none, &none),
            ("the new one serves", rolling(json!(0), json!(1)), with(pod("pppp", "a", "new", true)), &none, &["p"]),
        ];
        for (name, strategy, pods, make, delete) in cases {
            let (made, deleted) = decide(strategy, &pods);
            assert_eq!(
                (made, deleted),
                (make.iter().map(ToString::to_string).collect(), delete.iter().map(ToString::to_string).collect()),
                "{name}"
            );
        }
    }
}
