//! The choice of a request's proxy, as `golang.org/x/net/http/httpproxy` in Go's library makes it.
//!
//! Every Kubernetes program follows these rules, so people write `NO_PROXY` for them: names with and without a leading dot, addresses,
//! networks, ports, `*`. Requests to this machine never go through a proxy. The upper-case variables come first; under CGI
//! (`REQUEST_METHOD` is set) `HTTP_PROXY` comes from the client and is refused.

use std::net::IpAddr;

/// The proxies that the environment names, and the hosts that go without them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<String>,
    https: Option<String>,
    cgi: bool,
    addresses: Vec<AddressRule>,
    domains: Vec<DomainRule>,
}

/// `HTTP_PROXY` is set, but may come from a stranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CgiRefusal;

impl std::fmt::Display for CgiRefusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("refusing to use HTTP_PROXY value in CGI environment; see golang.org/s/cgihttpproxy")
    }
}

impl std::error::Error for CgiRefusal {}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AddressRule {
    All,
    Network { bytes: Vec<u8>, bits: usize },
    Address { bytes: Vec<u8>, port: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum DomainRule {
    All,
    /// `.example.com`; if `itself` is true, the name without the dot counts as well.
    Name {
        suffix: String,
        port: String,
        itself: bool,
    },
}

impl Proxies {
    /// Reads the proxies from the environment variables.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let any = |upper: &str, lower: &str| {
            [upper, lower].iter().find_map(|name| variable(name).filter(|value| !value.is_empty())).unwrap_or_default()
        };
        let cgi = variable("REQUEST_METHOD").is_some_and(|value| !value.is_empty());
        Self::new(&any("HTTP_PROXY", "http_proxy"), &any("HTTPS_PROXY", "https_proxy"), &any("NO_PROXY", "no_proxy"), cgi)
    }

    /// Does the same with values. Values that cannot be read are ignored.
    pub fn new(http: &str, https: &str, none: &str, cgi: bool) -> Self {
        let mut proxies = Self { http: proxy(http), https: proxy(https), cgi, ..Self::default() };
        for rule in none.split(',') {
            let rule = rule.trim().to_lowercase();
            if rule == "*" {
                proxies.addresses = vec![AddressRule::All];
                proxies.domains = vec![DomainRule::All];
                break;
            }
            if !rule.is_empty() {
                proxies.add(&rule);
            }
        }
        proxies
    }

    /// The proxy for a request to a host, by its scheme (`http`, `https`); `port` is the port of the URL.
    pub fn of(&self, scheme: &str, host: &str, port: Option<u16>) -> Result<Option<&str>, CgiRefusal> {
        let (proxy, default) = match scheme {
            "https" => (&self.https, "443"),
            "http" => (&self.http, "80"),
            _ => return Ok(None),
        };
        let Some(proxy) = proxy else { return Ok(None) };
        if scheme == "http" && self.cgi {
            return Err(CgiRefusal);
        }
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.map_or_else(|| default.to_owned(), |port| port.to_string());
        Ok(self.applies(&ascii(host), &port).then_some(proxy))
    }

    /// The hosts of the proxies.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        [&self.http, &self.https].into_iter().flatten().filter_map(|proxy| host_of(proxy))
    }

    fn add(&mut self, rule: &str) {
        if let Some((bytes, bits)) = network(rule) {
            self.addresses.push(AddressRule::Network { bytes, bits });
            return;
        }
        let (host, port) = match split_host_port(rule) {
            Some((host, port)) => (host, port.to_owned()),
            None => (rule, String::new()),
        };
        if host.is_empty() {
            return;
        }
        let host =
            host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).filter(|_| split_host_port(rule).is_some()).unwrap_or(host);
        if let Ok(address) = host.parse::<IpAddr>() {
            self.addresses.push(AddressRule::Address { bytes: shortest(address), port });
            return;
        }
        if host.is_empty() {
            return;
        }
        let host = if host.starts_with("*.") { &host[1..] } else { host };
        let itself = !host.starts_with('.');
        let suffix = if itself { format!(".{host}") } else { host.to_owned() };
        self.domains.push(DomainRule::Name { suffix: ascii(&suffix), port, itself });
    }

    /// Returns whether requests to that host go through a proxy at all.
    fn applies(&self, host: &str, port: &str) -> bool {
        if host.contains(['[', ']']) || host == "localhost" {
            return false;
        }
        let address = host.split_once('%').map_or(host, |(address, zone)| if zone.is_empty() { host } else { address });
        let address = address.parse::<IpAddr>().ok().filter(|address| !host.contains('%') || address.is_ipv6()).map(shortest);
        if let Some(bytes) = &address {
            if bytes.len() == 4 && bytes[0] == 127 || bytes[..] == std::net::Ipv6Addr::LOCALHOST.octets() {
                return false;
            }
            return !self.addresses.iter().any(|rule| rule.matches(bytes, port)) && !self.domains.contains(&DomainRule::All);
        }
        let host = host.trim().to_lowercase();
        !self.domains.iter().any(|rule| rule.matches(&host, port))
    }
}

