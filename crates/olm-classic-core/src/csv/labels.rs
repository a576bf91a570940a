//! Labels of a CSV, one for each API (OLM0-CSV-07).

use std::collections::{BTreeMap, BTreeSet};

/// The prefix of the labels.
const PREFIX: &str = "olm.api.";

/// The hash of an API, `Kind.version.group`: FNV-1a of 64 bits in hexadecimal digits.
pub fn api_hash(api: &str) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = api.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:x}")
}

/// The labels of APIs that a CSV provides and requires; an API that it does both with is required.
pub fn api_labels(provided: &BTreeSet<String>, required: &BTreeSet<String>) -> BTreeMap<String, String> {
    let label = |api: &String, how: &str| (format!("{PREFIX}{}", api_hash(api)), how.to_owned());
    let mut labels: BTreeMap<String, String> = provided.iter().map(|api| label(api, "provided")).collect();
    labels.extend(required.iter().map(|api| label(api, "required")));
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-CSV-07: the published test vectors of FNV-1a.
    #[test]
    fn hashes() {
        assert_eq!(api_hash(""), "cbf29ce484222325");
        assert_eq!(api_hash("a"), "af63dc4c8601ec8c");
        assert_eq!(api_hash("foobar"), "85944171f73967e8");
    }
}
