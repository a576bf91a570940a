//! The objects about networks that an embedded cluster begins with (COP-NET-03).

use mainstay_objects::Step;
use serde_json::{Value, json};

/// The families of a cluster's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Families {
    /// IPv4 alone.
    #[default]
    Ipv4,
    /// IPv6 alone.
    Ipv6,
    /// IPv4, then IPv6.
    Dual,
}

/// The networks of a cluster: pods (network and size of a node's part), Services, machines.
struct Networks {
    pods: (&'static str, u8),
    services: &'static str,
    machines: &'static str,
}

const IPV4: Networks = Networks { pods: ("10.128.0.0/14", 23), services: "10.96.0.0/16", machines: "10.0.0.0/16" };
const IPV6: Networks = Networks { pods: ("fd01::/48", 64), services: "fd02::/112", machines: "fd00::/48" };

impl Families {
    fn networks(self) -> Vec<Networks> {
        match self {
            Self::Ipv4 => vec![IPV4],
            Self::Ipv6 => vec![IPV6],
            Self::Dual => vec![IPV4, IPV6],
        }
    }
}

/// `Network/cluster`, without status.
pub fn network(families: Families) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"}, "spec": settings(families)})
}

/// The status of `Network/cluster`; what is there besides stays.
pub fn network_status(live: &Value, families: Families) -> Value {
    let mut status = live.get("status").filter(|status| status.is_object()).cloned().unwrap_or_else(|| json!({}));
    if let (Some(status), Value::Object(settings)) = (status.as_object_mut(), settings(families)) {
        status.extend(settings);
    }
    status
}

fn settings(families: Families) -> Value {
    let networks = families.networks();
    let pods: Vec<Value> = networks.iter().map(|one| json!({"cidr": one.pods.0, "hostPrefix": one.pods.1})).collect();
    let services: Vec<&str> = networks.iter().map(|one| one.services).collect();
    json!({"clusterNetwork": pods, "serviceNetwork": services, "networkType": "Simulated"})
}

/// Settings that are made once and belong to the user from then on: the Proxy, and the install configuration.
pub fn settings_once(families: Families) -> Vec<Step> {
    let machines: Vec<String> = families.networks().iter().map(|one| format!("  - cidr: {}\n", one.machines)).collect();
    let install = format!("apiVersion: v1\nmetadata:\n  name: mainstay\nnetworking:\n  machineNetwork:\n{}", machines.concat());
    vec![
        Step::CreateOnce(json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}, "spec": {}})),
        Step::CreateOnce(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-config-v1", "namespace": "kube-system"},
            "data": {"install-config": install},
        })),
    ]
}
