//! Numbers in the form in which Go reads them into a 64-bit float and writes them again.

use mainstay_golang::json;

/// Integers of at most this many digits survive the way through a 64-bit float.
const EXACT_DIGITS: usize = 15;

/// Appends a checked number; returns `false` if it does not fit into 64 bits.
pub(super) fn write(text: &str, out: &mut Vec<u8>) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.len() <= EXACT_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        out.extend_from_slice(text.as_bytes());
        return true;
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => {
            out.extend_from_slice(json::float(value).as_bytes());
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    /// CATLG-10: numbers as `opm` (Go's encoding/json) gave them for these inputs.
    #[test]
    fn as_go_writes_them() {
        let cases = [
            ("0", "0"),
            ("-0", "-0"),
            ("-0.0", "-0"),
            ("1.0", "1"),
            ("1e3", "1000"),
            ("1.50", "1.5"),
            ("12345678901234567890", "12345678901234567000"),
            ("9007199254740993", "9007199254740992"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("1.25e+30", "1.25e+30"),
            ("1e-7", "1e-7"),
            ("0.000001", "0.000001"),
            ("123456789.125", "123456789.125"),
        ];
        for (text, expected) in cases {
            let mut out = Vec::new();
            assert!(super::write(text, &mut out), "{text}");
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
        }
        assert!(!super::write("1e400", &mut Vec::new()));
    }
}
