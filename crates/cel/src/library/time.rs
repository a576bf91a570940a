//! Points and spans of time.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};

use crate::error::EvalError;
use crate::value::Value;

/// RFC 3339, strictly: a date, `T`, a time, a zone.
pub(crate) fn parse_timestamp(text: &str) -> Option<DateTime> {
    let bytes = text.as_bytes();
    let shaped = text.is_ascii()
        && bytes.len() >= 20
        && (bytes[4], bytes[7], bytes[10], bytes[13], bytes[16]) == (b'-', b'-', b'T', b':', b':')
        && bytes[..4].iter().all(u8::is_ascii_digit);
    if !shaped {
        return None;
    }
    let zone = 19 + bytes[19..].iter().position(|byte| matches!(byte, b'Z' | b'+' | b'-'))?;
    let civil: DateTime = text[..zone].parse().ok()?;
    let offset = match &text[zone..] {
        "Z" => Offset::UTC,
        numeric if numeric.len() == 6 => offset(numeric)?,
        _ => return None,
    };
    let utc = civil.checked_sub(SignedDuration::from_secs(i64::from(offset.seconds()))).ok()?;
    (utc.year() > 0).then_some(utc)
}

/// A date alone, as midnight UTC.
pub(crate) fn parse_date(text: &str) -> Option<DateTime> {
    if text.len() != 10 {
        return parse_timestamp(text);
    }
    let date: Date = text.parse().ok()?;
    Some(date.to_datetime(Time::midnight()))
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Seconds since 1970.
pub(crate) fn seconds(at: DateTime) -> i64 {
    at.duration_since(EPOCH).as_secs()
}

pub(crate) fn from_seconds(seconds: i64) -> Option<DateTime> {
    EPOCH.checked_add(SignedDuration::from_secs(seconds)).ok().filter(|at| at.year() > 0)
}

/// Go's notation (`1h30m`), and the longer units that Kubernetes' format knows.
pub(crate) fn parse_duration(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut total: i128 = 0;
    let mut any = false;
    while !rest.is_empty() {
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit() && byte != b'.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let after = after.trim_start_matches(' ');
        let end = after.find(|letter: char| letter.is_ascii_digit() || letter == ' ' || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            "us" | "µs" | "μs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "w" | "wk" | "wks" | "week" | "weeks" => 604_800_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || whole.len() > 19 || fraction.contains('.') {
            return None;
        }
        total += if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()? * unit };
        let fraction = &fraction[..fraction.len().min(18)];
        if !fraction.is_empty() {
            total += fraction.parse::<i128>().ok()? * unit / 10_i128.pow(fraction.len() as u32);
        }
        if total > i128::from(i64::MAX) {
            return None;
        }
        any = true;
        rest = after.trim_start_matches(' ');
    }
    let nanoseconds = i64::try_from(if negative { -total } else { total }).ok()?;
    any.then(|| SignedDuration::from_nanos(nanoseconds))
}

/// A span as `string()` writes it: seconds.
pub(crate) fn duration_text(duration: SignedDuration) -> String {
    let nanoseconds = duration.as_nanos();
    let (sign, nanoseconds) = if nanoseconds < 0 { ("-", -nanoseconds) } else { ("", nanoseconds) };
    let (whole, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{whole}s");
    }
    let fraction = format!("{fraction:09}");
    format!("{sign}{whole}.{}s", fraction.trim_end_matches('0'))
}

/// A part of a point in time, in UTC or in the named zone.
pub(crate) fn part(at: DateTime, name: &str, zone: Option<&str>) -> Result<Value, EvalError> {
    let civil = match zone {
        None => at,
        Some(zone) => local(at, zone)?,
    };
    Ok(Value::Int(match name {
        "getFullYear" => i64::from(civil.year()),
        "getMonth" => i64::from(civil.month()) - 1,
        "getDayOfYear" => i64::from(civil.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(civil.day()) - 1,
        "getDate" => i64::from(civil.day()),
        "getDayOfWeek" => i64::from(civil.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(civil.hour()),
        "getMinutes" => i64::from(civil.minute()),
        "getSeconds" => i64::from(civil.second()),
        "getMilliseconds" => i64::from(civil.millisecond()),
        _ => return Err(EvalError::overload()),
    }))
}

/// The time of day and the date somewhere: at a fixed distance from UTC (`+01:30`), or in a zone with a name.
fn local(at: DateTime, zone: &str) -> Result<DateTime, EvalError> {
    let overflow = |_| EvalError::new("timestamp overflow");
    if zone.contains(':') {
        let offset = offset(zone).ok_or_else(|| EvalError::new(format!("invalid time zone: {zone}")))?;
        return at.checked_add(SignedDuration::from_secs(i64::from(offset.seconds()))).map_err(overflow);
    }
    if matches!(zone, "" | "UTC") {
        return Ok(at);
    }
    let zone = TimeZone::get(zone).map_err(|_| EvalError::new(format!("unknown time zone {zone}")))?;
    let instant = Offset::UTC.to_timestamp(at).map_err(overflow)?;
    Ok(zone.to_datetime(instant))
}

/// `+01:30`, `-8:00`, `01:30`
fn offset(zone: &str) -> Option<Offset> {
    let (sign, rest) = match zone.as_bytes().first()? {
        b'-' => (-1, &zone[1..]),
        b'+' => (1, &zone[1..]),
        _ => (1, zone),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let seconds = hours.parse::<i32>().ok()?.checked_mul(3600)?.checked_add(minutes.parse::<i32>().ok()?.checked_mul(60)?)?;
    Offset::from_seconds(sign * seconds).ok()
}
