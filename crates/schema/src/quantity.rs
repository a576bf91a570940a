//! Amounts of resources (`500m`, `1.5Gi`, `1e3`): parsing, comparing, adding, and the form in which Kubernetes writes them.
//!
//! [`Quantity`] is the value; [`written`] is the text that Kubernetes keeps of a text, which is not always the normal form.

use std::cmp::Ordering;
use std::fmt;

/// The kind of suffix behind the number, which decides the suffixes that the normal form may use.
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
    /// The text after the number is no suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i128 = 1_000_000_000;
/// Longer texts cannot be quantities that anything would hold.
const MAX_TEXT: usize = 128;
/// Kubernetes caps amounts with binary suffixes at the largest 64-bit integer.
const MAX_BINARY: i128 = i64::MAX as i128 * NANO;
/// Other amounts have no limit there; here they end at 10^28, in billionths.
const MAX_DIGITS: u32 = 37;
const MAX: i128 = 10_i128.pow(MAX_DIGITS);
/// Digits of a number that is multiplied by a power of two: the product is held exactly.
const BINARY_DIGITS: usize = 18;

/// The parts of a text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; `0` if there are none.
    whole: &'a str,
    /// Digits behind the point.
    fraction: &'a str,
    suffix: Suffix,
}

/// The value of a suffix: powers of two and ten.
#[derive(Clone, Copy)]
struct Suffix {
    base2: u32,
    exponent: i64,
    format: Format,
}

impl<'a> Parts<'a> {
    fn read(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() || text.len() > MAX_TEXT {
            return Err(QuantityError::Format);
        }
        let digits_of = |text: &'a str| text.split_at(text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()));
        let negative = text.starts_with('-');
        let (number, rest) = digits_of(text.strip_prefix(['-', '+']).unwrap_or(text));
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits_of);
        let whole = number.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self { negative, whole, fraction, suffix: Suffix::read(suffix)? })
    }

    /// Returns true if Kubernetes takes the text for the normal form of its amount, and keeps it.
    fn is_kept(&self) -> bool {
        let Suffix { base2, exponent, format } = self.suffix;
        if format == Format::BinarySi {
            // Rounded down, as many decimal digits as the suffix is worth.
            let digits = self.whole.len() + base2 as usize * 3 / 10;
            let odd = self.whole.parse::<u64>().is_ok_and(|value| value % 8 != 0);
            return self.fraction.is_empty() && digits <= 14 && odd;
        }
        let scale = exponent - self.fraction.len() as i64;
        self.whole.len() + self.fraction.len() <= BINARY_DIGITS
            && scale >= -9
            && scale % 3 == 0
            && !format!("{}{}", self.whole, self.fraction).ends_with("000")
            && !self.whole.starts_with('0')
    }
}

impl Suffix {
    fn read(text: &str) -> Result<Self, QuantityError> {
        let of = |base2, exponent, format| Ok(Self { base2, exponent, format });
        if let Some(step) = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|own| *own == text) {
            return of(10 * (step as u32 + 1), 0, Format::BinarySi);
        }
        if let Some(step) = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().position(|own| *own == text) {
            return of(0, step as i64 * 3 - 9, Format::DecimalSi);
        }
        let rest = text.trim_start_matches(|letter: char| "eEinumkKMGTP".contains(letter));
        if !rest.strip_prefix(['-', '+']).unwrap_or(rest).bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        match text.strip_prefix(['e', 'E']).map(str::parse::<i32>) {
            Some(Ok(power)) => of(0, power.into(), Format::DecimalExponent),
            _ => Err(QuantityError::Suffix),
        }
    }
}

/// Returns the text that Kubernetes writes after reading this one: the text itself if it is as good as the normal form (`1E3`, `1.`), else
/// the normal form.
///
/// # Errors
/// The text is no quantity.
pub fn written(text: &str) -> Result<String, QuantityError> {
    let parts = Parts::read(text)?;
    let value = Quantity::of(&parts);
    // An amount that is too large to be computed with is not worth another form.
    let beyond = value.nanos.abs() >= MAX;
    Ok(if parts.is_kept() || beyond { text.to_owned() } else { value.to_string() })
}

/// The same for resource lists, which are kept in thousandths, rounded up.
///
/// # Errors
/// The text is no quantity.
pub fn written_in_milli(text: &str) -> Result<String, QuantityError> {
    let value = Quantity::parse(text)?;
    let rounded = value.round_up_to_milli();
    if rounded == value { written(text) } else { Ok(rounded.to_string()) }
}

