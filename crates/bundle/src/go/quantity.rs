//! Kubernetes quantities in their canonical form.

/// The most digits that a mantissa may have; beyond that nothing a manifest means is lost by refusing.
const MAX_DIGITS: usize = 30;
const NANO: i128 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

/// The quantity as Kubernetes writes it back: `1000m` is `1`, `1024Mi` is `1Gi`, `0.5` is `500m`. Nothing for text that is no quantity.
pub fn canonical(text: &str) -> Option<String> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') || whole.len() + fraction.len() > MAX_DIGITS {
        return None;
    }
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (format, base, power) = scale(suffix)?;

    // The value in billionths, rounded away from zero as Kubernetes rounds what it cannot hold, and capped at 2^63 - 1.
    let mut nanos = mantissa.saturating_mul(NANO);
    let mut divisor: i128 = 1;
    for _ in 0..fraction.len() {
        divisor = divisor.saturating_mul(10);
    }
    for _ in 0..power.unsigned_abs() {
        if power > 0 {
            nanos = nanos.saturating_mul(base);
        } else {
            divisor = divisor.saturating_mul(base);
        }
    }
    let nanos = (nanos / divisor + i128::from(nanos % divisor != 0)).min(i128::from(i64::MAX).saturating_mul(NANO));
    let written = write(nanos, format);
    Some(if negative && nanos != 0 { format!("-{written}") } else { written })
}

fn scale(suffix: &str) -> Option<(Format, i128, i32)> {
    if let Some(place) = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|s| *s == suffix) {
        return Some((Format::Binary, 1024, i32::try_from(place).ok()? + 1));
    }
    if let Some(place) = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().position(|s| *s == suffix) {
        return Some((Format::Decimal, 10, (i32::try_from(place).ok()? - 3) * 3));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (exponent.abs() <= 40).then_some((Format::Exponent, 10, exponent))
}

fn write(nanos: i128, format: Format) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    let whole = nanos % NANO == 0;
    if format == Format::Binary && whole && nanos >= 1024 * NANO {
        let mut value = nanos / NANO;
        let mut place = 0;
        while value % 1024 == 0 && place < 6 {
            value /= 1024;
            place += 1;
        }
        return format!("{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][place]);
    }
    let mut value = nanos;
    let mut exponent = -9;
    while value % 1000 == 0 && exponent < 18 {
        value /= 1000;
        exponent += 3;
    }
    if format == Format::Exponent {
        return if exponent == 0 { value.to_string() } else { format!("{value}e{exponent}") };
    }
    let place = usize::try_from((exponent + 9) / 3).unwrap_or(3);
    format!("{value}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][place])
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn quantities_take_their_canonical_form() {
        for (given, expected) in [
            ("100m", "100m"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("128", "128"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("0Gi", "0"),
            ("0.5Gi", "512Mi"),
            ("512", "512"),
            ("-1000m", "-1"),
            ("1000Ki", "1000Ki"),
            (".5", "500m"),
            ("0.5Ki", "512"),
            ("1.1Ki", "1126400m"),
            ("0.1n", "1n"),
            ("100000000000000000000E", "9223372036854775807"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(expected), "{given}");
        }
        for given in ["", "m", "1.2.3", "1 Gi", "abc", "1Kb", "--1"] {
            assert_eq!(canonical(given), None, "{given}");
        }
    }
}
