//! Rules for names, label keys and values, ports, addresses and paths. Each returns the problems as texts; none if all is well.

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;

macro_rules! pattern {
    ($name:ident, $text:literal) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| {
            #[allow(clippy::expect_used, reason = "a constant pattern, exercised by the tests")]
            Regex::new(concat!("^(?:", $text, ")$")).expect("a valid pattern")
        });
    };
}

pattern!(LABEL_1123, "[a-z0-9]([-a-z0-9]*[a-z0-9])?");
pattern!(SUBDOMAIN_1123, r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*");
pattern!(LABEL_1035, "[a-z]([-a-z0-9]*[a-z0-9])?");
pattern!(QUALIFIED, "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]");
pattern!(LABEL_VALUE, "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?");
pattern!(CONFIG_KEY, "[-._a-zA-Z0-9]+");
pattern!(PERCENT, "[0-9]+%");
pattern!(PORT_NAME, "[-a-z0-9]+");
pattern!(C_IDENTIFIER, "[A-Za-z_][A-Za-z0-9_]*");
pattern!(SYSCTL, r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?");
pattern!(SUBDOMAIN_UNDERSCORE, r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*");
pattern!(HEADER_NAME, "[-A-Za-z0-9]+");
pattern!(WILDCARD, r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*");

const LABEL_1123_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_TEXT: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const PERCENT_TEXT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const WILDCARD_TEXT: &str = r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const SUBDOMAIN_UNDERSCORE_TEXT: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const HEADER_NAME_TEXT: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";

pub(crate) type Messages = Vec<String>;

fn check(text: &str, limit: usize, pattern: &Regex, words: &str) -> Messages {
    let mut messages = Vec::new();
    if text.len() > limit {
        messages.push(too_long(limit));
    }
    if !pattern.is_match(text) {
        messages.push(words.to_owned());
    }
    messages
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// The same, as newer rules tell it.
fn too_many_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

pub(crate) fn subdomain(text: &str) -> Messages {
    check(text, 253, &SUBDOMAIN_1123, SUBDOMAIN_TEXT)
}

/// A domain to search names in, whose parts may have underscores.
pub(crate) fn search_domain(text: &str) -> Messages {
    check(text, 253, &SUBDOMAIN_UNDERSCORE, SUBDOMAIN_UNDERSCORE_TEXT)
}

/// The name of an HTTP header.
pub(crate) fn header_name(text: &str) -> Messages {
    if HEADER_NAME.is_match(text) { Vec::new() } else { vec![HEADER_NAME_TEXT.to_owned()] }
}

pub(crate) fn wildcard_subdomain(text: &str) -> Messages {
    check(text, 253, &WILDCARD, WILDCARD_TEXT)
}

pub(crate) fn label(text: &str) -> Messages {
    // A name that is only too long in dots is told so.
    let words = if SUBDOMAIN_1123.is_match(text) { "must not contain dots" } else { LABEL_1123_TEXT };
    check(text, 63, &LABEL_1123, words)
}

/// What is wrong with a text as a label of RFC 1035, for instance the name of a Service.
pub fn label_1035(text: &str) -> Messages {
    check(text, 63, &LABEL_1035, LABEL_1035_TEXT)
}

/// Names that only have to fit into a URL's path.
pub(crate) fn path_segment(text: &str) -> Messages {
    match text {
        "." | ".." => return vec![format!("may not be '{text}'")],
        _ => {}
    }
    ["/", "%"].iter().filter(|part| text.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

/// Keys of labels and annotations, finalizers, resource names: `[prefix/]name`.
pub(crate) fn qualified(text: &str) -> Messages {
    let mut messages = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    messages.push(format!("prefix part {}", too_many_bytes(253)));
                }
                if !SUBDOMAIN_1123.is_match(prefix) {
                    messages.push(format!("prefix part {SUBDOMAIN_TEXT}"));
                }
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        messages.push(format!("name part {}", too_many_bytes(63)));
    }
    if !QUALIFIED.is_match(name) {
        messages.push(format!("name part {QUALIFIED_TEXT}"));
    }
    messages
}

pub(crate) fn label_value(text: &str) -> Messages {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push(too_many_bytes(63));
    }
    if !LABEL_VALUE.is_match(text) {
        messages.push(LABEL_VALUE_TEXT.to_owned());
    }
    messages
}

/// Keys of ConfigMaps and Secrets.
pub(crate) fn config_key(text: &str) -> Messages {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push(too_long(253));
    }
    if !CONFIG_KEY.is_match(text) {
        messages.push(CONFIG_KEY_TEXT.to_owned());
    }
    match text {
        "." => messages.push("must not be '.'".to_owned()),
        ".." => messages.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => messages.push("must not start with '..'".to_owned()),
        _ => {}
    }
    messages
}

pub(crate) fn percent(text: &str) -> Messages {
    if PERCENT.is_match(text) { Vec::new() } else { vec![PERCENT_TEXT.to_owned()] }
}

pub(crate) fn port_name(text: &str) -> Messages {
    let mut messages = Vec::new();
    if text.len() > 15 {
        messages.push(too_long(15));
    }
    if !PORT_NAME.is_match(text) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

pub(crate) fn port(number: i64) -> Messages {
    if (1..=65535).contains(&number) { Vec::new() } else { vec!["must be between 1 and 65535, inclusive".to_owned()] }
}

pub(crate) fn env_name(text: &str) -> Messages {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'=') {
        Vec::new()
    } else {
        vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
    }
}

pub(crate) fn is_identifier(text: &str) -> bool {
    C_IDENTIFIER.is_match(text)
}

pub(crate) fn is_sysctl(text: &str) -> bool {
    text.len() <= 253 && SYSCTL.is_match(text)
}

pub(crate) const IP_TEXT: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// An address as Kubernetes has always read it: zeros in front of IPv4 numbers count for nothing.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let start = text.rfind(':').map_or(0, |colon| colon + 1);
    let numbers: Vec<&str> = text[start..].split('.').collect();
    if numbers.len() != 4 || numbers.iter().any(|number| number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    let plain: Vec<&str> =
        numbers.iter().map(|number| number.trim_start_matches('0')).map(|rest| if rest.is_empty() { "0" } else { rest }).collect();
    format!("{}{}", &text[..start], plain.join(".")).parse().ok()
}

/// A range as Kubernetes has always read it: the address as written and the length of the prefix.
pub(crate) fn range(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, length) = text.split_once('/')?;
    let ip = address(ip)?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let length: u8 = length.parse().ok()?;
    (length <= if ip.is_ipv4() { 32 } else { 128 }).then_some((ip, length))
}

/// The address without what lies beyond a prefix.
pub(crate) fn masked(ip: IpAddr, length: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => (u32::from(ip) & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)).to_be_bytes().into(),
        IpAddr::V6(ip) => (u128::from(ip) & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)).to_be_bytes().into(),
    }
}

