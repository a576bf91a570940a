//! Hashes that are part of names and labels: base 62 of SHA-224 of JSON as Go writes it.

use mainstay_golang::big_int_text;
use sha2::{Digest as _, Sha224};

/// The longest name in bytes that a hash is joined to.
const MAX_NAME: usize = 63;

/// The hash of a JSON text.
pub(crate) fn of(json: &str) -> String {
    big_int_text(&Sha224::digest(json.as_bytes()), 62)
}

/// The hash of an object that an encoder writes, which ends its text with a newline.
pub(crate) fn of_encoded(json: &str) -> String {
    of(&format!("{json}\n"))
}

/// The 64-bit FNV-1a hash, by which annotations and labels of APIs are named.
pub(crate) fn fnv64a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// `base-hash`, with the base cut so that the whole is a label's value.
pub(crate) fn joined_name(base: &str, hash: &str) -> String {
    if base.len() + hash.len() <= MAX_NAME {
        return format!("{base}-{hash}");
    }
    let mut end = MAX_NAME - hash.len() - 1;
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", &base[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-CSV-19: names stay below the limit.
    #[test]
    fn names() {
        assert_eq!(joined_name("a.v1", "xyz"), "a.v1-xyz");
        assert_eq!(joined_name(&"a".repeat(60), "xyz").len(), 64);
        assert_eq!(joined_name(&"a".repeat(61), "xyz"), format!("{}-xyz", "a".repeat(59)));
    }
}
