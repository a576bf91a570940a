//! Pods that fit on no node, and pods that a webhook refuses (MS-PLAN-01): operators that are installed but never run, or that stop others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::api::{DynamicObject, ObjectMeta};
use mainstay_lifecycle::change::Action;
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::extension::plan::Plan;
use mainstay_olm_v1_core::extension::webhooks::{Simulation, Unanswered};
use mainstay_workloads::scheduler::plan::barred_everywhere;
use serde_json::{Value, json};

/// Returns a warning for each workload of a plan whose pods fit on no node, with the present labels and taints.
pub fn unplaced(plan: &Plan, nodes: &[DynamicObject]) -> Vec<String> {
    coming(plan).iter().filter_map(|object| waits(object, nodes)).collect()
}

/// Returns a warning for each webhook of a plan whose pods will be simulated.
pub fn stopping(plan: &Plan, simulation: &Simulation) -> Vec<String> {
    simulation.unanswered(coming(plan)).iter().map(|hook| format!("{}\n{}", hook.consequence(), hook.ways_out())).collect()
}

/// Returns a warning for each existing webhook that will refuse the pods of a plan's workloads. `namespaces` has the labels of each
/// namespace.
pub fn stopped(plan: &Plan, unanswered: &[Unanswered], namespaces: &HashMap<String, BTreeMap<String, String>>) -> Vec<String> {
    let mut own: Vec<(&str, &str)> = Vec::new();
    for object in coming(plan) {
        own.extend(object["kind"].as_str().zip(object["metadata"]["name"].as_str()));
    }
    let others = unanswered.iter().filter(|hook| !own.contains(&(hook.configuration.0.as_str(), hook.configuration.1.as_str())));
    let mut warnings = Vec::new();
    for hook in others {
        let refused: Vec<String> = workloads(plan).filter(|object| stops(hook, object, namespaces)).filter_map(titled).collect();
        if !refused.is_empty() {
            warnings.push(format!("pods of {} will be refused: {}\n{}", refused.join(", "), hook.consequence(), hook.ways_out()));
        }
    }
    warnings
}

/// Returns the namespaces of a plan's workloads.
pub fn namespaces(plan: &Plan) -> BTreeSet<String> {
    workloads(plan).filter_map(|object| object["metadata"]["namespace"].as_str()).map(str::to_owned).collect()
}

/// Returns the objects that a plan brings.
fn coming(plan: &Plan) -> &[Value] {
    let comes = matches!(plan.action, Action::Install | Action::Upgrade);
    plan.record.as_ref().filter(|_| comes).map(|record| record.objects.as_slice()).unwrap_or_default()
}

fn workloads(plan: &Plan) -> impl Iterator<Item = &Value> {
    coming(plan).iter().filter(|object| runs(object))
}

fn runs(object: &Value) -> bool {
    matches!(object["kind"].as_str(), Some("Deployment" | "StatefulSet")) && object["spec"]["replicas"] != 0
}

fn titled(object: &Value) -> Option<String> {
    ObjectRef::of(object).ok().map(|place| place.to_string())
}

fn stops(hook: &Unanswered, workload: &Value, namespaces: &HashMap<String, BTreeMap<String, String>>) -> bool {
    let labels = workload["spec"]["template"]["metadata"]["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    let namespace = workload["metadata"]["namespace"].as_str().and_then(|name| namespaces.get(name));
    namespace.is_some_and(|namespace| hook.stops_pod(&labels, namespace))
}

fn waits(object: &Value, nodes: &[DynamicObject]) -> Option<String> {
    let pod = DynamicObject { types: None, metadata: ObjectMeta::default(), data: json!({"spec": object["spec"]["template"]["spec"]}) };
    let why = runs(object).then(|| barred_everywhere(&pod, nodes)).flatten()?;
    Some(format!("{}: its pods will wait: {why}", titled(object)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MS-PLAN-01: taints, selectors and affinity speak against a node; a pod that one node takes, and one that is not wanted yet, do not wait.
    #[test]
    fn pods_that_no_node_takes_are_told() {
        let node = |name: &str, labels: Value, taints: Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})).unwrap()
        };
        let control = "node-role.kubernetes.io/control-plane";
        let nodes = [
            node("a", json!({control: ""}), json!([{"key": control, "effect": "NoSchedule"}])),
            node("b", json!({"disk": "fast"}), json!([])),
        ];
        let told = |replicas: u32, spec: Value, nodes: &[DynamicObject]| {
            let object = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
                "spec": {"replicas": replicas, "template": {"spec": spec}},
            });
            waits(&object, nodes)
        };
        let on_control = json!({"nodeSelector": {control: ""}});
        let why = format!(
            "Deployment n/d: its pods will wait: 0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {{{control}: }}"
        );
        assert_eq!(told(1, on_control.clone(), &nodes), Some(why));
        assert_eq!(told(0, on_control.clone(), &nodes), None);
        assert_eq!(told(1, on_control.clone(), &[]), None);
        let tolerant = json!({"nodeSelector": {control: ""}, "tolerations": [{"operator": "Exists"}]});
        assert_eq!(told(1, tolerant, &nodes), None);
        assert_eq!(told(1, json!({"nodeSelector": {"disk": "fast"}}), &nodes), None);
        assert!(told(1, json!({"nodeSelector": {"disk": "slow"}}), &nodes).is_some());
        let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]}}}});
        assert!(told(1, affinity, &nodes[1..]).is_some());
    }
}
