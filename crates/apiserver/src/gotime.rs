//! Points in time as Go reads them, with Go's words for what it cannot read.

use mainstay_golang::quote;

/// Why a text is no point or length in time, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidTime(String);

/// The two time types of Kubernetes as text: to the second with any fraction, and with exactly six digits.
const SECONDS: (&str, [&str; 6]) = ("2006-01-02T15:04:05Z07:00", ["2006", "01", "02", "15", "04", "05"]);
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Checks `metav1.Time`, or `metav1.MicroTime`.
pub fn check(text: &str, micro: bool) -> Result<(), InvalidTime> {
    let layout = if micro { MICROS } else { SECONDS.0 };
    let intro = || format!("parsing time {}", quote(text));
    let cannot = |rest: &str, part: &str| {
        Err(InvalidTime(format!("{} as {}: cannot parse {} as {}", intro(), quote(layout), quote(rest), quote(part))))
    };
    let outside = |what: &str| Err(InvalidTime(format!("{}: {what} out of range", intro())));
    let mut rest = text;
    let mut read = [0_u32; 6];
    for (index, part) in SECONDS.1.iter().enumerate() {
        let separator = ["", "-", "-", "T", ":", ":"][index];
        let Some(after) = rest.strip_prefix(separator) else { return cannot(rest, separator) };
        rest = after;
        // An hour may have one digit in Go's layout, everything else has all of them.
        let digits = rest.bytes().take(part.len()).take_while(u8::is_ascii_digit).count();
        if digits != part.len() && !(*part == "15" && digits == 1) {
            return cannot(rest, part);
        }
        let (number, after) = rest.split_at(digits);
        read[index] = number.parse().unwrap_or_default();
        rest = after;
        let limit = [9999, 12, 31, 23, 59, 59][index];
        if read[index] > limit || matches!(index, 1 | 2) && read[index] == 0 {
            return outside(["year", "month", "day", "hour", "minute", "second"][index]);
        }
    }
    let digits = |text: &str| text.bytes().skip(1).take_while(u8::is_ascii_digit).count();
    let point = rest.starts_with(['.', ',']);
    if micro {
        if !point || digits(rest) < 6 {
            return cannot(rest, ".000000");
        }
        rest = &rest[7..];
    } else if point && digits(rest) > 0 {
        rest = &rest[1 + digits(rest)..];
    }
    match zone(rest) {
        None => return cannot(rest, "Z07:00"),
        Some(Err(())) => return outside("time zone offset hour"),
        Some(Ok("")) => {}
        Some(Ok(extra)) => return Err(InvalidTime(format!("{}: extra text: {}", intro(), quote(extra)))),
    }
    let [year, month, day, ..] = read;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day > days { outside("day") } else { Ok(()) }
}

/// The text that follows `Z` or `+01:00`; an error for an offset that no place has.
fn zone(text: &str) -> Option<Result<&str, ()>> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some(Ok(rest));
    }
    let bytes = text.as_bytes().get(..6)?;
    let fits = matches!(bytes[0], b'+' | b'-') && bytes[3] == b':' && [1, 2, 4, 5].iter().all(|at| bytes[*at].is_ascii_digit());
    if !fits {
        return None;
    }
    let two = |at: usize| u32::from(bytes[at] - b'0') * 10 + u32::from(bytes[at + 1] - b'0');
    Some(if two(1) > 24 || two(4) > 60 { Err(()) } else { Ok(&text[6..]) })
}

/// Reads a length of time as Go writes it: `1m30s`, `250ms`. What is negative is no time at all.
pub fn duration(text: &str) -> Result<std::time::Duration, InvalidTime> {
    let refuse = |what: &str| InvalidTime(format!("time: {what}duration {}", quote(text)));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(std::time::Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(refuse("invalid "));
    }
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let number = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let value: f64 = rest[..number].parse().map_err(|_| refuse("invalid "))?;
        rest = &rest[number..];
        let unit = rest.bytes().take_while(|byte| !byte.is_ascii_digit() && *byte != b'.').count();
        let (name, after) = rest.split_at(unit);
        rest = after;
        seconds += value
            * match name {
                "" => return Err(refuse("missing unit in ")),
                "ns" => 1e-9,
                "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                other => return Err(refuse(&format!("unknown unit {} in ", quote(other)))),
            };
    }
    // Go counts nanoseconds in 63 bits.
    if seconds >= 9_223_372_036.854_775 {
        return Err(refuse("invalid "));
    }
    Ok(if negative { std::time::Duration::ZERO } else { std::time::Duration::from_secs_f64(seconds) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_reads_them() {
        for good in ["2024-02-29T00:00:00Z", "2024-01-01T23:59:59.123456789+01:00", "2024-01-01T1:00:00Z"] {
            assert_eq!(check(good, false), Ok(()), "{good}");
        }
        assert_eq!(check("2024-01-01T00:00:00.123456Z", true), Ok(()));
        assert_eq!(check("2024-01-01T00:00:00.000000-07:00", true), Ok(()));
        let micros = "\"2006-01-02T15:04:05.000000Z07:00\"";
        let seconds = "\"2006-01-02T15:04:05Z07:00\"";
        for (text, micro, wanted) in [
            ("2024-01-01T00:00:00Z", true, format!(" as {micros}: cannot parse \"Z\" as \".000000\"")),
            ("2024-01-01T00:00:00.1234567Z", true, format!(" as {micros}: cannot parse \"7Z\" as \"Z07:00\"")),
            ("", false, format!(" as {seconds}: cannot parse \"\" as \"2006\"")),
            ("soon", false, format!(" as {seconds}: cannot parse \"soon\" as \"2006\"")),
            ("2024-01-01 00:00:00Z", false, format!(" as {seconds}: cannot parse \" 00:00:00Z\" as \"T\"")),
            ("2024-13-01T00:00:00Z", false, ": month out of range".into()),
            ("2023-02-29T00:00:00Z", false, ": day out of range".into()),
            ("2024-01-01T24:00:00Z", false, ": hour out of range".into()),
            ("2024-01-01T00:00:00", false, format!(" as {seconds}: cannot parse \"\" as \"Z07:00\"")),
            ("2024-01-01T00:00:00Zx", false, ": extra text: \"x\"".into()),
            ("2024-01-01T00:00:00é", false, format!(" as {seconds}: cannot parse \"é\" as \"Z07:00\"")),
        ] {
            let error = check(text, micro).err().map(|invalid| invalid.to_string()).unwrap_or_default();
            assert_eq!(error, format!("parsing time {}{wanted}", quote(text)));
        }
    }

    /// KAPI-SRV-06: lengths of time, with Go's words for what is none.
    #[test]
    fn durations() {
        for (text, millis) in [("0", 0), ("1s", 1_000), ("1m30s", 90_000), ("1.5s", 1_500), ("250ms", 250), ("-5s", 0), ("1h", 3_600_000)] {
            assert_eq!(duration(text).map(|read| read.as_millis()), Ok(millis), "{text}");
        }
        for (text, words) in [
            ("", "time: invalid duration \"\""),
            ("x", "time: invalid duration \"x\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5q", "time: unknown unit \"q\" in duration \"5q\""),
            ("9999999h", "time: invalid duration \"9999999h\""),
        ] {
            assert_eq!(duration(text), Err(InvalidTime(words.to_owned())));
        }
    }
}
