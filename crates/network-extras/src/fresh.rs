//! The objects about networks that an embedded cluster begins with (COP-NET-03).

use std::net::IpAddr;

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

/// An entry of `Network/cluster` that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("status.clusterNetwork[{index}].cidr: {cidr:?} is no network; expected an address and a prefix length, such as 10.128.0.0/14")]
pub struct InvalidNetwork {
    /// The index of the entry.
    pub index: usize,
    /// Its `cidr`.
    pub cidr: String,
}

impl Families {
    /// Returns the families of a router: those of the pods' networks in the status of `Network/cluster` (COP-20), or `None` if it has none.
    ///
    /// # Errors
    /// An entry is no network.
    pub fn of_router(network: &Value) -> Result<Option<Self>, InvalidNetwork> {
        let entries = network["status"]["clusterNetwork"].as_array().into_iter().flatten();
        let mut found = None;
        for (index, entry) in entries.enumerate() {
            let cidr = entry["cidr"].as_str().unwrap_or_default();
            let family = family(cidr).ok_or_else(|| InvalidNetwork { index, cidr: cidr.to_owned() })?;
            found = Some(match found {
                None => family,
                Some(before) if before == family => family,
                Some(_) => Self::Dual,
            });
        }
        Ok(found)
    }

    fn networks(self) -> Vec<Networks> {
        match self {
            Self::Ipv4 => vec![IPV4],
            Self::Ipv6 => vec![IPV6],
            Self::Dual => vec![IPV4, IPV6],
        }
    }
}

/// The family of a network.
fn family(cidr: &str) -> Option<Families> {
    let (address, length) = cidr.split_once('/')?;
    let (family, most) = match address.parse().ok()? {
        IpAddr::V4(_) => (Families::Ipv4, 32),
        IpAddr::V6(_) => (Families::Ipv6, 128),
    };
    (length.parse::<u8>().ok()? <= most).then_some(family)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn of(cidrs: &[&str]) -> Result<Option<Families>, InvalidNetwork> {
        let entries: Vec<Value> = cidrs.iter().map(|cidr| json!({"cidr": cidr, "hostPrefix": 23})).collect();
        Families::of_router(&json!({"status": {"clusterNetwork": entries}}))
    }

    /// COP-20, COP-NET-03: a router has the families of the pods' networks, in any order; the networks of each setting give the setting back.
    #[test]
    fn families_of_a_router() {
        for (cidrs, expected) in [
            (&["10.128.0.0/14", "10.132.0.0/14"][..], Some(Families::Ipv4)),
            (&["fd01::/48"], Some(Families::Ipv6)),
            (&["fd01::/48", "10.128.0.0/14", "fd02::/48"], Some(Families::Dual)),
            (&[], None),
        ] {
            assert_eq!(of(cidrs), Ok(expected), "{cidrs:?}");
        }
        for families in [Families::Ipv4, Families::Ipv6, Families::Dual] {
            let live = json!({"status": network_status(&json!({}), families)});
            assert_eq!(Families::of_router(&live), Ok(Some(families)));
        }
    }

    /// COP-20: what is no network is refused by its place.
    #[test]
    fn no_networks() {
        for cidr in ["", "10.128.0.0", "10.128.0.0/33", "fd01::/129", "pods/14"] {
            assert_eq!(of(&["fd01::/48", cidr]), Err(InvalidNetwork { index: 1, cidr: cidr.to_owned() }));
        }
        assert!(of(&["x"]).unwrap_err().to_string().starts_with("status.clusterNetwork[0].cidr: \"x\" is no network"));
    }
}
