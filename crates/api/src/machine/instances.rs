//! SimInstance, `sim.mainstay.dev/v1alpha1`: what the simulated provider runs (MACH-PROV-05).

use serde_json::json;

use super::parts::{flag, int32, object, one_of, requiring, text, texts_by_key, time};
use super::{Kind, SIMULATION_GROUP, column, wide};

pub(super) fn kind() -> Kind {
    Kind {
        group: SIMULATION_GROUP,
        version: "v1alpha1",
        name: "SimInstance",
        plural: "siminstances",
        short_names: &["sim"],
        description: "An instance of the simulated provider. Deleting it plays the loss of the instance.",
        columns: vec![
            column("State", "string", ".status.state"),
            column("Type", "string", ".spec.instanceType"),
            column("Zone", "string", ".spec.zone"),
            column("Node", "string", ".spec.nodeName"),
            column("Age", "date", ".metadata.creationTimestamp"),
            wide("ProviderID", ".spec.providerID"),
        ],
        spec: requiring(
            &["providerID", "nodeName", "number"],
            object(
                "The instance.",
                json!({
                    "providerID": text("Its name at the provider."),
                    "nodeName": text("Name of its node."),
                    "number": int32("Its number, from which its addresses are made."),
                    "instanceType": text("Its size."),
                    "region": text("Its region."),
                    "zone": text("Its zone."),
                    "labels": texts_by_key("Labels that its kubelet gives the node."),
                    "cpu": text("Processors of the node."),
                    "memory": text("Memory of the node."),
                    "bootDelay": text("The time from its creation until it runs."),
                    "joinDelay": text("The time from running until its kubelet asks for a certificate."),
                    "deleteDelay": text("The time from its deletion until it is gone."),
                    "neverJoin": {"type": "boolean", "description": "Its kubelet never starts."},
                    "vanishAfter": text("The time after which it is lost by itself."),
                }),
            ),
        ),
        status: object(
            "The instance as it is.",
            json!({
                "state": one_of(&["pending", "running", "shutting-down"], "Its state."),
                "since": time("Since when."),
                "certificateRequest": text("The certificate that its kubelet waits for."),
                "joined": flag("Its kubelet has a certificate and works."),
            }),
        ),
        scale: false,
        rules: Vec::new(),
    }
}