pub(crate) fn ip(text: &str) -> Messages {
    if address(text).is_some() { Vec::new() } else { vec![IP_TEXT.to_owned()] }
}

/// An address in the one form that newer fields take.
pub(crate) fn canonical_ip(text: &str) -> Messages {
    let Some(address) = address(text) else { return vec![IP_TEXT.to_owned()] };
    if text.parse::<IpAddr>().is_err() {
        return vec!["must not have leading 0s".to_owned()];
    }
    if matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some()) {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    let canonical = address.to_string();
    if text == canonical { Vec::new() } else { vec![format!("must be in canonical form ({canonical:?})")] }
}

const CIDR_TEXT: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

pub(crate) fn cidr(text: &str) -> Messages {
    if range(text).is_some() { Vec::new() } else { vec![CIDR_TEXT.to_owned()] }
}

/// A range in the one form that newer fields take.
pub(crate) fn canonical_cidr(text: &str) -> Messages {
    let Some((address, length)) = range(text) else { return vec![CIDR_TEXT.to_owned()] };
    let (ip, written) = text.split_once('/').unwrap_or_default();
    if ip.parse::<IpAddr>().is_err() || (written.len() > 1 && written.starts_with('0')) {
        return vec!["must not have leading 0s in IP or prefix length".to_owned()];
    }
    if matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some()) {
        return vec!["must not have an IPv4-mapped IPv6 address".to_owned()];
    }
    if masked(address, length) != address {
        return vec!["must not have bits set beyond the prefix length".to_owned()];
    }
    let canonical = format!("{address}/{length}");
    if text == canonical { Vec::new() } else { vec![format!("must be in canonical form ({canonical:?})")] }
}

