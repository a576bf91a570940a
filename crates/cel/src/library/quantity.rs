//! Kubernetes' quantities (`1.5Gi`, `100m`, `1e3`) as exact decimals.

use std::cmp::Ordering;

/// `digits * 10^exponent`, with binary suffixes multiplied in.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    digits: i128,
    exponent: i32,
}

impl Quantity {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.bytes().position(|byte| !byte.is_ascii_digit() && byte != b'.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || whole.len() + fraction.len() > 30 {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let digits = if negative { -digits } else { digits };
        let (factor, exponent) = suffix_of(suffix)?;
        Some(Self { digits: digits.checked_mul(factor)?, exponent: exponent - i32::try_from(fraction.len()).ok()? }.reduced())
    }

    pub(crate) fn from_int(number: i64) -> Self {
        Self { digits: i128::from(number), exponent: 0 }.reduced()
    }

    fn reduced(mut self) -> Self {
        if self.digits == 0 {
            return Self { digits: 0, exponent: 0 };
        }
        while self.digits % 10 == 0 {
            self.digits /= 10;
            self.exponent += 1;
        }
        self
    }

    /// Both with the smaller exponent; `None` when that is out of all proportion.
    fn aligned(self, other: Self) -> Option<(i128, i128, i32)> {
        let exponent = self.exponent.min(other.exponent);
        let scale = |one: Self| one.digits.checked_mul(10_i128.checked_pow(u32::try_from(one.exponent - exponent).ok()?)?);
        Some((scale(self)?, scale(other)?, exponent))
    }

    pub(crate) fn sign(self) -> i64 {
        self.digits.signum() as i64
    }

    pub(crate) fn compare(self, other: Self) -> Ordering {
        if self.sign() != other.sign() {
            return self.sign().cmp(&other.sign());
        }
        match self.aligned(other) {
            Some((left, right, _)) => left.cmp(&right),
            None => self.float().total_cmp(&other.float()),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let (left, right, exponent) = self.aligned(other)?;
        Some(Self { digits: left.checked_add(right)?, exponent }.reduced())
    }

    pub(crate) fn minus(self, other: Self) -> Option<Self> {
        self.plus(Self { digits: other.digits.checked_neg()?, ..other })
    }

    pub(crate) fn integer(self) -> Option<i64> {
        if self.exponent < 0 {
            return None;
        }
        let factor = 10_i128.checked_pow(u32::try_from(self.exponent).ok()?)?;
        i64::try_from(self.digits.checked_mul(factor)?).ok()
    }

    pub(crate) fn float(self) -> f64 {
        self.digits as f64 * 10_f64.powi(self.exponent)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other).is_eq()
    }
}

fn suffix_of(suffix: &str) -> Option<(i128, i32)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            (1, exponent.parse().ok()?)
        }
    })
}
