//! The CRD manifests of nodes' configuration (MACH-MC-01, MACH-MCP-01, MACH-MCP-02, MACH-NODE-06, MACH-DISR-06).

use serde_json::{Value, json};

use crate::classic::{Column, Kind, Version, manifest};
use crate::machine_config_v1::{
    ContainerRuntimeConfigSpec, ContainerRuntimeConfigStatus, ControllerConfigSpec, ControllerConfigStatus, GeneratedStatus,
    KubeletConfigSpec, MachineConfigNodeSpec, MachineConfigNodeStatus, MachineConfigPoolSpec, MachineConfigPoolStatus, MachineConfigSpec,
    MachineConfigurationSpec, MachineConfigurationStatus, PinnedImageSetSpec,
};
use crate::manifest::Manifest;
use crate::platform::OPERATOR_GROUP;

/// The group of nodes' configuration.
pub const MACHINE_CONFIG_GROUP: &str = "machineconfiguration.openshift.io";

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../manifests/machine-config/", $name)))
    };
}

/// The checked-in manifests by file.
const FILES: [(&str, &str); 8] = [
    file!("machineconfiguration.openshift.io_containerruntimeconfigs.yaml"),
    file!("machineconfiguration.openshift.io_controllerconfigs.yaml"),
    file!("machineconfiguration.openshift.io_kubeletconfigs.yaml"),
    file!("machineconfiguration.openshift.io_machineconfignodes.yaml"),
    file!("machineconfiguration.openshift.io_machineconfigpools.yaml"),
    file!("machineconfiguration.openshift.io_machineconfigs.yaml"),
    file!("machineconfiguration.openshift.io_pinnedimagesets.yaml"),
    file!("operator.openshift.io_machineconfigurations.yaml"),
];

/// The manifests of nodes' configuration, as they are checked in.
///
/// # Errors
/// When a checked-in file is no YAML.
pub fn machine_config_manifests() -> Result<Vec<Manifest>, mainstay_yaml::Error> {
    let read = |(file, text): &(&str, &str)| Ok(Manifest { file: (*file).to_owned(), definition: mainstay_yaml::parse(text)? });
    FILES.iter().map(read).collect()
}

