//! The size and the place of one machine, or what its provider spec lacks.

use std::fmt;

use mainstay_schema::quantity::Quantity;
use serde_json::Value;

use super::shape::{Cloud, Shape, Size, shape_of};
use crate::control_plane::provider_spec::{ProviderSpec, SpecError};

/// A field that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// It is not set.
    Missing(&'static str),
    /// It has another form.
    Form {
        /// The field.
        field: &'static str,
        /// The expected value.
        expected: &'static str,
        /// Its value, as JSON.
        found: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(field) => write!(out, "spec.providerSpec.value.{field}: must be set"),
            Self::Form { field, expected, found } => write!(out, "spec.providerSpec.value.{field}: expected {expected}, found {found}"),
        }
    }
}

/// A provider spec that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// It is of no cloud that is known.
    #[error("spec.providerSpec.value: {kind} of {group} is the provider spec of no known cloud")]
    Unknown {
        /// Its group.
        group: String,
        /// Its kind.
        kind: String,
    },
    /// A field has another type than the cloud's API gives it.
    #[error("spec.providerSpec.value: {0}")]
    Decode(#[from] SpecError),
    /// Fields that are needed are missing or have another form.
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "))]
    Fields(Vec<Problem>),
}

/// The facts of a provider spec that a rehearsal needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudSpec {
    /// The cloud.
    pub cloud: Cloud,
    /// The size, as the value of a label; `None` for hosts.
    pub size: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The zone.
    pub zone: Option<String>,
    /// Processors, where the spec says their number.
    pub cpu: Option<String>,
    /// Memory, where the spec says it.
    pub memory: Option<String>,
}

impl CloudSpec {
    /// Reads the provider spec of a machine.
    ///
    /// # Errors
    /// It is of no known cloud, a field has another type, or one that is needed is missing.
    pub fn of(machine: &Value) -> Result<Self, CloudError> {
        let value = machine.pointer("/spec/providerSpec/value").unwrap_or(&Value::Null);
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) = (text("apiVersion").split_once('/').map_or("", |(group, _)| group), text("kind"));
        let shape = shape_of(group, kind).ok_or_else(|| CloudError::Unknown { group: group.to_owned(), kind: kind.to_owned() })?;
        ProviderSpec::read(Some(&value.to_string()))?;
        let mut problems = Vec::new();
        let (mut cpu, mut memory) = (None, None);
        let mut size = None;
        match &shape.size {
            Size::Named(field) => size = required(value, field, &mut problems),
            Size::Counted { processors, memory: field, unit } => {
                // All are looked at before one that is missing ends the count.
                let counts: Vec<_> = processors.iter().map(|field| number(value, field, &mut problems)).collect();
                let count = counts.into_iter().try_fold(1_u64, |all, one| all.checked_mul(one?));
                cpu = count.map(|count| count.to_string());
                memory = amount(value, field, unit, &mut problems);
                size = cpu.as_ref().zip(memory.as_ref()).map(|(cpu, memory)| format!("{cpu}cpu-{memory}"));
            }
            Size::Host => {}
        }
        for field in shape.required {
            required(value, field, &mut problems);
        }
        if !problems.is_empty() {
            return Err(CloudError::Fields(problems));
        }
        let label = |field: Option<&str>| field.and_then(|field| text_at(value, field)).map(|text| label_value(text, shape));
        Ok(Self {
            cloud: shape.cloud,
            size: size.map(|size| label_value(&size, shape)),
            region: label(shape.region).filter(|text| !text.is_empty()),
            zone: label(shape.zone).filter(|text| !text.is_empty()),
            cpu,
            memory,
        })
    }
}

fn at<'v>(value: &'v Value, field: &str) -> Option<&'v Value> {
    field.split('.').try_fold(value, |value, name| value.get(name)).filter(|value| !value.is_null())
}

