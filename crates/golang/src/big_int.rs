//! Numbers as Go's `big.Int` writes them.

const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A big-endian number of any length in a base from 2 to 62, as Go's `big.Int.Text` writes it.
pub fn big_int_text(bytes: &[u8], base: u8) -> String {
    assert!((2..=62).contains(&base), "no base: {base}");
    let base = u32::from(base);
    let mut number = bytes.to_vec();
    let mut digits = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut remainder = 0_u32;
        for byte in &mut number {
            let value = remainder * 256 + u32::from(*byte);
            // The quotient of a number below base * 256 and the base fits a byte.
            *byte = (value / base) as u8;
            remainder = value % base;
        }
        digits.push(char::from(DIGITS[remainder as usize]));
    }
    if digits.is_empty() { "0".to_owned() } else { digits.into_iter().rev().collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_and_zero() {
        assert_eq!(big_int_text(&[], 36), "0");
        assert_eq!(big_int_text(&[0, 0], 62), "0");
        assert_eq!(big_int_text(&[61], 62), "Z");
        assert_eq!(big_int_text(&[1, 0], 36), "74");
        assert_eq!(big_int_text(&[1, 0], 62), "48");
        assert_eq!(big_int_text(&[255, 255, 255, 255], 36), "1z141z3");
        assert_eq!(big_int_text(&[255, 255, 255, 255], 62), "4GFfc3");
    }

    proptest! {
        /// The digits add up to the number.
        #[test]
        fn digits_are_the_number(number: u128, base in 2..=62_u8) {
            let text = big_int_text(&number.to_be_bytes(), base);
            prop_assert!(text == "0" || !text.starts_with('0'));
            let sum = text.bytes().try_fold(0_u128, |sum, byte| {
                let digit = DIGITS.iter().position(|digit| *digit == byte)? as u128;
                sum.checked_mul(base.into())?.checked_add(digit)
            });
            prop_assert_eq!(sum, Some(number));
        }
    }
}
