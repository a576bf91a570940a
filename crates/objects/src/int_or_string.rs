//! Limits that are a number or a percentage of a number, as `maxUnavailable`.

use std::fmt;

use mainstay_golang::{IntegerError, atoi, quote};
use serde::{Deserialize, Serialize};

/// A number or a text, as Kubernetes' `IntOrString`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text, meant as a percentage.
    Text(String),
}

/// The meaning of a text without a percent sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainText {
    /// It is refused.
    Refused,
    /// It is a number.
    Number,
}

/// The direction in which a share is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// To the next lower number.
    Down,
    /// To the next higher number.
    Up,
}

/// A limit that is neither a number nor a percentage, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntOrStringError {
    /// A text has no percent sign.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    /// A text is no number.
    #[error("invalid value for IntOrString: invalid value {}: {source}", quote(.text))]
    Number {
        /// The text.
        text: String,
        /// The mistake.
        source: IntegerError,
    },
}

impl IntOrString {
    /// Returns the number, or the share of the total. Negative numbers and shares above 100 % are taken as they are.
    ///
    /// # Errors
    /// A text is no number, or has no percent sign although it must.
    pub fn scaled(&self, total: usize, rounding: Rounding, plain: PlainText) -> Result<i64, IntOrStringError> {
        let text = match self {
            Self::Int(number) => return Ok(i64::from(*number)),
            Self::Text(text) => text,
        };
        let number = |digits: &str| atoi(digits).map_err(|source| IntOrStringError::Number { text: text.clone(), source });
        match (text.strip_suffix('%'), plain) {
            (Some(digits), _) => Ok(share(number(digits)?, total, rounding)),
            (None, PlainText::Refused) => Err(IntOrStringError::NotAPercentage),
            (None, PlainText::Number) => number(text),
        }
    }
}

fn share(percent: i64, total: usize, rounding: Rounding) -> i64 {
    let exact = percent as f64 * total as f64 / 100.0;
    let rounded = match rounding {
        Rounding::Down => exact.floor(),
        Rounding::Up => exact.ceil(),
    };
    // A value that does not fit becomes the smallest number, as where upstream runs.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded);
    if fits { rounded as i64 } else { i64::MIN }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text(text: &str) -> IntOrString {
        IntOrString::Text(text.to_owned())
    }

    #[test]
    fn numbers_and_shares() {
        let down = |limit: IntOrString, total| limit.scaled(total, Rounding::Down, PlainText::Refused).unwrap();
        assert_eq!(down(IntOrString::Int(-3), 5), -3);
        assert_eq!((down(text("34%"), 5), down(text("0%"), 5), down(text("-10%"), 5), down(text("250%"), 5)), (1, 0, -1, 12));
        assert_eq!(text("34%").scaled(5, Rounding::Up, PlainText::Refused).unwrap(), 2);
        assert_eq!(text("7").scaled(5, Rounding::Down, PlainText::Number).unwrap(), 7);
        assert_eq!(down(text("9223372036854775807%"), usize::MAX), i64::MIN);
    }

    #[test]
    fn what_is_neither() {
        let said = |limit: IntOrString| limit.scaled(5, Rounding::Down, PlainText::Refused).unwrap_err().to_string();
        assert_eq!(said(text("7")), "invalid value for IntOrString: invalid type: string is not a percentage");
        assert_eq!(
            said(text("10.5%")),
            "invalid value for IntOrString: invalid value \"10.5%\": strconv.Atoi: parsing \"10.5\": invalid syntax"
        );
    }
}