fn text_at<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    at(value, field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn required(value: &Value, field: &'static str, problems: &mut Vec<Problem>) -> Option<String> {
    match at(value, field) {
        Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
        None | Some(Value::String(_)) => problems.push(Problem::Missing(field)),
        Some(other) => problems.push(Problem::Form { field, expected: "a text", found: shown(other) }),
    }
    None
}

/// A whole number above zero; Power Virtual Server may have it as text.
fn number(value: &Value, field: &'static str, problems: &mut Vec<Problem>) -> Option<u64> {
    let Some(found) = at(value, field) else {
        problems.push(Problem::Missing(field));
        return None;
    };
    let count = found.as_u64().or_else(|| found.as_str()?.parse().ok()).filter(|count| *count > 0);
    if count.is_none() {
        problems.push(Problem::Form { field, expected: "a whole number above 0", found: shown(found) });
    }
    count
}

/// An amount of memory as a quantity.
fn amount(value: &Value, field: &'static str, unit: &str, problems: &mut Vec<Problem>) -> Option<String> {
    if !unit.is_empty() {
        return number(value, field, problems).map(|count| format!("{count}{unit}"));
    }
    let found = at(value, field);
    match found.map(|found| (found, found.as_str().map(Quantity::parse))) {
        None => problems.push(Problem::Missing(field)),
        Some((found, Some(Ok(_)))) => return found.as_str().map(str::to_owned),
        Some((found, _)) => problems.push(Problem::Form { field, expected: "a quantity such as 16Gi", found: shown(found) }),
    }
    None
}

fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    text.char_indices().nth(MOST).map_or_else(|| text.clone(), |(end, _)| format!("{}...", &text[..end]))
}

