//! The kinds of the Machine API, group `machine.openshift.io`: Machine, MachineSet, MachineHealthCheck and ControlPlaneMachineSet
//! (MACH-API-01 to MACH-API-04, MACH-SET-01, MACH-MHC-01, MACH-CPMS-01), and the kinds that stand for
//! instances of the simulated provider and for members of etcd.
//!
//! Controllers read these objects as values (`mainstay-machine-core`), so that fields of later releases are kept. What a field may be is said
//! here once, as schemas.

mod checks;
mod control_plane;
mod instances;
mod machines;
mod members;
mod parts;
mod rules;
mod sets;

use serde_json::{Value, json};

use crate::manifest::Manifest;

/// The group of the Machine API.
pub const MACHINE_GROUP: &str = "machine.openshift.io";
/// The group of the simulated provider.
pub const SIMULATION_GROUP: &str = "sim.mainstay.dev";

pub use rules::machine_rules;

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../manifests/machine/", $name)))
    };
}

/// The checked-in manifests by file.
const FILES: [(&str, &str); 6] = [
    file!("machine.openshift.io_controlplanemachinesets.yaml"),
    file!("machine.openshift.io_machinehealthchecks.yaml"),
    file!("machine.openshift.io_machines.yaml"),
    file!("machine.openshift.io_machinesets.yaml"),
    file!("sim.mainstay.dev_simetcdmembers.yaml"),
    file!("sim.mainstay.dev_siminstances.yaml"),
];

/// The manifests of the Machine API's kinds, as they are checked in.
///
/// # Errors
/// When a checked-in file is no YAML.
pub fn machine_manifests() -> Result<Vec<Manifest>, mainstay_yaml::Error> {
    let read = |(file, text): &(&str, &str)| Ok(Manifest { file: (*file).to_owned(), definition: mainstay_yaml::parse(text)? });
    FILES.iter().map(read).collect()
}

/// The definitions as they are written here.
pub fn machine_definitions() -> Vec<Manifest> {
    [control_plane::kind(), checks::kind(), machines::kind(), sets::kind(), members::kind(), instances::kind()]
        .into_iter()
        .map(manifest)
        .collect()
}

/// A kind of this module.
struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    description: &'static str,
    columns: Vec<Column>,
    spec: Value,
    status: Value,
    /// True if it has a scale.
    scale: bool,
    /// Rules about the whole object.
    rules: Vec<Value>,
}

/// A printer column: name, type and path.
struct Column {
    name: &'static str,
    kind: &'static str,
    path: &'static str,
    /// True if it is shown with `-o wide` only.
    wide: bool,
}

const fn column(name: &'static str, kind: &'static str, path: &'static str) -> Column {
    Column { name, kind, path, wide: false }
}

const fn wide(name: &'static str, path: &'static str) -> Column {
    Column { name, kind: "string", path, wide: true }
}

fn manifest(kind: Kind) -> Manifest {
    let Kind { group, version, name, plural, short_names, description, columns, spec, status, scale, rules } = kind;
    let mut names = json!({"kind": name, "listKind": format!("{name}List"), "plural": plural, "singular": name.to_lowercase()});
    if !short_names.is_empty() {
        names["shortNames"] = json!(short_names);
    }
    let columns = columns.iter().map(|column| {
        let mut out = json!({"name": column.name, "type": column.kind, "jsonPath": column.path});
        if column.wide {
            out["priority"] = json!(1);
        }
        out
    });
    let mut schema = parts::object(
        description,
        json!({
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        }),
    );
    if !rules.is_empty() {
        schema["x-kubernetes-validations"] = json!(rules);
    }
    let mut subresources = json!({"status": {}});
    if scale {
        subresources["scale"] = json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.labelSelector",
        });
    }
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": subresources,
                "additionalPrinterColumns": columns.collect::<Vec<_>>(),
            }],
        },
    });
    Manifest { file: format!("{group}_{plural}.yaml"), definition }
}
