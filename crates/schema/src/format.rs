//! The `format` keyword: the texts that Kubernetes checks, and the form that it expects of them (KAPI-CRD-02).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::pattern::Pattern;

/// Returns true if Kubernetes knows the format for texts; others are ignored (a CRD that uses one is answered with a warning).
pub fn is_known(format: &str) -> bool {
    check(format, "").is_some()
}

/// Returns true if a text has the format; `None` if the format is not known.
pub fn check(format: &str, text: &str) -> Option<bool> {
    Some(match format {
        "date-time" | "datetime" => date_time(text),
        "date" => date(text),
        "duration" => duration(text),
        "email" => email(text),
        "hostname" => hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => cidr(text),
        "mac" => mac(text),
        "uri" => uri(text),
        "uuid" => uuid(text, None),
        "uuid3" => uuid(text, Some('3')),
        "uuid4" => uuid(text, Some('4')),
        "uuid5" => uuid(text, Some('5')),
        "byte" => byte(text),
        "password" => true,
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "isbn" => isbn10(text) || isbn13(text),
        "isbn10" => isbn10(text),
        "isbn13" => isbn13(text),
        "creditcard" => credit_card(text),
        "ssn" => matches("^\\d{3}[- ]?\\d{2}[- ]?\\d{4}$", text),
        "hexcolor" => matches("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", text),
        "rgbcolor" => rgb_color(text),
        _ => return None,
    })
}

fn matches(expression: &str, text: &str) -> bool {
    Pattern::compile(expression).is_ok_and(|pattern| pattern.matches(text))
}

/// RFC 3339, as generously as go-openapi reads it: the zone may lack its colon or be absent, the separator may be a blank, seconds may be absent.
fn date_time(text: &str) -> bool {
    // An empty text is the zero time.
    if text.is_empty() {
        return true;
    }
    let Some(day) = text.get(..10) else {
        return false;
    };
    if !date(day) {
        return false;
    }
    let rest = &text[10..];
    let Some(clock) = rest.strip_prefix(['T', 't', ' ']) else {
        return rest.is_empty();
    };
    matches("^([01]\\d|2[0-3]):[0-5]\\d(:([0-5]\\d|60)([.,]\\d+)?)?([zZ]|[+-]([01]\\d|2[0-3]):?[0-5]\\d)?$", clock)
}

fn date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| text.get(range).filter(|part| part.bytes().all(|digit| digit.is_ascii_digit()));
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (digits(0..4), digits(5..7), digits(8..10)) else {
        return false;
    };
    let (year, month, day): (u32, u32, u32) = (year.parse().unwrap_or(0), month.parse().unwrap_or(0), day.parse().unwrap_or(0));
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        1..=12 => 31,
        _ => return false,
    };
    (1..=length).contains(&day)
}

/// Go's `1h30m`, or go-openapi's words: `3 days`, `2 weeks`.
fn duration(text: &str) -> bool {
    let go = "^[-+]?(0|((\\d+(\\.\\d*)?|\\.\\d+)(ns|us|µs|μs|ms|s|m|h))+)$";
    let words = "^\\s*((\\d+)\\s*([A-Za-zµ]+)\\s*)+$";
    if matches(go, text) {
        return true;
    }
    if !matches(words, text) {
        return false;
    }
    let units = [
        "ns",
        "nano",
        "nanos",
        "nanosecond",
        "nanoseconds",
        "us",
        "µs",
        "micro",
        "micros",
        "microsecond",
        "microseconds",
        "ms",
        "milli",
        "millis",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "mins",
        "minute",
        "minutes",
        "h",
        "hr",
        "hrs",
        "hour",
        "hours",
        "d",
        "day",
        "days",
        "w",
        "wk",
        "wks",
        "week",
        "weeks",
    ];
    text.split(|letter: char| letter.is_ascii_digit() || letter.is_whitespace())
        .filter(|part| !part.is_empty())
        .all(|unit| units.contains(&unit.to_lowercase().as_str()))
}

/// RFC 5322, limited to addresses in practice: `a@b`, `Name <a@b>`.
fn email(text: &str) -> bool {
    let address = match text.split_once('<') {
        Some((_, rest)) => match rest.trim_end().strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let atom = |part: &str| {
        !part.is_empty()
            && part.split('.').all(|word| {
                !word.is_empty()
                    && word.chars().all(|letter| letter.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(letter) || !letter.is_ascii())
            })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']') && domain[1..domain.len() - 1].parse::<IpAddr>().is_ok();
    (quoted || atom(local)) && (literal || atom(domain))
}

fn hostname(text: &str) -> bool {
    let expression = "^([a-zA-Z0-9\\p{S}\\p{L}]((-?[a-zA-Z0-9\\p{S}\\p{L}]{0,62})?)|([a-zA-Z0-9\\p{S}\\p{L}](([a-zA-Z0-9-\\p{S}\\p{L}]{0,61}[a-zA-Z0-9\\p{S}\\p{L}])?)(\\.)){1,}([a-zA-Z0-9\\p{S}\\p{L}])(-?[a-zA-Z0-9\\p{S}\\p{L}]){1,62})$";
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches(expression, text)
}

fn cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let plain = !length.is_empty()
        && length.len() <= 3
        && length.bytes().all(|digit| digit.is_ascii_digit())
        && (length == "0" || !length.starts_with('0'));
    match (address.parse::<IpAddr>(), length.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(length)) => plain && length <= 32,
        (Ok(IpAddr::V6(_)), Ok(length)) => plain && length <= 128,
        _ => false,
    }
}