/// A text as the value of a label: other characters become dashes. Of the path of a vSphere resource pool the cluster of hosts counts.
fn label_value(text: &str, shape: &Shape) -> String {
    const LONGEST: usize = 63;
    let text = match text.split('/').collect::<Vec<_>>().as_slice() {
        ["", _, "host", cluster, ..] if shape.cloud == Cloud::VSphere => cluster,
        _ => text,
    };
    let allowed = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let text: String = text.chars().map(allowed).take(LONGEST).collect();
    text.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::json;

    use super::*;
    use crate::cloud::kinds;

    fn read(value: &Value) -> Result<CloudSpec, CloudError> {
        CloudSpec::of(&json!({"spec": {"providerSpec": {"value": value}}}))
    }

    /// A spec of each cloud, with its size, region, zone, processors and memory.
    fn whole() -> Vec<(Value, [Option<&'static str>; 5])> {
        let secrets = |mut spec: Value| {
            spec["userDataSecret"] = json!({"name": "worker-user-data"});
            spec["credentialsSecret"] = json!({"name": "cloud-credentials"});
            spec
        };
        let v1beta1 = "machine.openshift.io/v1beta1";
        vec![
            (
                secrets(json!({"apiVersion": v1beta1, "kind": "AWSMachineProviderConfig", "instanceType": "m6i.xlarge",
                    "placement": {"region": "eu-west-1", "availabilityZone": "eu-west-1a"}})),
                [Some("m6i.xlarge"), Some("eu-west-1"), Some("eu-west-1a"), None, None],
            ),
            (
                secrets(
                    json!({"apiVersion": v1beta1, "kind": "AzureMachineProviderSpec", "vmSize": "Standard_D4s_v5", "location": "westeurope", "zone": "2"}),
                ),
                [Some("Standard_D4s_v5"), Some("westeurope"), Some("2"), None, None],
            ),
            (
                secrets(
                    json!({"apiVersion": v1beta1, "kind": "GCPMachineProviderSpec", "machineType": "n2-standard-4", "region": "europe-west4",
                    "zone": "europe-west4-b", "projectID": "demo"}),
                ),
                [Some("n2-standard-4"), Some("europe-west4"), Some("europe-west4-b"), None, None],
            ),
            (
                secrets(json!({"apiVersion": v1beta1, "kind": "VSphereMachineProviderSpec", "numCPUs": 4, "memoryMiB": 16384,
                    "workspace": {"server": "vc.example", "datacenter": "dc 1", "resourcePool": "/dc 1/host/cluster-a/Resources"}})),
                [Some("4cpu-16384Mi"), Some("dc-1"), Some("cluster-a"), Some("4"), Some("16384Mi")],
            ),
            (
                secrets(
                    json!({"apiVersion": "machine.openshift.io/v1", "kind": "NutanixMachineProviderConfig", "vcpuSockets": 4, "vcpusPerSocket": 2,
                    "memorySize": "16Gi", "failureDomain": {"name": "fd-1"}}),
                ),
                [Some("8cpu-16Gi"), None, Some("fd-1"), Some("8"), Some("16Gi")],
            ),
            (
                json!({"apiVersion": "machine.openshift.io/v1alpha1", "kind": "OpenstackProviderSpec", "flavor": "m1.large", "availabilityZone": "nova",
                    "cloudsSecret": {"name": "openstack-cloud-credentials"}, "userDataSecret": {"name": "worker-user-data"}}),
                [Some("m1.large"), None, Some("nova"), None, None],
            ),
            (
                secrets(
                    json!({"apiVersion": "machine.openshift.io/v1", "kind": "PowerVSMachineProviderConfig", "processors": "2", "memoryGiB": 32}),
                ),
                [Some("2cpu-32Gi"), None, None, Some("2"), Some("32Gi")],
            ),
            (
                json!({"apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec", "userData": {"name": "worker-user-data"}}),
                [None, None, None, None, None],
            ),
        ]
    }

    /// MACH-PROV-10: each cloud's spec says size and place; every kind that is known is in this table.
    #[test]
    fn shapes_of_all_clouds() {
        for (value, [size, region, zone, cpu, memory]) in whole() {
            let spec = read(&value).unwrap_or_else(|error| panic!("{}: {error}", value["kind"]));
            let found = [&spec.size, &spec.region, &spec.zone, &spec.cpu, &spec.memory].map(|text| text.as_deref());
            assert_eq!(found, [size, region, zone, cpu, memory], "{}", value["kind"]);
        }
        let covered = |kind: &str| whole().iter().any(|(value, _)| value["kind"] == kind);
        assert!(kinds().all(|(_, kind)| covered(kind)));
        assert_eq!(kinds().filter(|(group, _)| *group == "machine.openshift.io").count(), 8);
    }

    /// MACH-PROV-10: what is needed and missing is told, all of it at once; so are types that are wrong.
    #[test]
    fn what_is_missing() {
        let said = |value: &Value| read(value).unwrap_err().to_string().replace("spec.providerSpec.value", "V");
        let bare = |version: &str, kind: &str| said(&json!({"apiVersion": format!("machine.openshift.io/{version}"), "kind": kind}));
        let aws = "V.instanceType: must be set; V.placement.region: must be set; V.userDataSecret.name: must be set; V.credentialsSecret.name: must be set";
        assert_eq!(bare("v1beta1", "AWSMachineProviderConfig"), aws);
        assert_eq!(bare("v1beta1", "BareMetalMachineProviderSpec"), "V.userData.name: must be set");
        assert!(
            bare("v1", "NutanixMachineProviderConfig")
                .starts_with("V.vcpuSockets: must be set; V.vcpusPerSocket: must be set; V.memorySize: must be set")
        );
        let unknown = said(&json!({"apiVersion": "a.io/v1", "kind": "AWSMachineProviderConfig"}));
        assert_eq!(unknown, "V: AWSMachineProviderConfig of a.io is the provider spec of no known cloud");
        assert_eq!(said(&Value::Null), "V:  of  is the provider spec of no known cloud");
        let wrong = |index: usize, field: &str, value: Value| {
            let mut spec = whole().swap_remove(index).0;
            spec[field] = value;
            said(&spec)
        };
        assert_eq!(wrong(0, "instanceType", json!(7)), "V.instanceType: expected a text, found 7");
        assert_eq!(wrong(3, "numCPUs", json!(0)), "V.numCPUs: expected a whole number above 0, found 0");
        assert_eq!(wrong(4, "memorySize", json!("much")), "V.memorySize: expected a quantity such as 16Gi, found \"much\"");
        assert_eq!(wrong(5, "flavor", json!(["x"])), "V.flavor: expected a text, found [\"x\"]");
        assert_eq!(wrong(5, "flavor", json!(["x".repeat(300)])).len(), 96, "a long one is cut");
    }
}
