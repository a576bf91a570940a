//! The kinds of the clouds' provider specs, and the places of what is read of each.

/// A cloud whose provider spec is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cloud {
    /// Amazon Web Services.
    Aws,
    /// Microsoft Azure.
    Azure,
    /// Google Cloud.
    Gcp,
    /// VMware vSphere.
    VSphere,
    /// Nutanix.
    Nutanix,
    /// OpenStack.
    OpenStack,
    /// IBM Power Virtual Server.
    PowerVs,
    /// Hosts of the Bare Metal Operator.
    BareMetal,
}

/// The size of an instance in a provider spec.
pub(super) enum Size {
    /// The name of a size.
    Named(&'static str),
    /// Processors and memory by themselves.
    Counted {
        /// Fields whose product is the number of processors.
        processors: &'static [&'static str],
        /// The field of the memory.
        memory: &'static str,
        /// The unit of a plain number in it, as quantities write it; empty if the field is a quantity.
        unit: &'static str,
    },
    /// None: a host is as large as it is.
    Host,
}

/// Where a kind says what. Fields are names with dots between them.
pub(super) struct Shape {
    pub cloud: Cloud,
    pub kind: &'static str,
    /// The group that it has, and those that it had.
    pub groups: &'static [&'static str],
    pub size: Size,
    pub region: Option<&'static str>,
    pub zone: Option<&'static str>,
    /// Fields that must be set besides those of the size.
    pub required: &'static [&'static str],
}

const MACHINE: &str = "machine.openshift.io";
const SECRETS: [&str; 2] = ["userDataSecret.name", "credentialsSecret.name"];

/// The kinds.
pub(super) static SHAPES: [Shape; 8] = [
    Shape {
        cloud: Cloud::Aws,
        kind: "AWSMachineProviderConfig",
        groups: &[MACHINE, "awsproviderconfig.openshift.io"],
        size: Size::Named("instanceType"),
        region: Some("placement.region"),
        zone: Some("placement.availabilityZone"),
        required: &["placement.region", SECRETS[0], SECRETS[1]],
    },
    Shape {
        cloud: Cloud::Azure,
        kind: "AzureMachineProviderSpec",
        groups: &[MACHINE, "azureproviderconfig.openshift.io"],
        size: Size::Named("vmSize"),
        region: Some("location"),
        zone: Some("zone"),
        required: &["location", SECRETS[0], SECRETS[1]],
    },
    Shape {
        cloud: Cloud::Gcp,
        kind: "GCPMachineProviderSpec",
        groups: &[MACHINE, "gcpprovider.openshift.io"],
        size: Size::Named("machineType"),
        region: Some("region"),
        zone: Some("zone"),
        required: &["region", "zone", "projectID", SECRETS[0], SECRETS[1]],
    },
    Shape {
        cloud: Cloud::VSphere,
        kind: "VSphereMachineProviderSpec",
        groups: &[MACHINE, "vsphereprovider.openshift.io"],
        size: Size::Counted { processors: &["numCPUs"], memory: "memoryMiB", unit: "Mi" },
        region: Some("workspace.datacenter"),
        // A cluster of hosts, named in the path of its resource pool.
        zone: Some("workspace.resourcePool"),
        required: &["workspace.server", "workspace.datacenter", SECRETS[0], SECRETS[1]],
    },
    Shape {
        cloud: Cloud::Nutanix,
        kind: "NutanixMachineProviderConfig",
        groups: &[MACHINE],
        size: Size::Counted { processors: &["vcpuSockets", "vcpusPerSocket"], memory: "memorySize", unit: "" },
        region: None,
        zone: Some("failureDomain.name"),
        required: &SECRETS,
    },
    Shape {
        cloud: Cloud::OpenStack,
        kind: "OpenstackProviderSpec",
        groups: &[MACHINE, "openstackproviderconfig.openshift.io"],
        size: Size::Named("flavor"),
        region: None,
        zone: Some("availabilityZone"),
        required: &[SECRETS[0], "cloudsSecret.name"],
    },
    Shape {
        cloud: Cloud::PowerVs,
        kind: "PowerVSMachineProviderConfig",
        groups: &[MACHINE],
        size: Size::Counted { processors: &["processors"], memory: "memoryGiB", unit: "Gi" },
        region: None,
        zone: None,
        required: &SECRETS,
    },
    Shape {
        cloud: Cloud::BareMetal,
        kind: "BareMetalMachineProviderSpec",
        groups: &[MACHINE, "baremetal.cluster.k8s.io"],
        size: Size::Host,
        region: None,
        zone: None,
        required: &["userData.name"],
    },
];

/// Returns the groups and kinds of the clouds' provider specs.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    SHAPES.iter().flat_map(|shape| shape.groups.iter().map(|group| (*group, shape.kind)))
}

/// Returns the shape of a kind.
pub(super) fn shape_of(group: &str, kind: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| shape.kind == kind && shape.groups.contains(&group))
}
