//! Named formats: `format.dns1123Label().validate(text)` says what is wrong, or nothing.

use super::names::{label, label_1035, label_value, qualified_name, subdomain, unprefixed};
use super::{time, url};
use crate::convert::base64;

pub(crate) const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

pub(crate) fn validate(name: &str, text: &str) -> Vec<String> {
    match name {
        "dns1123Label" => label(text),
        "dns1123LabelPrefix" => label(&unprefixed(text)),
        "dns1123Subdomain" => subdomain(text),
        "dns1123SubdomainPrefix" => subdomain(&unprefixed(text)),
        "dns1035Label" => label_1035(text),
        "dns1035LabelPrefix" => label_1035(&unprefixed(text)),
        "qualifiedName" => qualified_name(text),
        "labelValue" => label_value(text),
        "uri" => url::Url::parse(text).err().map(|invalid| invalid.to_string()).into_iter().collect(),
        "uuid" => only(is_uuid(text), "does not match the UUID format"),
        "byte" => only(base64(text).is_some(), "invalid base64"),
        "date" => only(text.len() == 10 && time::parse_date(text).is_some(), "invalid date"),
        "datetime" => only(time::parse_timestamp(text).is_some(), "invalid datetime"),
        _ => Vec::new(),
    }
}

fn only(valid: bool, problem: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![problem.to_owned()] }
}

fn is_uuid(text: &str) -> bool {
    let bare: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let dashes = [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    bare.len() == 32 && bare.iter().all(u8::is_ascii_hexdigit) && (text.len() == 32 || text.len() == 36 && dashes)
}

/// The length that a format's pattern counts as in costs.
pub(crate) fn pattern_size(name: &str) -> u64 {
    match name {
        "dns1123Label" | "dns1123LabelPrefix" | "dns1035Label" | "dns1035LabelPrefix" => 30,
        "labelValue" => 40,
        "dns1123Subdomain" | "dns1123SubdomainPrefix" | "qualifiedName" => 60,
        "uuid" => 70,
        "byte" => 84,
        "uri" => 1103,
        // Dates and times.
        _ => 71,
    }
}