/// Returns the text that Kubernetes writes after reading this one and changing its form to that of binary suffixes (`Mi`): a text that is
/// kept stays as it is.
///
/// # Errors
/// The text is no quantity.
pub fn written_in_binary(text: &str) -> Result<String, QuantityError> {
    let parts = Parts::read(text)?;
    if parts.is_kept() {
        return Ok(text.to_owned());
    }
    Ok(Quantity { format: Format::BinarySi, ..Quantity::of(&parts) }.to_string())
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Reads a text. What is finer than a billionth is rounded away from zero.
    ///
    /// # Errors
    /// The text is no quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Parts::read(text).map(|parts| Self::of(&parts))
    }

    /// digits × 10^(exponent - fraction) × 2^base2, in billionths.
    fn of(parts: &Parts<'_>) -> Self {
        let Suffix { base2, exponent, format } = parts.suffix;
        let digits = format!("{}{}", parts.whole, parts.fraction);
        let all = digits.trim_start_matches('0');
        let digits = all.trim_end_matches('0');
        let mut power = exponent - parts.fraction.len() as i64 + 9 + (all.len() - digits.len()) as i64;
        let most = if base2 == 0 { MAX_DIGITS as usize } else { BINARY_DIGITS };
        let kept = &digits[..digits.len().min(most)];
        power += (digits.len() - kept.len()) as i64;
        // Digits that are dropped are not all zero: the last of them is not.
        let mut inexact = kept.len() < digits.len();
        let mut value = kept.parse::<i128>().unwrap_or_default() << base2;
        if value != 0 && power > 0 {
            let factor = u32::try_from(power).ok().and_then(|power| 10_i128.checked_pow(power));
            value = factor.and_then(|factor| value.checked_mul(factor)).unwrap_or(MAX);
        } else if power < 0 {
            let divisor = u32::try_from(-power).ok().and_then(|power| 10_i128.checked_pow(power));
            inexact |= divisor.is_none_or(|divisor| value % divisor != 0);
            value = divisor.map_or(0, |divisor| value / divisor);
        }
        if inexact && !digits.is_empty() {
            value += 1;
        }
        let value = value.min(if format == Format::BinarySi { MAX_BINARY } else { MAX });
        Self { nanos: if parts.negative { -value } else { value }, format }
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

    /// The value as a whole number, rounded up; the largest one if it is larger.
    pub fn to_int(self) -> i64 {
        let value = ceiling(self.nanos, NANO);
        i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
    }

    /// The value in thousandths, rounded up.
    pub fn to_milli(self) -> i128 {
        ceiling(self.nanos, NANO / 1000)
    }

    /// Returns true if it is a whole number.
    pub fn is_int(self) -> bool {
        self.nanos % NANO == 0
    }
}

fn ceiling(value: i128, unit: i128) -> i128 {
    let quotient = value.div_euclid(unit);
    if value.rem_euclid(unit) == 0 { quotient } else { quotient + 1 }
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return out.write_str("0");
        }
        // Nothing is rounded away, and less than a Ki has no binary suffix.
        if self.format == Format::BinarySi && self.is_int() && self.nanos.abs() >= 1024 * NANO {
            let mut value = self.nanos / NANO;
            let mut step = 0;
            while value % 1024 == 0 && step < 6 {
                value /= 1024;
                step += 1;
            }
            return write!(out, "{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step]);
        }
        let mut value = self.nanos;
        let mut step = 0;
        // There is no suffix beyond E, but exponents go on.
        while value % 1000 == 0 && (step < 9 || self.format == Format::DecimalExponent) {
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

    /// KAPI-REST-07: quantities are written, in normal form and rounded to thousandths, as Kubernetes v1.34.2 answered when it was asked for
    /// each; `!` stands for what it refuses.
    #[test]
    fn as_kubernetes_writes_them() {
        for line in include_str!("quantity.txt").lines().filter(|line| !line.starts_with('#')) {
            let [text, kept, normal, milli] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let Ok(found) = written(text) else {
                let refused = match Quantity::parse(text).unwrap_err() {
                    QuantityError::Format => "!format",
                    QuantityError::Suffix => "!suffix",
                };
                assert_eq!(refused, kept, "{text:?}");
                continue;
            };
            let value = Quantity::parse(text).unwrap();
            assert_eq!((found.as_str(), value.to_string().as_str()), (kept, normal), "{text:?}");
            assert_eq!(written_in_milli(text).as_deref(), Ok(milli), "{text:?}");
        }
    }

    /// Amounts that no suffix and no 64-bit number holds stay what they are, or the largest.
    #[test]
    fn large_amounts() {
        assert_eq!(Quantity::parse("1000E").unwrap().to_string(), "1000E");
        assert_eq!(written("1e4000").as_deref(), Ok("1e4000"));
        assert_eq!(written("-1e4000").as_deref(), Ok("-1e4000"));
        assert_eq!(Quantity::parse("1e-4000").unwrap().to_string(), "1e-9");
        assert_eq!(Quantity::parse("1e20").unwrap().to_int(), i64::MAX);
        assert_eq!(Quantity::parse("-1e20").unwrap().to_int(), i64::MIN);
        assert!(Quantity::parse("1e30").unwrap().plus(Quantity::parse("1e40").unwrap()) > Quantity::parse("1e27").unwrap());
        assert!(Quantity::parse(&"1".repeat(MAX_TEXT + 1)).is_err());
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
