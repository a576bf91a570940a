//! Durations as Go's `time` package reads and writes them.

use std::time::Duration;

use crate::quote::quote;

/// A text that is no duration, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A number, a unit or the order of both is wrong, or the value is too large.
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {}", quote(.0))]
    MissingUnit(String),
    /// A unit is not known.
    #[error("time: unknown unit {} in duration {}", quote(.unit), quote(.text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
    /// A negative duration, which Go reads and none of our callers has a use for.
    #[error("time: negative duration {}", quote(.0))]
    Negative(String),
}

/// Parses a duration that is not negative: `12h`, `1m30s`, `1.5h`, `0`.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (whole, after) = rest.split_at(end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len())),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let (unit, after) = after.split_at(after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len()));
        let nanoseconds: u128 = match unit {
            "" => return Err(DurationError::MissingUnit(text.to_owned())),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            unit => return Err(DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() }),
        };
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| invalid())?.into() };
        // Digits below a nanosecond do not count.
        let fraction = &fraction[..fraction.len().min(18)];
        let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().map_err(|_| invalid())? };
        total += whole * nanoseconds + part * nanoseconds / 10_u128.pow(u32::try_from(fraction.len()).unwrap_or_default());
        if total > i64::MAX as u128 {
            return Err(invalid());
        }
        rest = after;
    }
    if negative && total > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    Ok(Duration::from_nanos(u64::try_from(total).map_err(|_| invalid())?))
}

/// Writes a duration as Go prints it: `15m0s`, `1.5s`, `0s`.
pub fn duration_text(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    if nanoseconds < 1_000_000_000 {
        let (unit, name) = match nanoseconds {
            ..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{}{name}", decimal(nanoseconds, unit));
    }
    let (hours, minutes) = (nanoseconds / 3_600_000_000_000, nanoseconds / 60_000_000_000 % 60);
    let seconds = format!("{}s", decimal(nanoseconds % 60_000_000_000, 1_000_000_000));
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

/// A multiple of a unit with as many decimals as it has.
fn decimal(value: u128, unit: u128) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.to_string().len() - 1;
    format!("{whole}.{}", format!("{rest:0digits$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, written) in [
            ("15m", "15m0s"),
            ("1h", "1h0m0s"),
            ("1.5h", "1h30m0s"),
            ("90s", "1m30s"),
            ("1s500ms", "1.5s"),
            ("0", "0s"),
            ("+0", "0s"),
            ("250ms", "250ms"),
            ("1us", "1µs"),
            ("1500ns", "1.5µs"),
            (".5s", "500ms"),
            ("2540400h10m10.000000000s", "2540400h10m10s"),
            ("-0s", "0s"),
        ] {
            assert_eq!(duration_text(parse_duration(text).unwrap()), written, "{text}");
        }
        for (text, error) in [
            ("", r#"time: invalid duration """#),
            ("3", r#"time: missing unit in duration "3""#),
            ("3x", r#"time: unknown unit "x" in duration "3x""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            ("m", r#"time: invalid duration "m""#),
            ("1m x", r#"time: unknown unit "m x" in duration "1m x""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("-1s", r#"time: negative duration "-1s""#),
        ] {
            assert_eq!(parse_duration(text).unwrap_err().to_string(), error);
        }
    }
}
