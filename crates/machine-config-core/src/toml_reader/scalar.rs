//! Texts, numbers and times of a TOML text.

use mainstay_golang::quote;

use super::Value;
use super::scan::{END, Scan, Scanned, is_line_end, quoted};

/// Reads a text on one line, behind its quote.
pub(super) fn text(scan: &mut Scan<'_>) -> Scanned<String> {
    let mut out = String::new();
    loop {
        match scan.next()? {
            END => return Err(scan.mistake("unexpected EOF; expected '\"'")),
            letter if is_line_end(letter) => return Err(scan.mistake_before("strings cannot contain newlines")),
            '"' => return Ok(out),
            '\\' => out.push(escape(scan)?),
            letter => out.push(letter),
        }
    }
}

/// Reads a text on one line without escapes, behind its quote.
pub(super) fn raw_text(scan: &mut Scan<'_>) -> Scanned<String> {
    let mut out = String::new();
    loop {
        match scan.next()? {
            END => return Err(scan.mistake("unexpected EOF; expected \"'\"")),
            letter if is_line_end(letter) => return Err(scan.mistake_before("strings cannot contain newlines")),
            '\'' => return Ok(out),
            letter => out.push(letter),
        }
    }
}

/// Reads a text of several lines, behind its three quotes.
pub(super) fn long_text(scan: &mut Scan<'_>, mark: char) -> Scanned<String> {
    let around = if mark == '"' { '\'' } else { '"' };
    let mut out = String::new();
    loop {
        match scan.next()? {
            END => return Err(scan.mistake(format!("unexpected EOF; expected {around}{}{around}", mark.to_string().repeat(3)))),
            letter if letter == mark => {
                let mut count = 1;
                while scan.accept(mark)? {
                    count += 1;
                }
                if count > 5 {
                    return Err(scan.mistake(format!("unexpected {around}{}{around}", mark.to_string().repeat(6))));
                }
                out.extend(std::iter::repeat_n(mark, if count >= 3 { count - 3 } else { count }));
                if count >= 3 {
                    let kept = out.strip_prefix("\r\n").or_else(|| out.strip_prefix('\n'));
                    return Ok(kept.map_or_else(|| out.clone(), str::to_owned));
                }
            }
            '\\' if mark == '"' => {
                let (start, line) = (scan.at, scan.line);
                scan.take_while(|letter| matches!(letter, ' ' | '\t' | '\r' | '\n'))?;
                if !scan.since(start).contains('\n') {
                    (scan.at, scan.line) = (start, line);
                    out.push(escape(scan)?);
                }
            }
            letter => out.push(letter),
        }
    }
}

fn escape(scan: &mut Scan<'_>) -> Scanned<char> {
    let letter = scan.next()?;
    Ok(match letter {
        'b' => '\u{8}',
        't' => '\t',
        'n' => '\n',
        'f' => '\u{c}',
        'r' => '\r',
        '"' | '\\' => letter,
        ' ' | '\t' => return Err(scan.mistake(format!("invalid escape: '\\{letter}'"))),
        'u' => code(scan, "four", 4)?,
        'U' => code(scan, "eight", 8)?,
        letter => return Err(scan.mistake(format!("invalid escape in string '\\{letter}'"))),
    })
}

fn code(scan: &mut Scan<'_>, count: &str, digits: usize) -> Scanned<char> {
    let start = scan.at;
    for _ in 0..digits {
        if !scan.next()?.is_ascii_hexdigit() {
            let kind = if digits == 4 { 'u' } else { 'U' };
            let read = quote(&scan.since(start));
            return Err(scan.mistake(format!("expected {count} hexadecimal digits after '\\{kind}', but got {read} instead")));
        }
    }
    let text = scan.since(start);
    let letter = u32::from_str_radix(&text, 16).ok().and_then(char::from_u32);
    letter.ok_or_else(|| scan.mistake(format!("Escaped character '\\u{text}' is not valid UTF-8.")))
}

/// Reads true or false.
pub(super) fn word(scan: &mut Scan<'_>) -> Scanned<Value> {
    let start = scan.at;
    scan.take_while(char::is_alphabetic)?;
    match scan.since(start).as_str() {
        "true" => Ok(Value::Bool(true)),
        "false" => Ok(Value::Bool(false)),
        word => Err(scan.mistake(format!("expected value but found {} instead", quote(word)))),
    }
}

/// Reads what begins with a digit.
pub(super) fn number(scan: &mut Scan<'_>) -> Scanned<Value> {
    let start = scan.at;
    let first = scan.next()?;
    let second = scan.peek()?;
    if first == '0' && matches!(second, 'b' | 'o' | 'x') {
        scan.next()?;
        let (kind, radix) = match second {
            'b' => ("a binary", 2),
            'o' => ("an octal", 8),
            _ => ("a hexidecimal", 16),
        };
        let third = scan.peek()?;
        if !third.is_digit(radix) {
            return Err(scan.mistake(format!("not {kind} number: '{}{third}'", scan.since(start))));
        }
        scan.take_while(|letter| letter == '_' || letter.is_digit(radix))?;
        return integer(scan, &scan.since(start));
    }
    scan.take_while(|letter| letter.is_ascii_digit())?;
    if matches!(scan.peek()?, '-' | ':') {
        let fits = |letter: char| letter.is_ascii_digit() || matches!(letter, '-' | ':' | 'T' | 't' | ' ' | '.' | 'Z' | 'z' | '+');
        scan.take_while(fits)?;
        return datetime(scan, scan.since(start).trim());
    }
    decimal(scan, start)
}

