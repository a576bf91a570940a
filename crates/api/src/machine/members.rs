//! SimEtcdMember, `sim.mainstay.dev/v1alpha1`: a member of etcd in the member model (MACH-ETCD-07).

use serde_json::json;

use super::parts::{flag, object, one_of, requiring, text};
use super::{Kind, SIMULATION_GROUP, column};

pub(super) fn kind() -> Kind {
    Kind {
        group: SIMULATION_GROUP,
        version: "v1alpha1",
        name: "SimEtcdMember",
        plural: "simetcdmembers",
        short_names: &[],
        description: "A member of etcd, played. A fault plays its outage.",
        columns: vec![
            column("Address", "string", ".spec.address"),
            column("Learner", "boolean", ".spec.learner"),
            column("In Sync", "boolean", ".status.inSync"),
            column("Healthy", "boolean", ".status.healthy"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        spec: requiring(
            &["node", "address"],
            object(
                "The member.",
                json!({
                    "node": text("Name of its node."),
                    "address": text("The internal address of its node."),
                    "learner": flag("It receives the database and has no vote yet."),
                    "transfer": text("The time in which it receives the database."),
                    "fault": one_of(&["", "unhealthy"], "An outage that is played."),
                }),
            ),
        ),
        status: object(
            "The member as it is.",
            json!({
                "healthy": flag("It answers."),
                "inSync": flag("It has received the whole database."),
            }),
        ),
        scale: false,
        rules: Vec::new(),
    }
}
