//! MachineHealthCheck, `machine.openshift.io/v1beta1`.

use serde_json::json;

use super::parts::{conditions, int32, object, reference, selector};
use super::{Kind, MACHINE_GROUP, column};

/// A duration as Go writes it.
const DURATION: &str = "^([0-9]+(\\.[0-9]+)?(ns|us|\u{b5}s|ms|s|m|h))+$";
/// The same, or 0.
const DURATION_OR_ZERO: &str = "^0|([0-9]+(\\.[0-9]+)?(ns|us|\u{b5}s|ms|s|m|h))+$";

pub(super) fn kind() -> Kind {
    let condition = object(
        "A condition of nodes.",
        json!({
            "status": {"type": "string", "minLength": 1, "description": "Its status."},
            "timeout": {"type": "string", "pattern": DURATION, "description": "How long a node may be in it."},
            "type": {"type": "string", "minLength": 1, "description": "Its type."},
        }),
    );
    let unhealthy = json!({
        "type": "array", "minItems": 1, "items": condition,
        "description": "Conditions that make a node unhealthy; any of them is enough.",
    });
    let max_unhealthy = json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
        "default": "100%",
        "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$",
        "description": "Machines that may be unhealthy; if more are, nothing is done.",
    });
    let startup = json!({
        "type": "string", "default": "10m", "pattern": DURATION_OR_ZERO,
        "description": "The time that a machine has to get a node; 0 means for ever.",
    });
    let count = |description: &str| json!({"type": "integer", "minimum": 0, "description": description});
    let mut allowed = int32("Machines that may still be remediated.");
    allowed["minimum"] = json!(0);
    Kind {
        group: MACHINE_GROUP,
        version: "v1beta1",
        name: "MachineHealthCheck",
        plural: "machinehealthchecks",
        short_names: &["mhc", "mhcs"],
        description: "Replaces machines whose nodes are unhealthy.",
        columns: vec![
            column("MaxUnhealthy", "string", ".spec.maxUnhealthy"),
            column("ExpectedMachines", "integer", ".status.expectedMachines"),
            column("CurrentHealthy", "integer", ".status.currentHealthy"),
        ],
        spec: object(
            "What is healthy.",
            json!({
                "maxUnhealthy": max_unhealthy,
                "nodeStartupTimeout": startup,
                "remediationTemplate": reference("A template of requests to another controller, which then remediates."),
                "selector": selector("Which machines are looked at; all if it is empty."),
                "unhealthyConditions": unhealthy,
            }),
        ),
        status: object(
            "What was found.",
            json!({
                "conditions": conditions(),
                "currentHealthy": count("Healthy machines."),
                "expectedMachines": count("Machines that are looked at."),
                "remediationsAllowed": allowed,
            }),
        ),
        scale: false,
        rules: Vec::new(),
    }
}
