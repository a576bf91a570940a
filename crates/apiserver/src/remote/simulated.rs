//! Addresses at which nobody answers: those of simulated nodes, and of the pods on them (KAPI-WL-06).
//!
//! They are private addresses of whatever network this machine is in. No request ever leaves for one: it would reach a stranger, or nobody.

use std::net::Ipv4Addr;

use serde_json::Value;

use crate::cache::{Cache, Scope};

/// The label of simulated nodes.
const LABEL: &str = "mainstay.dev/simulated";

/// Returns whether a host is a simulated node, or in the range of one's pods.
pub(super) fn is_simulated(cache: &Cache, host: &str) -> bool {
    let Ok(address) = host.parse::<Ipv4Addr>() else { return false };
    // Most calls go to this machine; no node is looked at for these.
    if !address.is_private() {
        return false;
    }
    let nodes = cache.resource("core/nodes").list(&Scope::default());
    let simulated = nodes.iter().filter(|node| node.labels.get(LABEL).is_some_and(|value| value == "true"));
    simulated.map(|node| node.value()).any(|node| holds(&node, address))
}

fn holds(node: &Value, address: Ipv4Addr) -> bool {
    let in_range = node["spec"]["podCIDR"].as_str().is_some_and(|range| contains(range, address));
    let mut own = node["status"]["addresses"].as_array().into_iter().flatten().filter_map(|one| one["address"].as_str());
    in_range || own.any(|own| own.parse() == Ok(address))
}

/// Returns whether `A.B.C.D/BITS` holds an address.
fn contains(range: &str, address: Ipv4Addr) -> bool {
    let Some((first, bits)) = range.split_once('/') else { return false };
    let (Ok(first), Ok(bits)) = (first.parse::<Ipv4Addr>(), bits.parse::<u32>()) else { return false };
    let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or_default();
    u32::from(first) & mask == u32::from(address) & mask
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    /// KAPI-WL-06: what a simulated node has addresses of.
    #[test]
    fn addresses_of_nodes() {
        let node =
            json!({"spec": {"podCIDR": "10.244.1.0/24"}, "status": {"addresses": [{"type": "InternalIP", "address": "172.31.0.3"}]}});
        for (address, wanted) in [("10.244.1.7", true), ("10.244.2.7", false), ("172.31.0.3", true), ("172.31.0.4", false)] {
            assert_eq!(holds(&node, address.parse().unwrap()), wanted, "{address}");
        }
        assert!(contains("0.0.0.0/0", [9, 9, 9, 9].into()) && !contains("10.0.0.0", [10, 0, 0, 0].into()));
    }
}
