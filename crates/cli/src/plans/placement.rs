//! Pods that no node takes (MS-PLAN-01): an operator that is installed, and never runs.

use kube::api::{DynamicObject, ObjectMeta};
use mainstay_apply::ObjectRef;
use mainstay_olm_v1::extension::plan::{Action, Plan};
use mainstay_workloads::scheduler::plan::barred_everywhere;
use serde_json::{Value, json};

/// A warning for each workload of a plan whose pods no node takes, as labels and taints are now.
pub fn unplaced(plan: &Plan, nodes: &[DynamicObject]) -> Vec<String> {
    let comes = matches!(plan.action, Action::Install | Action::Upgrade);
    let objects = plan.record.as_ref().filter(|_| comes).map(|record| record.objects.as_slice()).unwrap_or_default();
    objects.iter().filter_map(|object| waits(object, nodes)).collect()
}

fn waits(object: &Value, nodes: &[DynamicObject]) -> Option<String> {
    let runs = matches!(object["kind"].as_str(), Some("Deployment" | "StatefulSet")) && object["spec"]["replicas"] != 0;
    let pod = DynamicObject { types: None, metadata: ObjectMeta::default(), data: json!({"spec": object["spec"]["template"]["spec"]}) };
    let why = runs.then(|| barred_everywhere(&pod, nodes)).flatten()?;
    let place = ObjectRef::of(object).ok()?;
    Some(format!("{place}: its pods will wait: {why}"))
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
