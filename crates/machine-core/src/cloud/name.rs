//! The names of instances, in the forms that clouds give them. They are made of the machine alone, so that they are the same each time.

use mainstay_objects::{labels_of, meta};
use serde_json::Value;

use super::shape::Cloud;
use super::spec::CloudSpec;
use crate::machine::CLUSTER_LABEL;

/// Hexadecimal digits of an instance of Amazon Web Services.
const AWS_DIGITS: usize = 17;
/// The subscription of simulated instances of Azure.
const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

/// Returns the name that a cloud would give the instance of a machine.
pub fn provider_id(spec: &CloudSpec, machine: &Value) -> String {
    let uid = meta(machine, "uid").unwrap_or_default();
    let name = meta(machine, "name").unwrap_or_default();
    let text = |field: &str| machine.pointer(&format!("/spec/providerSpec/value/{field}")).and_then(Value::as_str).unwrap_or_default();
    let zone = spec.zone.as_deref().unwrap_or_default();
    match spec.cloud {
        Cloud::Aws => {
            let digits: String = uid.chars().filter(char::is_ascii_hexdigit).take(AWS_DIGITS).collect();
            format!("aws:///{zone}/i-{:0<AWS_DIGITS$}", digits.to_ascii_lowercase())
        }
        Cloud::Gcp => format!("gce://{}/{zone}/{name}", text("projectID")),
        Cloud::Azure => {
            let cluster = labels_of(machine).get(CLUSTER_LABEL).cloned().unwrap_or_default();
            let group =
                Some(text("resourceGroup")).filter(|group| !group.is_empty()).map_or_else(|| format!("{cluster}-rg"), str::to_owned);
            format!("azure:///subscriptions/{SUBSCRIPTION}/resourceGroups/{group}/providers/Microsoft.Compute/virtualMachines/{name}")
        }
        Cloud::VSphere => format!("vsphere://{uid}"),
        Cloud::Nutanix => format!("nutanix://{uid}"),
        Cloud::OpenStack => format!("openstack:///{uid}"),
        Cloud::PowerVs => format!("ibmpowervs:////{}/{uid}", text("serviceInstance/id")),
        Cloud::BareMetal => {
            format!("baremetalhost:///{}/{name}/{uid}", meta(machine, "namespace").unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// MACH-PROV-10: the names of instances have the forms of their clouds, and are the same each time.
    #[test]
    fn names() {
        let machine = json!({
            "metadata": {
                "name": "workers-a", "namespace": "openshift-machine-api", "uid": "0A1b2c3d-1111-2222-3333-444455556666",
                "labels": {CLUSTER_LABEL: "demo-x7k2"},
            },
            "spec": {"providerSpec": {"value": {"projectID": "p", "serviceInstance": {"type": "ID", "id": "s"}}}},
        });
        let uid = "0A1b2c3d-1111-2222-3333-444455556666";
        let id = |cloud, zone: &str| {
            let zone = Some(zone.to_owned()).filter(|zone| !zone.is_empty());
            provider_id(&CloudSpec { cloud, size: None, region: None, zone, cpu: None, memory: None }, &machine)
        };
        assert_eq!(id(Cloud::Aws, "eu-west-1a"), "aws:///eu-west-1a/i-0a1b2c3d111122223");
        assert_eq!(id(Cloud::Gcp, "z"), "gce://p/z/workers-a");
        let azure = "azure:///subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/demo-x7k2-rg/providers/Microsoft.Compute/virtualMachines/workers-a";
        assert_eq!(id(Cloud::Azure, "1"), azure);
        assert_eq!(id(Cloud::VSphere, ""), format!("vsphere://{uid}"));
        assert_eq!(id(Cloud::Nutanix, ""), format!("nutanix://{uid}"));
        assert_eq!(id(Cloud::OpenStack, "nova"), format!("openstack:///{uid}"));
        assert_eq!(id(Cloud::PowerVs, ""), format!("ibmpowervs:////s/{uid}"));
        assert_eq!(id(Cloud::BareMetal, ""), format!("baremetalhost:///openshift-machine-api/workers-a/{uid}"));
    }
}
