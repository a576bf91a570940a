//! Addresses and networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why a text is no address or network, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidAddress(String);

/// A network: an address with the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
}

/// Parses an address without zone that is not an IPv4-mapped IPv6 address.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, InvalidAddress> {
    let address: IpAddr = text.parse().map_err(|_| {
        InvalidAddress(format!("IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"))
    })?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(InvalidAddress(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))),
        address => Ok(address),
    }
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let problem = |detail: &str| {
            let lead = "network address parse error during conversion from string";
            InvalidAddress(format!("{lead}: {lead}: netip.ParsePrefix({text:?}): {detail}"))
        };
        let (address, prefix) = text.split_once('/').ok_or_else(|| problem("no '/'"))?;
        let address = parse_ip(address)?;
        if prefix.is_empty() || !prefix.bytes().all(|byte| byte.is_ascii_digit()) || prefix.len() > 1 && prefix.starts_with('0') {
            return Err(problem(&format!("bad bits after slash: {prefix:?}")));
        }
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= width(address));
        let prefix: u8 = prefix.ok_or_else(|| problem("prefix length out of range"))?;
        Ok(Self { address, prefix })
    }

    pub(crate) fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Self { address, prefix: self.prefix }
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && Self { address, prefix: self.prefix }.masked() == self.masked()
    }

    pub(crate) fn contains_network(self, other: Self) -> bool {
        other.prefix >= self.prefix && self.contains(other.address)
    }

    pub(crate) fn text(self) -> String {
        format!("{}/{}", self.address, self.prefix)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

pub(crate) fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

pub(crate) fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => matches!(v4.octets(), [224, 0, 0, _]),
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

/// In the sense of Go's library: everything that is no special address, private ones included.
pub(crate) fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(broadcast || address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_link_local_unicast(address))
}