/// Reads what begins with a sign, from behind it.
pub(super) fn signed(scan: &mut Scan<'_>, start: usize) -> Scanned<Value> {
    let letter = scan.next()?;
    match letter {
        'i' | 'n' => {
            for wanted in if letter == 'i' { ['n', 'f'] } else { ['a', 'n'] } {
                if !scan.accept(wanted)? {
                    return Err(scan.mistake(format!("invalid float: '{}'", scan.since(start))));
                }
            }
            Ok(Value::Float)
        }
        '0' if matches!(scan.peek()?, 'b' | 'o' | 'x') => {
            let next = scan.peek()?;
            let read = scan.since(start);
            Err(scan.mistake(format!("cannot use sign with non-decimal numbers: '{read}{next}'")))
        }
        '.' => Err(scan.mistake("floats must start with a digit, not '.'")),
        '0'..='9' => decimal(scan, start),
        letter => Err(scan.mistake(format!("expected a digit but got {}", quoted(letter)))),
    }
}

fn decimal(scan: &mut Scan<'_>, start: usize) -> Scanned<Value> {
    scan.take_while(|letter| letter.is_ascii_digit() || letter == '_')?;
    if matches!(scan.peek()?, '.' | 'e' | 'E') {
        scan.take_while(|letter| letter.is_ascii_digit() || matches!(letter, '_' | '.' | '-' | '+' | 'e' | 'E'))?;
        return float(scan, &scan.since(start));
    }
    integer(scan, &scan.since(start))
}

fn integer(scan: &Scan<'_>, text: &str) -> Scanned<Value> {
    let shown = quote(text);
    if !underscores_fit(text) {
        return Err(scan.mistake(format!("Invalid integer {shown}: underscores must be surrounded by digits")));
    }
    if has_leading_zero(text) {
        return Err(scan.mistake(format!("Invalid integer {shown}: cannot have leading zeroes")));
    }
    let plain = text.replace('_', "");
    let number = match plain.split_at_checked(2) {
        Some(("0b", digits)) => i64::from_str_radix(digits, 2),
        Some(("0o", digits)) => i64::from_str_radix(digits, 8),
        Some(("0x", digits)) => i64::from_str_radix(digits, 16),
        _ => plain.parse(),
    };
    number.map(Value::Int).map_err(|_| scan.mistake(format!("{text} is out of range for int64")))
}

fn float(scan: &Scan<'_>, text: &str) -> Scanned<Value> {
    let shown = quote(text);
    let parts: Vec<&str> = text.split(['.', 'e', 'E']).filter(|part| !part.is_empty()).collect();
    if !parts.iter().all(|part| underscores_fit(part)) {
        return Err(scan.mistake(format!("Invalid float {shown}: underscores must be surrounded by digits")));
    }
    if parts.first().is_some_and(|part| has_leading_zero(part)) {
        return Err(scan.mistake(format!("Invalid float {shown}: cannot have leading zeroes")));
    }
    let period_fits = |(_, rest): (&str, &str)| rest.starts_with(|letter: char| letter.is_ascii_digit());
    let periods_fit = text.match_indices('.').all(|(at, _)| period_fits(text.split_at(at + 1)));
    if !periods_fit {
        return Err(scan.mistake(format!("Invalid float {shown}: '.' must be followed by one or more digits")));
    }
    match text.replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Value::Float),
        Ok(_) => Err(scan.mistake(format!("{text} is out of range for float64"))),
        Err(_) => Err(scan.mistake(format!("Invalid float value: {shown}"))),
    }
}

fn datetime(scan: &Scan<'_>, text: &str) -> Scanned<Value> {
    let text = text.replace('z', "Z").replace(['t', ' '], "T");
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (Some(date), Some(time)),
        None if text.contains('-') => (Some(text.as_str()), None),
        None => (None, Some(text.as_str())),
    };
    let may_have_zone = date.is_some();
    if date.is_none_or(is_date) && time.is_none_or(|time| is_time(time, may_have_zone)) {
        Ok(Value::Datetime)
    } else {
        Err(scan.mistake(format!("invalid datetime: {}", quote(&text))))
    }
}

fn has_leading_zero(text: &str) -> bool {
    match text.as_bytes() {
        [b'0', second, ..] => !matches!(second, b'b' | b'o' | b'x'),
        [b'+' | b'-', b'0', _, ..] => true,
        _ => false,
    }
}

fn underscores_fit(text: &str) -> bool {
    let mut fits = false;
    for letter in text.chars() {
        if letter == '_' && !fits {
            return false;
        }
        fits = letter.is_ascii_hexdigit();
    }
    fits
}

/// The number that exactly so many digits are.
fn digits(text: &str, count: usize) -> Option<u32> {
    let fits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=last).contains(&day)
}

fn is_time(text: &str, may_have_zone: bool) -> bool {
    let (clock, zone) = text.split_at(text.find(['Z', '+', '-']).unwrap_or(text.len()));
    let zone_fits = match zone {
        "" => true,
        "Z" => may_have_zone,
        zone => {
            let parts = zone[1..].split_once(':');
            let fits = |(hours, minutes)| digits(hours, 2).is_some_and(|hours| hours <= 24) && digits(minutes, 2).is_some_and(|it| it < 60);
            may_have_zone && parts.is_some_and(fits)
        }
    };
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, fraction)| (clock, Some(fraction)));
    let parts: Vec<&str> = clock.split(':').collect();
    let [hour, minute, second] = parts.as_slice() else { return false };
    zone_fits
        && fraction.is_none_or(|fraction| !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit()))
        && digits(hour, 2).is_some_and(|hour| hour < 24)
        && digits(minute, 2).is_some_and(|minute| minute < 60)
        && digits(second, 2).is_some_and(|second| second < 60)
}
