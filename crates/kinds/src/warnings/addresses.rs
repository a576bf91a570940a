//! Addresses and ranges that are understood, but not written as they should be.

use std::net::IpAddr;

use mainstay_golang::quote;
use mainstay_schema::field::Path;

use crate::validate::names;

const LATER: &str = "will be considered invalid in a future Kubernetes release";

fn mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some())
}

/// An address as Go's `net.IP` writes it: one of IPv4 in whichever form it was given.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The warning about an address; none about a text that is no address.
pub(super) fn ip(path: &Path, given: &str) -> Option<String> {
    let address = names::address(given)?;
    let quoted = quote(given);
    match given.parse::<IpAddr>() {
        Ok(strict) if !mapped(strict) => {
            let canonical = strict.to_string();
            (strict.is_ipv6() && canonical != given)
                .then(|| format!("{path}: IPv6 address {quoted} should be in RFC 5952 canonical format (\"{canonical}\")"))
        }
        _ => Some(format!("{path}: non-standard IP address {quoted} {LATER}: use \"{}\"", plain(address))),
    }
}

/// Warnings about the addresses of a list, which stand in `member` of each item if there is one.
pub(super) fn ips<'a>(path: &Path, given: impl IntoIterator<Item = &'a str>, member: Option<&str>) -> Vec<String> {
    let place = |index| match member {
        Some(member) => path.index(index).child(member),
        None => path.index(index),
    };
    given.into_iter().enumerate().filter_map(|(index, one)| ip(&place(index), one)).collect()
}

/// Warnings about a range; none about a text that is no range.
pub(super) fn cidr(path: &Path, given: &str) -> Vec<String> {
    let Some((address, length)) = names::range(given) else { return Vec::new() };
    let (ip, written) = given.split_once('/').unwrap_or_default();
    let quoted = quote(given);
    let network = names::masked(address, length);
    // Go counts the prefix of a mapped address in bits of IPv6, and then shows the network as what it masks to.
    let shown = if mapped(address) && length >= 96 { format!("{}/{}", plain(network), length - 96) } else { format!("{network}/{length}") };
    let mut found = Vec::new();
    if network != address {
        let single = format!("{}/{}", plain(address), if address.is_ipv4() { 32 } else { 128 });
        found.push(format!("{path}: CIDR value {quoted} is ambiguous in this context (should be \"{shown}\" or \"{single}\"?)"));
    }
    let strict = ip.parse::<IpAddr>().is_ok() && !(written.len() > 1 && written.starts_with('0'));
    if !strict || mapped(address) {
        found.push(format!("{path}: non-standard CIDR value {quoted} {LATER}: use \"{shown}\""));
    }
    let canonical = format!("{address}/{length}");
    if found.is_empty() && address.is_ipv6() && canonical != given {
        found.push(format!("{path}: IPv6 CIDR value {quoted} should be in RFC 5952 canonical format (\"{canonical}\")"));
    }
    found
}

/// Warnings about the ranges of a list.
pub(super) fn cidrs(path: &Path, given: &[&str]) -> Vec<String> {
    given.iter().enumerate().flat_map(|(index, one)| cidr(&path.index(index), one)).collect()
}
