//! Spans of time as `oc` computes and writes them.

use std::time::Duration;

use jiff::Timestamp;
use mainstay_golang::duration_text;

/// A span of time in nanoseconds, which may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub i128);

impl Span {
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);
    /// One minute.
    pub const MINUTE: Self = Self(60_000_000_000);

    /// Returns a number of minutes.
    pub const fn minutes(count: i128) -> Self {
        Self(count * Self::MINUTE.0)
    }

    /// Returns the time from one moment to another; one that is unknown is long ago, and the span ends at the largest that Go has.
    pub fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Self {
        match (from, to) {
            (Some(from), Some(to)) => Self(to.as_nanosecond() - from.as_nanosecond()),
            (None, Some(_)) => Self(i64::MAX.into()),
            (Some(_), None) => Self(i64::MIN.into()),
            (None, None) => Self(0),
        }
    }

    /// Returns the multiple of a unit that is nearest; half a unit goes away from zero.
    #[must_use]
    pub fn rounded(self, unit: Self) -> Self {
        let half = if self.0 < 0 { -(unit.0 / 2) } else { unit.0 / 2 };
        Self((self.0 + half) / unit.0 * unit.0)
    }

    /// Returns the multiple of a unit that is next towards zero.
    #[must_use]
    pub fn truncated(self, unit: Self) -> Self {
        Self(self.0 / unit.0 * unit.0)
    }

    /// Returns the seconds.
    #[expect(clippy::cast_precision_loss, reason = "as Go computes them")]
    pub fn seconds(self) -> f64 {
        let (whole, rest) = (self.0 / Self::SECOND.0, self.0 % Self::SECOND.0);
        whole as f64 + rest as f64 / 1e9
    }

    /// Writes the span without parts that are zero at its end: `1h`, `3m`, `now`.
    pub fn short(self) -> String {
        let size = Duration::from_nanos(u64::try_from(self.0.unsigned_abs()).unwrap_or(u64::MAX));
        let whole = format!("{}{}", if self.0 < 0 { "-" } else { "" }, duration_text(size));
        if whole == "0s" {
            return "now".to_owned();
        }
        let cut = whole
            .strip_suffix("0m0s")
            .filter(|rest| rest.ends_with('h'))
            .or_else(|| whole.strip_suffix("0s").filter(|rest| rest.ends_with('m')));
        cut.map_or_else(|| whole.clone(), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVO-STAT-02: spans as they are shown.
    #[test]
    fn short_spans() {
        let seconds = |count: i128| Span(count * Span::SECOND.0);
        for (span, expected) in [
            (seconds(0), "now"),
            (seconds(59), "59s"),
            (seconds(60), "1m"),
            (seconds(61), "1m1s"),
            (seconds(3600), "1h"),
            (seconds(3660), "1h1m"),
            (seconds(36_000), "10h"),
            (seconds(600), "10m"),
            (seconds(-120), "-2m"),
        ] {
            assert_eq!(span.short(), expected);
        }
        assert_eq!((seconds(90).rounded(Span::MINUTE), seconds(-90).rounded(Span::MINUTE)), (Span::minutes(2), Span::minutes(-2)));
        assert_eq!((seconds(119).truncated(Span::MINUTE), seconds(-119).truncated(Span::MINUTE)), (Span::minutes(1), Span::minutes(-1)));
    }
}
