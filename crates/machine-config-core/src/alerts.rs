//! Alerts about the configuration of nodes, as far as it is measured here, with upstream's names and conditions (MACH-OPER-05). A release brings its own
//! objects of these names, which take the place of ours.

use serde_json::{Value, json};

use crate::NAMESPACE;

/// Returns the objects, one for each part that measures.
pub fn rules() -> Vec<Value> {
    let alert = |name: &str, expression: &str, summary: &str, description: &str| {
        json!({
            "alert": name, "expr": expression, "labels": {"namespace": NAMESPACE, "severity": "warning"},
            "annotations": {"summary": summary, "description": description},
        })
    };
    let object = |name: &str, rules: Vec<Value>| {
        json!({
            "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"groups": [{"name": format!("{name}.rules"), "rules": rules}]},
        })
    };
    vec![
        object(
            "machine-config-operator",
            vec![alert(
                "MCODrainOverrideConfigMapAlert",
                "mco_image_registry_drain_override_exists > 0",
                "Changes of registries do not drain nodes.",
                "ConfigMap image-registry-override-drain is there, which is deprecated: use a node disruption policy.",
            )],
        ),
        object(
            "machine-config-controller",
            vec![
                alert(
                    "MCCDrainError",
                    "mcc_drain_err > 0",
                    "The drain of a node has not ended in an hour.",
                    "Node {{ $labels.exported_node }} is not drained, and its update waits: mainstay explain node {{ $labels.exported_node }} names \
                     what blocks it.",
                ),
                alert(
                    "MCCPoolAlert",
                    "mcc_pool_alert > 0",
                    "A custom pool selects a node of the control plane.",
                    "Node {{ $labels.exported_node }} has labels of several pools, and one of them is not honoured.",
                ),
            ],
        ),
        object(
            "machine-config-daemon",
            vec![alert(
                "MissingMachineConfig",
                "mcd_missing_mc > 0",
                "A node is asked for a MachineConfig that is not there.",
                "MachineConfig {{ $labels.mc }} was deleted while nodes need it.",
            )],
        ),
    ]
}