impl AddressRule {
    fn matches(&self, address: &[u8], port: &str) -> bool {
        match self {
            Self::All => true,
            Self::Address { bytes, port: only } => bytes == address && (only.is_empty() || only == port),
            Self::Network { bytes, bits } => bytes.len() == address.len() && masked(address, *bits) == *bytes,
        }
    }
}

impl DomainRule {
    fn matches(&self, host: &str, port: &str) -> bool {
        match self {
            Self::All => true,
            Self::Name { suffix, port: only, itself } => {
                (host.ends_with(suffix.as_str()) || (*itself && host == &suffix[1..])) && (only.is_empty() || only == port)
            }
        }
    }
}

/// An address in four bytes if it has such a form.
fn shortest(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// `10.0.0.0/8`, as `net.ParseCIDR` reads it.
fn network(text: &str) -> Option<(Vec<u8>, usize)> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: usize = Some(bits).filter(|bits| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    if bits > bytes.len() * 8 {
        return None;
    }
    let bytes = masked(&bytes, bits);
    // An IPv4 network in the form of an IPv6 one.
    let mapped = bytes.len() == 16 && bytes[..10].iter().all(|byte| *byte == 0) && bytes[10..12] == [0xff, 0xff];
    Some(if mapped { (bytes[12..].to_vec(), bits.saturating_sub(96)) } else { (bytes, bits) })
}

fn masked(bytes: &[u8], bits: usize) -> Vec<u8> {
    let mask = |index: usize| match bits.saturating_sub(index * 8) {
        0 => 0,
        left @ 1..8 => 0xff << (8 - left),
        _ => 0xff,
    };
    bytes.iter().enumerate().map(|(index, byte)| byte & mask(index)).collect()
}

/// Splits host and port as `net.SplitHostPort` does.
fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let colon = text.rfind(':')?;
    let (host, open, close) = if text.starts_with('[') {
        let end = text.find(']')?;
        if end + 1 != colon {
            return None;
        }
        (&text[1..end], 1, end + 1)
    } else {
        (&text[..colon], 0, 0)
    };
    let plain = !text.starts_with('[') && host.contains(':');
    if plain || text[open..].contains('[') || text[close..].contains(']') {
        return None;
    }
    Some((host, &text[colon + 1..]))
}

/// The address of a proxy: a URL, or a host that stands for one; `None` if it is neither.
fn proxy(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    if host_of(text).is_some_and(|host| !host.is_empty()) {
        return Some(text.to_owned());
    }
    let whole = format!("http://{text}");
    if host_of(&whole).is_some() {
        return Some(whole);
    }
    None
}

/// The host of a URL with a scheme, without its port, if it can be one.
fn host_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if !scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        || !scheme.bytes().all(letters)
        || url.bytes().any(|byte| byte < 0x20 || byte == 0x7f)
    {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let (host, port) = if place.starts_with('[') {
        let end = place.rfind(']')?;
        (&place[1..end], &place[end + 1..])
    } else {
        place.rfind(':').map_or((place, ""), |colon| (&place[..colon], &place[colon..]))
    };
    let port_is_number = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    (port_is_number && !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '|', '}'])).then_some(host)
}

/// The name as it is looked up: names in other scripts have a form in ASCII.
fn ascii(name: &str) -> String {
    if name.is_ascii() {
        return name.to_owned();
    }
    let (dot, rest) = name.strip_prefix('.').map_or(("", name), |rest| (".", rest));
    idna::domain_to_ascii(rest).map_or_else(|_| name.to_owned(), |converted| format!("{dot}{converted}"))
}
