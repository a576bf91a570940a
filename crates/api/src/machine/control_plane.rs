//! ControlPlaneMachineSet, `machine.openshift.io/v1`.

use serde_json::{Value, json};

use super::parts::{atomic, int32, int64, keyed, machine_spec, object, one_of, requiring, rule, ruled, selector, text, texts_by_key, time};
use super::{Kind, MACHINE_GROUP, column};

/// The one sort of machine that a template can be of; its settings are in a field of the same name.
pub(super) const MACHINE_TYPE: &str = "machines_v1beta1_machine_openshift_io";
const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// Platforms of failure domains: upstream's, and the simulation.
const PLATFORMS: [&str; 18] = [
    "",
    "AWS",
    "Azure",
    "BareMetal",
    "GCP",
    "Libvirt",
    "OpenStack",
    "None",
    "VSphere",
    "oVirt",
    "IBMCloud",
    "KubeVirt",
    "EquinixMetal",
    "PowerVS",
    "AlibabaCloud",
    "Nutanix",
    "External",
    "Sim",
];

pub(super) fn kind() -> Kind {
    Kind {
        group: MACHINE_GROUP,
        version: "v1",
        name: "ControlPlaneMachineSet",
        plural: "controlplanemachinesets",
        short_names: &[],
        description: "The machines of the control plane; only the object named cluster counts.",
        columns: vec![
            column("Desired", "integer", ".spec.replicas"),
            column("Current", "integer", ".status.replicas"),
            column("Ready", "integer", ".status.readyReplicas"),
            column("Updated", "integer", ".status.updatedReplicas"),
            column("Unavailable", "integer", ".status.unavailableReplicas"),
            column("State", "string", ".spec.state"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ],
        spec: spec(),
        status: status(),
        scale: true,
        rules: Vec::new(),
    }
}

fn spec() -> Value {
    let mut replicas = int32("Machines that are wanted.");
    replicas["default"] = json!(3);
    replicas["enum"] = json!([3, 5]);
    let mut state = one_of(&["Active", "Inactive"], "Whether machines are replaced.");
    state["default"] = json!("Inactive");
    let mut strategy =
        one_of(&["RollingUpdate", "OnDelete"], "Whether outdated machines are replaced one by one, or when they are deleted.");
    strategy["default"] = json!("RollingUpdate");
    let mut strategy = object("How machines are replaced.", json!({"type": strategy}));
    strategy["default"] = json!({"type": "RollingUpdate"});
    let subdomain = rule(
        "!format.dns1123Subdomain().validate(self).hasValue()",
        "a lowercase RFC 1123 subdomain must consist of lowercase alphanumeric characters, hyphens ('-'), and periods ('.'). Each block, separated \
         by periods, must start and end with an alphanumeric character. Hyphens are not allowed at the start or end of a block, and consecutive \
         periods are not permitted.",
    );
    let prefix = json!({"type": "string", "minLength": 1, "maxLength": 245, "description": "Beginning of the names of new machines."});
    requiring(
        &["replicas", "selector", "template"],
        object(
            "The machines that are wanted.",
            json!({
                "machineNamePrefix": ruled(prefix, &[subdomain]),
                "replicas": ruled(replicas, &[rule("self == oldSelf", "replicas is immutable")]),
                "selector": ruled(selector("Which machines are the set's."), &[rule("self == oldSelf", "selector is immutable")]),
                "state": ruled(state, &[rule("oldSelf != 'Active' || self == oldSelf", "state cannot be changed once Active")]),
                "strategy": strategy,
                "template": template(),
            }),
        ),
    )
}

/// A rule that a field belongs to one value of another.
fn belongs(union: &str, value: &str, field: &str, message: &str) -> Value {
    rule(&format!("has(self.{union}) && self.{union} == '{value}' ?  has(self.{field}) : !has(self.{field})"), message)
}

fn template() -> Value {
    const ROLE: &str = "machine.openshift.io/cluster-api-machine-role";
    const SORT: &str = "machine.openshift.io/cluster-api-machine-type";
    const CLUSTER: &str = "machine.openshift.io/cluster-api-cluster";
    let is_master = |label: &str| {
        let message = format!("label '{label}' is required, and must have value 'master'");
        rule(&format!("'{label}' in self && self['{label}'] == 'master'"), &message)
    };
    let cluster = rule(&format!("'{CLUSTER}' in self"), &format!("label '{CLUSTER}' is required"));
    let labels = ruled(texts_by_key("Labels of the machines."), &[is_master(ROLE), is_master(SORT), cluster]);
    let metadata = requiring(
        &["labels"],
        object(
            "Metadata of the machines.",
            json!({
                "annotations": texts_by_key("Annotations of the machines."),
                "labels": labels,
            }),
        ),
    );
    let machine = requiring(
        &["metadata", "spec"],
        object(
            "What machines are made of.",
            json!({
                "failureDomains": failure_domains(),
                "metadata": metadata,
                "spec": machine_spec("Spec of the machines, without a place and without hooks."),
            }),
        ),
    );
    let message = format!("{MACHINE_TYPE} configuration is required when machineType is {MACHINE_TYPE}, and forbidden otherwise");
    let template = object(
        "What machines are made of, by their sort.",
        json!({
            "machineType": one_of(&[MACHINE_TYPE], "Sort of the machines."),
            MACHINE_TYPE: machine,
        }),
    );
    ruled(requiring(&["machineType"], template), &[belongs("machineType", MACHINE_TYPE, MACHINE_TYPE, &message)])
}

fn failure_domains() -> Value {
    let domains = requiring(
        &["platform"],
        object(
            "Places over which machines are spread.",
            json!({
                "platform": one_of(&PLATFORMS, "The platform."),
                "aws": atomic(&aws(), "Places of AWS."),
                "azure": atomic(&azure(), "Places of Azure."),
                "gcp": atomic(&requiring(&["zone"], object("A place.", json!({"zone": text("Zone.")}))), "Places of Google Cloud."),
                "nutanix": keyed(&nutanix(), "name", "Places of Nutanix."),
                "openstack": atomic(&openstack(), "Places of OpenStack."),
                "sim": atomic(&requiring(&["zone"], object("A place.", json!({"zone": text("Zone.")}))), "Places of the simulated provider."),
                "vsphere": keyed(&requiring(&["name"], object("A place.", json!({"name": text("Name in the Infrastructure.")}))), "name", "Places of vSphere."),
            }),
        ),
    );
    let of = |platform: &str, field: &str| {
        let message = format!("{field} configuration is required when platform is {platform}, and forbidden otherwise");
        belongs("platform", platform, field, &message)
    };
    ruled(
        domains,
        &[
            of("AWS", "aws"),
            of("Azure", "azure"),
            of("GCP", "gcp"),
            of("OpenStack", "openstack"),
            of("VSphere", "vsphere"),
            of("Nutanix", "nutanix"),
            of("Sim", "sim"),
        ],
    )
}

fn aws() -> Value {
    let filter = requiring(
        &["name"],
        object(
            "A filter.",
            json!({
                "name": text("Name."),
                "values": atomic(&json!({"type": "string"}), "Values."),
            }),
        ),
    );
    let subnet = requiring(
        &["type"],
        object(
            "The subnet.",
            json!({
                "arn": text("Its ARN."),
                "filters": atomic(&filter, "Filters that find it."),
                "id": text("Its ID."),
                "type": one_of(&["ID", "ARN", "Filters"], "Which of the others is meant."),
            }),
        ),
    );
    let of = |value: &str, field: &str| {
        belongs("type", value, field, &format!("{field} is required when type is {value}, and forbidden otherwise"))
    };
    let filters = belongs("type", "Filters", "filters", "filters is required when type is Filters, and forbidden otherwise");
    let subnet = ruled(subnet, &[of("ID", "id"), of("ARN", "arn"), filters]);
    let placement = requiring(&["availabilityZone"], object("The zone.", json!({"availabilityZone": text("Zone.")})));
    let mut place = object("A place.", json!({"placement": placement, "subnet": subnet}));
    place["minProperties"] = json!(1);
    place
}

fn azure() -> Value {
    let subnet = json!({
        "type": "string", "maxLength": 80, "pattern": "^[a-zA-Z0-9](?:[a-zA-Z0-9._-]*[a-zA-Z0-9_])?$", "description": "Subnet.",
    });
    requiring(&["zone"], object("A place.", json!({"subnet": subnet, "zone": text("Zone.")})))
}

fn nutanix() -> Value {
    let name = json!({
        "type": "string", "minLength": 1, "maxLength": 64, "pattern": "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        "description": "Name in the Infrastructure.",
    });
    requiring(&["name"], object("A place.", json!({"name": name})))
}

fn openstack() -> Value {
    let volume = requiring(
        &["volumeType"],
        object(
            "The root volume.",
            json!({
                "availabilityZone": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[^ ]*$", "description": "Its zone."},
                "volumeType": {"type": "string", "minLength": 1, "maxLength": 255, "description": "Its type."},
            }),
        ),
    );
    let mut place = object(
        "A place.",
        json!({
            "availabilityZone": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[^: ]*$", "description": "Zone."},
            "rootVolume": volume,
        }),
    );
    place["minProperties"] = json!(1);
    let both = rule(
        "!has(self.availabilityZone) || !has(self.rootVolume) || has(self.rootVolume.availabilityZone)",
        "rootVolume.availabilityZone is required when availabilityZone is set",
    );
    ruled(place, &[both])
}

fn status() -> Value {
    let condition = requiring(
        &["lastTransitionTime", "message", "reason", "status", "type"],
        object(
            "A condition.",
            json!({
                "lastTransitionTime": time("When it changed."),
                "message": {"type": "string", "maxLength": 32768, "description": "Message for people."},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0, "description": "The generation that it is about."},
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Reason in one word.",
                },
                "status": one_of(&["True", "False", "Unknown"], "Status."),
                "type": {"type": "string", "maxLength": 316, "pattern": CONDITION_TYPE, "description": "Type."},
            }),
        ),
    );
    object(
        "The machines as they are.",
        json!({
            "conditions": keyed(&condition, "type", "Conditions, by type."),
            "observedGeneration": int64("The generation that this status is about."),
            "readyReplicas": int32("Machines whose nodes are ready."),
            "replicas": int32("Machines."),
            "unavailableReplicas": int32("Machines that are missing to the wanted number."),
            "updatedReplicas": int32("Ready machines that are as the template wants them."),
        }),
    )
}
