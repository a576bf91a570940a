//! Amounts of resources (`500m`, `1.5Gi`, `1e3`): parsing, comparing, adding, and the normal form in which Kubernetes writes them.

use std::cmp::Ordering;
use std::fmt;

/// What stands behind the number: which suffixes the normal form may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `1500m`, `12k`.
    DecimalSi,
    /// `1536Mi`.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

/// An amount. Equal and ordered by value, whatever its form.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// In billionths: the finest amount that Kubernetes keeps.
    nanos: i128,
    format: Format,
}

/// A text that is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not have the form of one.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// What follows the number is no suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i128 = 1_000_000_000;
/// Longer texts cannot be quantities that anything would hold.
const MAX_TEXT: usize = 128;
/// Kubernetes caps amounts at the largest 64-bit integer.
const MAX: i128 = i64::MAX as i128 * NANO;

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() || text.len() > MAX_TEXT {
            return Err(QuantityError::Format);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError::Format);
        }
        let (base2, exponent, format) = scale(suffix)?;

        // digits × 10^(exponent - fraction length) × 2^base2, in billionths, rounded up (away from zero).
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let mut power = exponent - fraction.len() as i32 + 9;
        let mut value: i128 = 0;
        let mut inexact = false;
        let mut saturated = false;
        for digit in digits.bytes() {
            match value.checked_mul(10).and_then(|value| value.checked_add(i128::from(digit - b'0'))) {
                Some(next) if next < i128::MAX >> 64 => value = next,
                _ => {
                    // Beyond what can be told apart: what follows only moves the point.
                    inexact |= digit != b'0';
                    power += 1;
                }
            }
        }
        match value.checked_mul(1_i128 << base2) {
            Some(next) => value = next,
            None => saturated = true,
        }
        while power > 0 && value != 0 && !saturated {
            match value.checked_mul(10) {
                Some(next) => value = next,
                None => saturated = true,
            }
            power -= 1;
        }
        while power < 0 && value != 0 {
            inexact |= value % 10 != 0;
            value /= 10;
            power += 1;
        }
        if saturated || value > MAX {
            value = MAX;
        } else if inexact {
            value += 1;
        }
        Ok(Self { nanos: if negative { -value } else { value }, format })
    }

    /// A whole number.
    pub fn from_int(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANO, format: Format::DecimalSi }
    }

    /// The sum, in this amount's form.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: (self.nanos + other.nanos).clamp(-MAX, MAX), format }
    }

    /// The difference, in this amount's form.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: (self.nanos - other.nanos).clamp(-MAX, MAX), format }
    }

    /// Rounded up to thousandths, as resource lists are kept.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        self.round_up_to(NANO / 1000)
    }

    /// Rounded up to a whole number, as storage is counted.
    #[must_use]
    pub fn round_up_to_int(self) -> Self {
        self.round_up_to(NANO)
    }

    /// Away from zero, to a multiple of `step` billionths.
    fn round_up_to(self, step: i128) -> Self {
        let rest = self.nanos.rem_euclid(step);
        let nanos = if rest == 0 {
            self.nanos
        } else if self.nanos > 0 {
            self.nanos + step - rest
        } else {
            self.nanos - rest
        };
        Self { nanos, ..self }
    }

    /// Less than, equal to or more than zero.
    pub fn sign(self) -> Ordering {
        self.nanos.cmp(&0)
    }

    /// The value as a whole number, rounded up.
    pub fn to_int(self) -> i64 {
        ceiling(self.nanos, NANO) as i64
    }

    /// The value in thousandths, rounded up.
    pub fn to_milli(self) -> i128 {
        ceiling(self.nanos, NANO / 1000)
    }

    /// Whether it is a whole number.
    pub fn is_int(self) -> bool {
        self.nanos % NANO == 0
    }
}

fn ceiling(value: i128, unit: i128) -> i128 {
    let quotient = value.div_euclid(unit);
    if value.rem_euclid(unit) == 0 { quotient } else { quotient + 1 }
}

