//! Addresses that a registry may lead to: the classes of near addresses, and the classes that may lead there.
//!
//! A registry names other places: the realm of its tokens, redirects, upload locations, next pages. A registry on the network must not lead to
//! addresses that only this machine or this cluster can reach, because their answers would be read with our place in the network: metadata
//! services, kubelets, services on the loopback. So each request is made with the reach of the registry it is for. The address that is connected
//! to decides, not the name: a name whose address changes between two lookups gains nothing.
//!
//! ```text
//!   public < private < loopback        a registry leads to its own class and to those before it
//!   link-local, unspecified, multicast  only where the registry itself is
//! ```

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Time for which the class of a registry's name is kept; another class then gets another client.
const KNOWN: Duration = Duration::from_secs(30);

/// The class of an address, by how near it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Anywhere.
    Public,
    /// Of an organization: 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7.
    Private,
    /// This machine.
    Loopback,
    /// Special on each network: 169.254/16, fe80::/10, 0.0.0.0, multicast, and the metadata addresses of clouds.
    Special,
}

impl Class {
    /// Returns the class of an address. An IPv6 form of an IPv4 address counts as that address.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [a, b, ..] = address.octets();
        // Alibaba's metadata lie in 100.64/10, Azure's under a public address.
        let metadata = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)].contains(&address);
        if metadata || a == 0 || address.is_link_local() || address.is_multicast() || a >= 240 {
            Self::Special
        } else if address.is_loopback() {
            Self::Loopback
        } else if address.is_private()
            || (a == 100 && (64..128).contains(&b))
            || (a == 198 && (b == 18 || b == 19))
            || (a == 192 && b == 0 && address.octets()[2] == 0)
        {
            Self::Private
        } else {
            Self::Public
        }
    }

    #[allow(clippy::match_same_arms, reason = "one line for each range")]
    fn of_v6(address: Ipv6Addr) -> Self {
        if address.is_loopback() {
            return Self::Loopback;
        }
        let segments = address.segments();
        let inner = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Ipv4Addr::new(a, b, c, d)
        };
        match segments {
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Special,
            // Mapped, translated (also by a network's own prefix), compatible; and 6to4.
            [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] | [0x64, 0xff9b, .., high, low] => {
                Self::of_v4(inner(high, low))
            }
            [0x2002, high, low, ..] => Self::of_v4(inner(high, low)),
            // Amazon's metadata.
            [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Self::Special,
            [first, ..] if first & 0xffc0 == 0xfe80 || first & 0xff00 == 0xff00 => Self::Special,
            [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Self::Private,
            _ => Self::Public,
        }
    }

    /// Returns true if a registry of this class may lead to an address of the other.
    pub(crate) fn reaches(self, other: Self) -> bool {
        match other {
            Self::Special => self == Self::Special,
            // A registry at an address of the neighbourhood has no business with this machine.
            Self::Loopback => self == Self::Loopback,
            Self::Private => self != Self::Public,
            Self::Public => true,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Public => "a public address",
            Self::Private => "a private address",
            Self::Loopback => "an address of this machine",
            Self::Special => "a link-local or reserved address",
        }
    }
}

/// A place that a registry may not lead to.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the registry leads to {host}, which is {}; from a registry that is elsewhere nobody is sent there", class.words())]
pub(crate) struct OutOfReach {
    host: String,
    class: Class,
}

/// Checks that a URL's host is within reach if it is an address; names are checked when they are resolved.
pub(crate) fn check(url: &Url, reach: Class) -> Result<(), OutOfReach> {
    let address = match host(url) {
        Some(Host::Address(address)) => address,
        // Names of this machine mean this machine, even if a resolver disagrees, and proxies resolve names themselves.
        Some(Host::Name(name)) if is_local_name(name) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => return Ok(()),
    };
    let class = Class::of(address);
    let host = url.host_str().unwrap_or_default().to_owned();
    if reach.reaches(class) { Ok(()) } else { Err(OutOfReach { host, class }) }
}

/// The host of a URL.
enum Host<'a> {
    Address(IpAddr),
    Name(&'a str),
}

/// Returns the host of a URL. Every numeric form that URLs take for an address is already parsed into one here.
fn host(url: &Url) -> Option<Host<'_>> {
    let text = url.host_str()?;
    let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    Some(plain.parse().map_or(Host::Name(text), Host::Address))
}

fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// A resolver that returns only the addresses within reach.
#[derive(Clone)]
pub(crate) struct Reach {
    class: Class,
    /// Names of registries that are of exactly this class.
    own: Arc<Mutex<BTreeSet<String>>>,
    /// Names of proxies, which the user chose.
    proxies: Arc<BTreeSet<String>>,
}

impl Reach {
    pub(crate) fn new(class: Class, proxies: Arc<BTreeSet<String>>) -> Self {
        Self { class, own: Arc::default(), proxies }
    }