/// Refuses addresses that make no sense as the remote end of a connection.
pub(crate) fn not_special(text: &str) -> Messages {
    let Some(ip) = address(text) else { return vec!["must be a valid IP address".to_owned()] };
    let mut messages = Vec::new();
    if ip.is_unspecified() {
        messages.push(format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        messages.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.segments()[0] & 0xffc0 == 0xfe80, ip.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        messages.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_local_multicast {
        messages.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    messages
}

/// Completes an unfinished name, so that the rules for names fit `generateName`. Upstream puts an `a` for the last two bytes. If
/// that leaves part of a letter, each byte of it becomes one that no name may hold, so that the name keeps its length.
pub(crate) fn mask_trailing_dash(text: &str) -> String {
    let Some(unfinished) = text.strip_suffix('-').filter(|rest| !rest.is_empty()) else { return text.to_owned() };
    let end = unfinished.len() - 1;
    let mut masked = unfinished.to_owned();
    masked.pop();
    while masked.len() < end {
        masked.push('\0');
    }
    masked.push('a');
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(subdomain("a.b-c.1").is_empty());
        assert_eq!(label("x.y"), ["must not contain dots"]);
        assert_eq!(label("Bad_"), [LABEL_1123_TEXT]);
        assert!(label_1035("1a").len() == 1 && label_1035("a1").is_empty());
        assert_eq!(qualified("/").len(), 3);
        assert!(qualified("example.com/My_name.1").is_empty());
        assert_eq!(qualified("a/b/c").len(), 1);
        assert!(label_value("").is_empty() && label_value("a b").len() == 1);
        assert_eq!(config_key(".."), ["must not be '..'"]);
        assert_eq!(port_name("Bad_Name").len(), 1);
        assert_eq!(path_segment("a/b"), ["may not contain '/'"]);
        assert!(ip("10.0.0.1").is_empty() && ip("010.0.0.1").is_empty() && !ip("10.0.0").is_empty());
        assert_eq!(canonical_ip("010.0.0.1"), ["must not have leading 0s"]);
        assert_eq!(canonical_ip("FD00::1"), ["must be in canonical form (\"fd00::1\")"]);
        assert_eq!(canonical_cidr("10.0.0.1/8"), ["must not have bits set beyond the prefix length"]);
        assert!(
            canonical_cidr("10.0.0.0/8").is_empty() && canonical_cidr("fd00::/108").is_empty() && canonical_cidr("0.0.0.0/0").is_empty()
        );
        assert!(cidr("10.0.0.0/8").is_empty() && !cidr("10.0.0.0").is_empty() && !cidr("1.2.3.4/33").is_empty());
        assert_eq!(mask_trailing_dash("gen-"), "gea");
        assert_eq!((mask_trailing_dash("-"), mask_trailing_dash("gen"), mask_trailing_dash("g-")), ("-".into(), "gen".into(), "a".into()));
        for name in ["é-", "gen\u{20ac}-", "\u{1f600}-"] {
            let masked = mask_trailing_dash(name);
            assert_eq!((masked.len(), subdomain(&masked).len()), (name.len() - 1, 1), "{name}");
        }
    }
}
