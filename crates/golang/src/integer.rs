//! Whole numbers in decimal digits, as `strconv` reads them.

use crate::quote::quote;

/// A text that is no whole number, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("strconv.{function}: parsing {}: {problem}", quote(.text))]
pub struct IntegerError {
    /// Name of the function that read it.
    pub function: &'static str,
    /// The text.
    pub text: String,
    /// The mistake.
    pub problem: IntegerProblem,
}

/// The mistake in a text that is no whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IntegerProblem {
    /// The text is not a sign and digits.
    #[error("invalid syntax")]
    Syntax,
    /// The number does not fit.
    #[error("value out of range")]
    Range,
}

/// Reads a text as `strconv.Atoi` does.
///
/// # Errors
/// The text is not a sign and digits, or does not fit 64 bits.
pub fn atoi(text: &str) -> Result<i64, IntegerError> {
    let wrong = |problem| IntegerError { function: "Atoi", text: text.to_owned(), problem };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong(IntegerProblem::Syntax));
    }
    text.parse().map_err(|_| wrong(IntegerProblem::Range))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_are_read_as_go_does() {
        for (text, value) in [("0", 0), ("+7", 7), ("-12", -12), ("007", 7), ("-9223372036854775808", i64::MIN)] {
            assert_eq!(atoi(text).unwrap(), value);
        }
        for text in ["", "+", "-", "1_0", " 1", "1.5", "0x1", "--1", "١"] {
            assert_eq!(atoi(text).unwrap_err().problem, IntegerProblem::Syntax, "{text}");
        }
        let large = atoi("9223372036854775808").unwrap_err().to_string();
        assert_eq!(large, "strconv.Atoi: parsing \"9223372036854775808\": value out of range");
    }
}
