//! Single values as Go's types read them and write them out again.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use mainstay_versions::Version;
use serde_json::{Number, Value};

/// Any JSON, with its numbers written as Go does: 1.0 is 1.
pub(super) fn raw(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => match whole(value) {
            // Beyond this Go writes an exponent, and the number is left as it is.
            Some(whole) if number.as_f64().is_some_and(|float| float.abs() < 9.0e18) => Value::Number(Number::from(whole)),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(raw).collect(),
        Value::Object(entries) => Value::Object(entries.iter().map(|(key, item)| (key.clone(), raw(item))).collect()),
        _ => value.clone(),
    }
}

/// 2^63, which is the first float that does not fit into 64 bits.
const END: f64 = 9_223_372_036_854_775_808.0;

/// A number without a fraction. One that fits no 64-bit integer becomes the smallest of them, as in Go.
pub(super) fn whole(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    #[allow(clippy::cast_possible_truncation, reason = "the range was looked at")]
    (float.fract() == 0.0).then(|| if (-END..END).contains(&float) { float as i64 } else { i64::MIN })
}

/// The number in a field of 32 or 64 bits: cut off if it does not fit, or refused.
#[allow(clippy::cast_possible_truncation, reason = "that is what the converter does")]
pub(super) fn fitted(whole: i64, short: bool, refuse: bool) -> Option<i64> {
    match (short, refuse) {
        (true, true) => i32::try_from(whole).ok().map(i64::from),
        (true, false) => Some(i64::from(whole as i32)),
        (false, true) if whole == i64::MIN => None,
        (false, _) => Some(whole),
    }
}

/// The bytes that a base64 text stands for, encoded again; line breaks in it are ignored.
pub(crate) fn base64(text: &str) -> Option<String> {
    // Go's decoder ignores the unused bits of the last byte.
    const ENGINE: GeneralPurpose = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
    );
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    ENGINE.decode(text).ok().map(|bytes| ENGINE.encode(bytes))
}

/// A point in time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// The zero value, which is written as null.
    Zero,
    /// Any other, in UTC and in whole seconds.
    At(String),
}

/// Reads an RFC 3339 time as Go's parser does: capital letters, two digits each, a fraction after a point or a comma.
pub(super) fn time(text: &str) -> Option<Time> {
    let (date, rest) = text.split_at_checked(19)?;
    let bytes = date.as_bytes();
    let shaped = bytes.iter().enumerate().all(|(at, byte)| match at {
        4 | 7 => *byte == b'-',
        10 => *byte == b'T',
        13 | 16 => *byte == b':',
        _ => byte.is_ascii_digit(),
    });
    let number = |text: &str| text.parse::<i16>().ok();
    let short = |text: &str| text.parse::<i8>().ok();
    if !shaped {
        return None;
    }
    let (hour, minute, second) = (short(&date[11..13])?, short(&date[14..16])?, short(&date[17..19])?);
    let civil = DateTime::new(number(&date[..4])?, short(&date[5..7])?, short(&date[8..10])?, hour, minute, second, 0).ok()?;
    let zone = match rest.strip_prefix(['.', ',']) {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            (zone.len() < fraction.len()).then_some(zone)?
        }
        None => rest,
    };
    let seconds = if zone == "Z" {
        0
    } else {
        let (sign, clock) = zone.split_at_checked(1)?;
        let (hours, minutes) = clock.split_once(':')?;
        let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(hours) || !digits(minutes) {
            return None;
        }
        let (hours, minutes) = (hours.parse::<i32>().ok()?, minutes.parse::<i32>().ok()?);
        if hours > 24 || minutes >= 60 {
            return None;
        }
        match sign {
            "+" => hours * 3600 + minutes * 60,
            "-" => -(hours * 3600 + minutes * 60),
            _ => return None,
        }
    };
    let at: Timestamp = Offset::from_seconds(seconds).ok()?.to_timestamp(civil).ok()?;
    let text = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Some(if text == "0001-01-01T00:00:00Z" { Time::Zero } else { Time::At(text) })
}

/// Returns whether the text consists of pre-release identifiers, separated by dots.
pub(super) fn is_release(text: &str) -> bool {
    text.split('.').all(|part| Version::parse(&format!("0.0.0-{part}")).is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = |text| time(text).map(|time| if let Time::At(text) = time { text } else { "zero".to_owned() });
        for (text, expected) in [
            ("2024-02-29T01:02:03Z", Some("2024-02-29T01:02:03Z")),
            ("2024-02-29T01:02:03.999+02:00", Some("2024-02-28T23:02:03Z")),
            ("2024-02-29T01:02:03,5-00:30", Some("2024-02-29T01:32:03Z")),
            ("0001-01-01T00:00:00Z", Some("zero")),
            ("2023-02-29T01:02:03Z", None),
            ("2024-02-29t01:02:03z", None),
            ("2024-02-29 01:02:03Z", None),
            ("2024-02-29T24:02:03Z", None),
            ("2024-02-29T01:02:03", None),
            ("2024-02-29T01:02:03.Z", None),
            ("2024-02-29T01:02:03+0200", None),
            ("", None),
        ] {
            assert_eq!(at(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn versions_are_forgiven() {
        for (text, shown) in
            [("1.25", Some("1.25.0")), (" v1 ", Some("1.0.0")), ("01.02.03", Some("1.2.3")), ("1.2.3-rc.1", Some("1.2.3-rc.1"))]
        {
            assert_eq!(Version::parse_tolerant(text).ok().map(|version| version.to_string()).as_deref(), shown, "{text}");
        }
        for text in ["", "1-a", "x", "1..2"] {
            assert!(Version::parse_tolerant(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_cut_or_refused() {
        assert_eq!(fitted(4_294_967_297, true, false), Some(1));
        assert_eq!(fitted(4_294_967_297, true, true), None);
        assert_eq!(whole(&json!(2.5)), None);
        assert_eq!(whole(&json!(1e20)), Some(i64::MIN));
        assert_eq!(raw(&json!({"a": [1.0, 2.5, -0.0]})), json!({"a": [1, 2.5, 0]}));
    }

    #[test]
    fn bytes_are_written_again() {
        assert_eq!(base64("YW\nJj").as_deref(), Some("YWJj"));
        assert_eq!(base64("YWJ").as_deref(), None);
        assert_eq!(base64("YR==").as_deref(), Some("YQ=="));
        assert_eq!(base64("a b").as_deref(), None);
    }
}