const AGE: Column = ("Age", "date", ".metadata.creationTimestamp", "");
const CONFIG_COLUMNS: &[Column] = &[
    (
        "GeneratedByController",
        "string",
        r".metadata.annotations.machineconfiguration\.openshift\.io/generated-by-controller-version",
        "Version of the controller that generated it; empty if none did",
    ),
    ("IgnitionVersion", "string", ".spec.config.ignition.version", "Version of the Ignition config"),
    AGE,
];
const POOL_COLUMNS: &[Column] = &[
    ("Config", "string", ".status.configuration.name", ""),
    ("Updated", "string", r#".status.conditions[?(@.type=="Updated")].status"#, "All nodes have the wanted configuration"),
    ("Updating", "string", r#".status.conditions[?(@.type=="Updating")].status"#, "Nodes get the wanted configuration"),
    ("Degraded", "string", r#".status.conditions[?(@.type=="Degraded")].status"#, "Rendering or nodes fail"),
    ("MachineCount", "number", ".status.machineCount", "Number of nodes"),
    ("ReadyMachineCount", "number", ".status.readyMachineCount", "Number of updated nodes that are ready"),
    ("UpdatedMachineCount", "number", ".status.updatedMachineCount", "Number of nodes that have the wanted configuration"),
    ("DegradedMachineCount", "number", ".status.degradedMachineCount", "Number of nodes that report a failure"),
    AGE,
];
const NODE_COLUMNS: &[Column] = &[
    ("PoolName", "string", ".spec.pool.name", ""),
    ("DesiredConfig", "string", ".spec.configVersion.desired", ""),
    ("CurrentConfig", "string", ".status.configVersion.current", ""),
    ("Updated", "string", r#".status.conditions[?(@.type=="Updated")].status"#, ""),
    AGE,
];
/// Columns of MachineConfigNode that are wide: name and condition.
const STEPS: [(&str, &str); 10] = [
    ("UpdatePrepared", "UpdatePrepared"),
    ("UpdateExecuted", "UpdateExecuted"),
    ("UpdatePostActionComplete", "UpdatePostActionComplete"),
    ("UpdateComplete", "UpdateComplete"),
    ("Resumed", "Resumed"),
    ("UpdatedFilesAndOS", "AppliedFilesAndOS"),
    ("CordonedNode", "Cordoned"),
    ("DrainedNode", "Drained"),
    ("RebootedNode", "RebootedNode"),
    ("UncordonedNode", "Uncordoned"),
];

/// The definitions as the types give them.
pub fn machine_config_definitions() -> Vec<Manifest> {
    const SPEC: &[&str] = &["spec"];
    let of = |group, name, plural, short_names, description, columns, version| {
        manifest(Kind { group, name, plural, short_names, scope: "Cluster", description, columns, versions: vec![version] })
    };
    let kind = |name, plural, short_names, description, columns, version| {
        of(MACHINE_CONFIG_GROUP, name, plural, short_names, description, columns, version)
    };
    let mut node = kind(
        "MachineConfigNode",
        "machineconfignodes",
        &[],
        "The progress of a node towards its configuration.",
        NODE_COLUMNS,
        Version::of::<MachineConfigNodeSpec, MachineConfigNodeStatus>("v1", SPEC),
    );
    if let Some(version) = node.definition.pointer_mut("/spec/versions/0") {
        for (name, condition) in STEPS {
            let path = format!(".status.conditions[?(@.type==\"{condition}\")].status");
            if let Some(Value::Array(columns)) = version.get_mut("additionalPrinterColumns") {
                columns.push(json!({"name": name, "type": "string", "jsonPath": path, "priority": 1}));
            }
        }
        version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
            json!([{"rule": "self.metadata.name == self.spec.node.name", "message": "spec.node.name should match metadata.name"}]);
    }
    let mut all = vec![
        kind(
            "ContainerRuntimeConfig",
            "containerruntimeconfigs",
            &["ctrcfg"],
            "Settings of the container runtimes of pools.",
            &[],
            Version::of::<ContainerRuntimeConfigSpec, ContainerRuntimeConfigStatus>("v1", SPEC),
        ),
        kind(
            "ControllerConfig",
            "controllerconfigs",
            &[],
            "Facts about the cluster that its nodes' configuration depends on.",
            &[],
            Version::of::<ControllerConfigSpec, ControllerConfigStatus>("v1", SPEC),
        ),
        kind(
            "KubeletConfig",
            "kubeletconfigs",
            &[],
            "Settings of the kubelets of pools.",
            &[],
            Version::of::<KubeletConfigSpec, GeneratedStatus>("v1", SPEC),
        ),
        node,
        kind(
            "MachineConfigPool",
            "machineconfigpools",
            &["mcp"],
            "Nodes that share a configuration.",
            POOL_COLUMNS,
            Version::of::<MachineConfigPoolSpec, MachineConfigPoolStatus>("v1", SPEC),
        ),
        kind(
            "MachineConfig",
            "machineconfigs",
            &["mc"],
            "A configuration of nodes, or a part of one.",
            CONFIG_COLUMNS,
            Version::of::<MachineConfigSpec, GeneratedStatus>("v1", &[]),
        ),
        kind(
            "PinnedImageSet",
            "pinnedimagesets",
            &[],
            "Images that nodes keep.",
            &[],
            Version::of::<PinnedImageSetSpec, GeneratedStatus>("v1", SPEC),
        ),
        of(
            OPERATOR_GROUP,
            "MachineConfiguration",
            "machineconfigurations",
            &[],
            "Settings of the Machine Config Operator; only the object named cluster counts.",
            &[],
            Version::of::<MachineConfigurationSpec, MachineConfigurationStatus>("v1", SPEC),
        ),
    ];
    for manifest in &mut all {
        if ["_machineconfigs.yaml", "_pinnedimagesets.yaml"].iter().any(|file| manifest.file.ends_with(file)) {
            without_status(&mut manifest.definition);
        }
    }
    all
}

fn without_status(definition: &mut Value) {
    let Some(version) = definition.pointer_mut("/spec/versions/0") else { return };
    if let Some(version) = version.as_object_mut() {
        version.remove("subresources");
    }
    if let Some(Value::Object(properties)) = version.pointer_mut("/schema/openAPIV3Schema/properties") {
        properties.remove("status");
    }
}