/// Powers of two and ten that a suffix stands for.
fn scale(suffix: &str) -> Result<(u32, i32, Format), QuantityError> {
    Ok(match suffix {
        "" => (0, 0, Format::DecimalSi),
        "n" => (0, -9, Format::DecimalSi),
        "u" => (0, -6, Format::DecimalSi),
        "m" => (0, -3, Format::DecimalSi),
        "k" => (0, 3, Format::DecimalSi),
        "M" => (0, 6, Format::DecimalSi),
        "G" => (0, 9, Format::DecimalSi),
        "T" => (0, 12, Format::DecimalSi),
        "P" => (0, 15, Format::DecimalSi),
        "E" => (0, 18, Format::DecimalSi),
        "Ki" => (10, 0, Format::BinarySi),
        "Mi" => (20, 0, Format::BinarySi),
        "Gi" => (30, 0, Format::BinarySi),
        "Ti" => (40, 0, Format::BinarySi),
        "Pi" => (50, 0, Format::BinarySi),
        "Ei" => (60, 0, Format::BinarySi),
        other => {
            if !other.bytes().all(|byte| b"eEinumkKMGTP+-0123456789".contains(&byte)) {
                return Err(QuantityError::Format);
            }
            let Some(power) = other.strip_prefix(['e', 'E']) else { return Err(QuantityError::Suffix) };
            match power.strip_prefix('+').unwrap_or(power).parse::<i32>() {
                Ok(power) if (-1000..=1000).contains(&power) => (0, power, Format::DecimalExponent),
                _ => return Err(QuantityError::Suffix),
            }
        }
    })
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return out.write_str("0");
        }
        if self.format == Format::BinarySi && self.nanos.abs() >= 1024 * NANO {
            let mut value = ceiling(self.nanos, NANO);
            let mut step = 0;
            while value % 1024 == 0 && step < 6 {
                value /= 1024;
                step += 1;
            }
            return write!(out, "{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step]);
        }
        let mut value = self.nanos;
        let mut step = 0;
        while value % 1000 == 0 && step < 9 {
            value /= 1000;
            step += 1;
        }
        match (self.format, step) {
            (Format::DecimalExponent, 3) => write!(out, "{value}"),
            (Format::DecimalExponent, _) => write!(out, "{value}e{}", step as i32 * 3 - 9),
            _ => write!(out, "{value}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][step]),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    /// KAPI-REST-07: quantities are written in Kubernetes' normal form.
    #[test]
    fn normal_form() {
        for (text, normal) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1073741824", "1073741824"),
            ("2048Mi", "2Gi"),
            ("1e3", "1e3"),
            ("1500m", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("100u", "100u"),
            ("129e6", "129e6"),
            ("129M", "129M"),
            ("1k", "1k"),
            (".1", "100m"),
            ("0", "0"),
            ("0Mi", "0"),
            ("123Mi", "123Mi"),
            ("1000k", "1M"),
            ("9E", "9E"),
            ("0.5Ki", "512"),
            ("+1", "1"),
            ("-1.5", "-1500m"),
            ("1.", "1"),
            ("12e1", "120"),
            ("1E3", "1e3"),
            ("0.0000000001", "1n"),
            ("99999999999999999999999", "9223372036854775807"),
            ("1.1Ki", "1127"),
            ("100000", "100k"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), normal, "{text}");
        }
        assert_eq!(Quantity::parse("100u").unwrap().round_up_to_milli().to_string(), "1m");
    }

    #[test]
    fn refused() {
        for text in ["", "x", "1x", "1.1.1", "m", "1Kib", "--1", "1 ", " 1", ".", "1e", "1ee3"] {
            assert!(Quantity::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn normal_form_keeps_the_value(value in -1_000_000_i64..1_000_000, suffix in prop::sample::select(vec!["", "m", "u", "k", "M", "Ki", "Mi", "Gi", "e3"])) {
            let one = Quantity::parse(&format!("{value}{suffix}")).unwrap();
            let two = Quantity::parse(&one.to_string()).unwrap();
            prop_assert_eq!(one, two);
            prop_assert_eq!(two.to_string(), one.to_string());
        }
    }
}
