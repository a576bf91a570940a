//! Hashes that are part of names and labels: base 62 of SHA-224 of JSON as Go writes it.

use sha2::{Digest as _, Sha224};

/// The longest name in bytes that a hash is joined to.
const MAX_NAME: usize = 63;

/// The hash of a JSON text.
pub(crate) fn of(json: &str) -> String {
    base62(Sha224::digest(json.as_bytes()).as_slice())
}

/// The hash of an object that an encoder writes, which ends its text with a newline.
pub(crate) fn of_encoded(json: &str) -> String {
    of(&format!("{json}\n"))
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

/// The big-endian number in base 62 with the digits `0-9a-zA-Z`.
fn base62(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut number = bytes.to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut remainder = 0_u32;
        for byte in &mut number {
            let value = remainder * 256 + u32::from(*byte);
            // The quotient of a number below 62 * 256 and 62 fits a byte.
            *byte = (value / 62) as u8;
            remainder = value % 62;
        }
        digits.push(char::from(DIGITS[remainder as usize]));
    }
    if digits.is_empty() { "0".to_owned() } else { digits.into_iter().rev().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-CSV-19: numbers as Go's `big.Int.Text(62)` writes them, and names that stay below the limit.
    #[test]
    fn numbers_and_names() {
        assert_eq!(base62(&[0, 0]), "0");
        assert_eq!(base62(&[61]), "Z");
        assert_eq!(base62(&[1, 0]), "48");
        assert_eq!(base62(&[255, 255, 255, 255]), "4GFfc3");
        assert_eq!(joined_name("a.v1", "xyz"), "a.v1-xyz");
        assert_eq!(joined_name(&"a".repeat(60), "xyz").len(), 64);
        assert_eq!(joined_name(&"a".repeat(61), "xyz"), format!("{}-xyz", "a".repeat(59)));
    }
}