/// 6, 8 or 20 octets, in pairs with `:` or `-`, or in groups of four digits with `.`.
fn mac(text: &str) -> bool {
    let octets = |separator: char, width: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let good = parts.iter().all(|part| part.len() == width && part.bytes().all(|digit| digit.is_ascii_hexdigit()));
        good && [6, 8, 20].contains(&(parts.len() * width / 2))
    };
    octets(':', 2) || octets('-', 2) || octets('.', 4)
}

/// A URI that can stand in a request line: an absolute URL, or a path.
fn uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    let escapes_good =
        text.split('%').skip(1).all(|after| after.len() >= 2 && after.bytes().take(2).all(|digit| digit.is_ascii_hexdigit()));
    if !escapes_good {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    match text.split_once(':') {
        Some((scheme, rest)) => {
            let scheme_good = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
            let host = rest.strip_prefix("//").map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
            scheme_good
                && !host.is_some_and(|host| {
                    host.contains(' ')
                        || host
                            .rsplit_once(':')
                            .is_some_and(|(_, port)| !port.ends_with(']') && !port.bytes().all(|digit| digit.is_ascii_digit()))
                })
        }
        None => false,
    }
}

fn uuid(text: &str, version: Option<char>) -> bool {
    let plain = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    if !matches(plain, text) {
        return false;
    }
    let digits: Vec<char> = text.chars().filter(|letter| *letter != '-').collect();
    match version {
        None => true,
        Some('3') => digits[12] == '3',
        Some(version) => digits[12] == version && "89abAB".contains(digits[16]),
    }
}

/// Base64 with padding; the empty text is not.
fn byte(text: &str) -> bool {
    let inner = text.trim_end_matches('=');
    let padding = text.len() - inner.len();
    !inner.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

fn digits_only(text: &str) -> String {
    text.chars().filter(|letter| *letter != '-' && *letter != ' ').collect()
}

fn isbn10(text: &str) -> bool {
    let digits = digits_only(text);
    if !matches("^\\d{9}[\\dX]$", &digits) {
        return false;
    }
    let sum: u32 = digits.chars().zip(1_u32..).map(|(digit, weight)| weight * digit.to_digit(10).unwrap_or(10)).sum();
    sum.is_multiple_of(11)
}

fn isbn13(text: &str) -> bool {
    let digits = digits_only(text);
    if !matches("^\\d{13}$", &digits) {
        return false;
    }
    let sum: u32 =
        digits.chars().enumerate().map(|(index, digit)| digit.to_digit(10).unwrap_or(0) * if index % 2 == 0 { 1 } else { 3 }).sum();
    sum.is_multiple_of(10)
}

fn credit_card(text: &str) -> bool {
    let digits = digits_only(text);
    if !matches("^\\d{13,19}$", &digits) {
        return false;
    }
    let sum: u32 = digits
        .chars()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let digit = digit.to_digit(10).unwrap_or(0);
            match (index % 2, digit) {
                (0, digit) => digit,
                (_, digit) if digit > 4 => digit * 2 - 9,
                (_, digit) => digit * 2,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

fn rgb_color(text: &str) -> bool {
    let part = "\\s*(0|[1-9]\\d?|1\\d\\d?|2[0-4]\\d|25[0-5])\\s*";
    matches(&format!("^rgb\\({part},{part},{part}\\)$"), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KAPI-CRD-02: formats that are looked into.
    #[test]
    fn formats_tell_good_from_bad() {
        for (format, good, bad) in [
            (
                "date-time",
                vec!["2024-01-01T00:00:00Z", "2024-02-29T23:59:59.123+01:00"],
                vec!["yesterday", "2024-02-30T00:00:00Z", "2024-01-01T25:00:00Z"],
            ),
            ("date", vec!["2024-02-29"], vec!["2023-02-29", "2024-13-01", "24-01-01"]),
            ("duration", vec!["5m", "1h30m", "0", "3 days", "1.5s"], vec!["5 parsecs", "", "m"]),
            ("email", vec!["a@b.example.com", "A B <a@b.c>"], vec!["x", "@b", "a@"]),
            ("hostname", vec!["a.example.com", "localhost"], vec!["-x-", "a..b"]),
            ("ipv4", vec!["1.2.3.4"], vec!["1.2.3", "::1"]),
            ("ipv6", vec!["::1"], vec!["1.2.3.4"]),
            ("cidr", vec!["10.0.0.0/8", "::/0"], vec!["10.0.0.0", "10.0.0.0/33"]),
            ("mac", vec!["00:11:22:33:44:55", "0011.2233.4455"], vec!["0", "00:11"]),
            ("uri", vec!["https://x.example.com", "/path"], vec!["::", "a b", ""]),
            ("uuid", vec!["11111111-1111-4111-8111-111111111111"], vec!["abc"]),
            ("uuid4", vec!["11111111-1111-4111-8111-111111111111"], vec!["11111111-1111-3111-8111-111111111111"]),
            ("byte", vec!["YQ=="], vec!["%%", "YQ", ""]),
            ("isbn", vec!["0-306-40615-2", "978-0-306-40615-7"], vec!["0-306-40615-3"]),
            ("creditcard", vec!["4111 1111 1111 1111"], vec!["4111 1111 1111 1112"]),
            ("rgbcolor", vec!["rgb(0, 10,255)"], vec!["rgb(0,10,256)"]),
        ] {
            for text in good {
                assert_eq!(check(format, text), Some(true), "{format} {text}");
            }
            for text in bad {
                assert_eq!(check(format, text), Some(false), "{format} {text}");
            }
        }
        assert_eq!(check("nonsense", "x"), None);
    }
}