    /// Records a registry that was found to be of this class.
    pub(crate) fn owns(&self, host: &str) {
        // Insertions leave the set whole.
        self.own.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned());
    }

    /// Returns those addresses of a name that may be connected to.
    fn allowed(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, OutOfReach> {
        if self.proxies.contains(host) {
            return Ok(found);
        }
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).contains(host);
        let may = |class: Class| if own { class == self.class } else { self.class.reaches(class) };
        let (allowed, refused): (Vec<_>, Vec<_>) = found.into_iter().partition(|address| may(Class::of(address.ip())));
        match refused.first() {
            Some(address) if allowed.is_empty() => Err(OutOfReach { host: host.to_owned(), class: Class::of(address.ip()) }),
            _ => Ok(allowed),
        }
    }
}

impl Resolve for Reach {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let allowed = reach.allowed(&host, found)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Classes of registries that were looked up recently.
#[derive(Default)]
pub(crate) struct Classes {
    known: Mutex<HashMap<String, (Instant, Class)>>,
}

/// Registries whose class is kept; beyond that, classes are looked up again.
const MOST: usize = 1024;

impl Classes {
    /// Returns the class of a registry's host: the farthest of its addresses, so that none of them leads to a nearer one. A name that cannot be
    /// resolved counts as public; connecting to it will report the reason.
    pub(crate) async fn of(&self, url: &Url) -> Class {
        match host(url) {
            Some(Host::Address(address)) => Class::of(address),
            Some(Host::Name(name)) => self.of_name(name).await,
            None => Class::Public,
        }
    }

    async fn of_name(&self, name: &str) -> Class {
        let lately =
            |known: &HashMap<String, (Instant, Class)>| known.get(name).filter(|(at, _)| at.elapsed() < KNOWN).map(|(_, class)| *class);
        if let Some(class) = lately(&self.known.lock().unwrap_or_else(PoisonError::into_inner)) {
            return class;
        }
        let Ok(found) = tokio::net::lookup_host((name, 0)).await else { return Class::Public };
        let class = found.map(|address| Class::of(address.ip())).min().unwrap_or(Class::Public);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(name.to_owned(), (Instant::now(), class));
        class
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Each way to write an address that is near, and what surrounds the ranges.
    #[test]
    fn classes_of_addresses() {
        for (class, addresses) in [
            (
                Class::Public,
                "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 169.253.0.1 172.15.0.1 172.32.0.1 192.169.0.1 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1",
            ),
            (
                Class::Private,
                "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 fc00::1 fdff::1 ::ffff:10.1.2.3 64:ff9b::a00:1 2002:a00:1::1",
            ),
            (Class::Loopback, "127.0.0.1 127.255.255.254 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 ::7f00:1 2002:7f00:1::"),
            (
                Class::Special,
                "0.0.0.0 0.1.2.3 169.254.169.254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe fe80::1 :: ff02::1 224.0.0.1 255.255.255.255 240.0.0.1 100.100.100.200 168.63.129.16 fd00:ec2::254 ::a9fe:a9fe",
            ),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(Class::of(address.parse().unwrap()), class, "{address}");
            }
        }
    }

    /// Numbers that URLs take for addresses, and names of this machine, are seen before anybody resolves them.
    #[test]
    fn literal_hosts() {
        for url in [
            "http://2130706433/",
            "http://0x7f.1/",
            "http://127.1:8080/x",
            "http://[::ffff:7f00:1]/",
            "http://LOCALHOST/",
            "http://a.localhost./",
            "http://169.254.169.254/latest",
        ] {
            let error = check(&Url::parse(url).unwrap(), Class::Public).unwrap_err().to_string();
            assert!(error.starts_with("the registry leads to "), "{url}: {error}");
        }
        let local = Url::parse("http://127.0.0.1:5000/").unwrap();
        assert!(check(&local, Class::Loopback).is_ok() && check(&local, Class::Private).is_err() && check(&local, Class::Special).is_err());
        assert!(check(&Url::parse("http://10.0.0.1/").unwrap(), Class::Private).is_ok());
    }

    /// A name that was one thing when it was looked up and is another when it is connected to gets nothing.
    #[test]
    fn names_that_change() {
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        let public = Reach::new(Class::Public, Arc::default());
        assert_eq!(public.allowed("a.example", vec![at("127.0.0.1"), at("8.8.8.8")]).unwrap(), [at("8.8.8.8")]);
        assert!(public.allowed("a.example", vec![at("169.254.169.254")]).is_err());
        // First it claims to be on this machine, to be allowed everything, and then it is not.
        let local = Reach::new(Class::Loopback, Arc::default());
        local.owns("evil.example");
        assert!(local.allowed("evil.example", vec![at("8.8.8.8")]).is_err());
        assert!(local.allowed("other.example", vec![at("8.8.8.8")]).is_ok());
        let proxied = Reach::new(Class::Public, Arc::new(BTreeSet::from(["proxy.corp".to_owned()])));
        assert!(proxied.allowed("proxy.corp", vec![at("10.0.0.1")]).is_ok());
    }
}
