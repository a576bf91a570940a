//! MachineSet, `machine.openshift.io/v1beta1`.

use serde_json::json;

use super::parts::{conditions, int32, int64, machine_spec, metadata, object, one_of, selector, text};
use super::{Kind, MACHINE_GROUP, column};

pub(super) fn kind() -> Kind {
    let mut replicas = int32("Machines that are wanted.");
    replicas["default"] = json!(1);
    Kind {
        group: MACHINE_GROUP,
        version: "v1beta1",
        name: "MachineSet",
        plural: "machinesets",
        short_names: &[],
        description: "A number of like machines.",
        columns: vec![
            column("Desired", "integer", ".spec.replicas"),
            column("Current", "integer", ".status.replicas"),
            column("Ready", "integer", ".status.readyReplicas"),
            column("Available", "string", ".status.availableReplicas"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        spec: object(
            "The machines that are wanted.",
            json!({
                "deletePolicy": one_of(&["Random", "Newest", "Oldest"], "Which machines go first when there are too many; Random if empty."),
                "minReadySeconds": int32("Seconds that a node must be ready until its machine counts as available."),
                "replicas": replicas,
                "selector": selector("Which machines are the set's; it must match the labels of the template."),
                "template": object("What machines are made of.", json!({
                    "metadata": metadata("Labels and annotations of the machines."),
                    "spec": machine_spec("Spec of the machines."),
                })),
            }),
        ),
        status: object(
            "The machines as they are.",
            json!({
                "availableReplicas": int32("Machines whose nodes have been ready for long enough."),
                "conditions": conditions(),
                "errorMessage": text("What went wrong for good, for people."),
                "errorReason": text("What went wrong for good, in one word."),
                "fullyLabeledReplicas": int32("Machines with all labels of the template."),
                "observedGeneration": int64("The generation that this status is about."),
                "readyReplicas": int32("Machines whose nodes are ready."),
                "replicas": int32("Machines that are not being deleted."),
            }),
        ),
        scale: true,
        rules: Vec::new(),
    }
}
