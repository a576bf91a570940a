//! Times on the command line, as people and as Go's programs write them: `90`, `90s`, `5m`, `1h30m`, `1.5h`.

use mainstay_terminal::errors::InvalidArgument;
use std::time::Duration;

/// Parses a duration: a bare number is in seconds.
pub fn parse(text: &str) -> Result<Duration, InvalidArgument> {
    let wrong = || InvalidArgument(format!("expected a time such as 90s, 5m or 1h30m, found {text:?}"));
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Duration::from_secs).map_err(|_| wrong());
    }
    go(text).ok_or_else(wrong)
}

/// Parses a duration as Go writes it: every number has a unit, except a bare 0. Days, which Go does not have, are accepted, too.
pub fn go(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len()));
        let (unit, after) = after.split_at(after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len()));
        let seconds = match unit {
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// Whole minutes of an interval; a bare number is in minutes.
pub fn minutes(text: &str) -> Result<i64, InvalidArgument> {
    let wrong = || InvalidArgument(format!("expected an interval of whole minutes such as 10m or 1h30m, found {text:?}"));
    let bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds =
        if bare { text.parse::<u64>().ok().and_then(|minutes| minutes.checked_mul(60)) } else { go(text).map(|time| time.as_secs()) };
    let seconds = seconds.filter(|seconds| *seconds > 0 && seconds % 60 == 0).ok_or_else(wrong)?;
    i64::try_from(seconds / 60).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MS-CLI-06: a time is written as people write it, wherever one is taken.
    #[test]
    fn times() {
        for (text, millis) in [
            ("90", 90_000),
            ("0", 0),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for odd in ["", "s", "-1s", "5x", "1h30", "five", "99999999999999999999h", "99999999999999999999999"] {
            assert!(parse(odd).unwrap_err().to_string().starts_with("expected a time such as 90s, 5m or 1h30m, found"), "{odd}");
        }
        for (text, told) in
            [("10", Some(10)), ("10m", Some(10)), ("1h30m", Some(90)), ("2h", Some(120)), ("90s", None), ("0", None), ("x", None)]
        {
            assert_eq!(minutes(text).ok(), told, "{text}");
        }
    }
}
