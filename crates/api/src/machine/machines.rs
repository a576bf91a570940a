//! Machine, `machine.openshift.io/v1beta1`.

use serde_json::json;

use super::parts::{atomic, conditions, machine_spec, object, reference, requiring, text, time};
use super::{Kind, MACHINE_GROUP, column, wide};

pub(super) fn kind() -> Kind {
    let address = requiring(
        &["address", "type"],
        object(
            "An address.",
            json!({
                "address": text("The address."),
                "type": text("InternalIP, ExternalIP, InternalDNS, ExternalDNS or Hostname."),
            }),
        ),
    );
    let operation = object(
        "What the provider did last.",
        json!({
            "description": text("What it is, for people."),
            "lastUpdated": time("When."),
            "state": text("Processing, Failed or Successful."),
            "type": text("Create, Update or Delete."),
        }),
    );
    Kind {
        group: MACHINE_GROUP,
        version: "v1beta1",
        name: "Machine",
        plural: "machines",
        short_names: &[],
        description: "A machine that runs, or will run, a node.",
        columns: vec![
            column("Phase", "string", ".status.phase"),
            column("Type", "string", r".metadata.labels['machine\.openshift\.io/instance-type']"),
            column("Region", "string", r".metadata.labels['machine\.openshift\.io/region']"),
            column("Zone", "string", r".metadata.labels['machine\.openshift\.io/zone']"),
            column("Age", "date", ".metadata.creationTimestamp"),
            wide("Node", ".status.nodeRef.name"),
            wide("ProviderID", ".spec.providerID"),
            wide("State", r".metadata.annotations['machine\.openshift\.io/instance-state']"),
        ],
        spec: machine_spec("The machine that is wanted."),
        status: object(
            "The machine as it is.",
            json!({
                "addresses": atomic(&address, "Addresses of the instance."),
                "conditions": conditions(),
                "errorMessage": text("What went wrong for good, for people."),
                "errorReason": text("What went wrong for good, in one word."),
                "lastOperation": operation,
                "lastUpdated": time("When the status changed."),
                "nodeRef": reference("The node."),
                "phase": text("Provisioning, Provisioned, Running, Deleting or Failed."),
                "providerStatus": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": "The instance, as its provider tells."},
            }),
        ),
        scale: false,
        rules: Vec::new(),
    }
}
