//! Words, numbers, texts and signs of a query.

use crate::problem::PromqlProblem;

/// A token and the byte where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) at: usize,
    pub(crate) lexeme: Lexeme<'a>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Lexeme<'a> {
    /// A name or a keyword.
    Word(&'a str),
    Number(&'a str),
    Duration(&'a str),
    /// A text, as it means.
    Text(String),
    Sign(&'static str),
    End,
}

/// Signs, longer ones before those that they begin with.
const SIGNS: [&str; 25] =
    ["==", "!=", "=~", "!~", "<=", ">=", "<", ">", "=", "+", "-", "*", "/", "%", "^", "(", ")", "{", "}", "[", "]", ",", ":", "@", "!"];

pub(crate) fn tokens(query: &str) -> Result<Vec<Token<'_>>, (usize, PromqlProblem)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut in_brackets = false;
    while let Some(c) = query[at..].chars().next() {
        let rest = &query[at..];
        let (lexeme, length) = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if c == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        } else if c.is_ascii_alphabetic() || c == '_' || c == ':' && !in_brackets {
            let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':' && !in_brackets)).unwrap_or(rest.len());
            (Lexeme::Word(&rest[..length]), length)
        } else if c.is_ascii_digit() || c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            number_or_duration(rest).map_err(|problem| (at, problem))?
        } else if matches!(c, '"' | '\'' | '`') {
            text(rest, c).map_err(|problem| (at, problem))?
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            in_brackets = match sign {
                "[" => true,
                "]" => false,
                _ => in_brackets,
            };
            (Lexeme::Sign(sign), sign.len())
        } else {
            return Err((at, PromqlProblem::Character(c)));
        };
        tokens.push(Token { at, lexeme });
        at += length;
    }
    // The end is behind the last word, not on a line behind the query.
    tokens.push(Token { at: query.trim_end().len(), lexeme: Lexeme::End });
    Ok(tokens)
}

fn number_or_duration(rest: &str) -> Result<(Lexeme<'_>, usize), PromqlProblem> {
    let is_hex = rest.starts_with("0x") || rest.starts_with("0X");
    let mut length = 0;
    let mut before = ' ';
    for c in rest.chars() {
        // A sign belongs to a number behind the e of its exponent alone.
        let sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !is_hex;
        if !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || sign) {
            break;
        }
        (before, length) = (c, length + 1);
    }
    let word = &rest[..length];
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let is_number = match digits {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !word.contains('_') && word.parse::<f64>().is_ok(),
    };
    if is_number {
        return Ok((Lexeme::Number(word), length));
    }
    if duration(word).is_some() { Ok((Lexeme::Duration(word), length)) } else { Err(PromqlProblem::Number(word.to_owned())) }
}

/// The value of a number.
pub(crate) fn number(word: &str) -> Option<f64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        #[allow(clippy::cast_precision_loss, reason = "a number of a query is a float")]
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|value| value as f64),
        None => word.parse().ok(),
    }
}

/// Milliseconds of a duration, which is numbers with units, from larger to smaller ones: `1h30m`. None for anything else, and beyond 64 bits.
pub(crate) fn duration(word: &str) -> Option<i64> {
    const UNITS: [(&str, i64); 7] =
        [("y", 31_536_000_000), ("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let mut rest = word;
    let mut sum = 0_i64;
    for (unit, milliseconds) in UNITS {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = &rest[digits..];
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        if digits > 0 && &after[..letters] == unit {
            sum = sum.checked_add(rest[..digits].parse::<i64>().ok()?.checked_mul(milliseconds)?)?;
            rest = &after[letters..];
        }
    }
    (rest.is_empty() && !word.is_empty()).then_some(sum)
}

fn text(rest: &str, quote: char) -> Result<(Lexeme<'_>, usize), PromqlProblem> {
    let mut out = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Ok((Lexeme::Text(out), at + c.len_utf8())),
            '\n' if quote != '`' => return Err(PromqlProblem::OpenText),
            '\\' if quote != '`' => {
                let (_, escaped) = chars.next().ok_or(PromqlProblem::OpenText)?;
                let (radix, digits, mut value) = match escaped {
                    'a' => (0, 0, 0x07),
                    'b' => (0, 0, 0x08),
                    'f' => (0, 0, 0x0C),
                    'n' => (0, 0, 0x0A),
                    'r' => (0, 0, 0x0D),
                    't' => (0, 0, 0x09),
                    'v' => (0, 0, 0x0B),
                    'x' => (16, 2, 0),
                    'u' => (16, 4, 0),
                    'U' => (16, 8, 0),
                    '0'..='7' => (8, 2, escaped.to_digit(8).unwrap_or_default()),
                    c if c == quote || c == '\\' => (0, 0, u32::from(c)),
                    _ => return Err(PromqlProblem::Escape),
                };
                for _ in 0..digits {
                    let digit = chars.next().and_then(|(_, c)| c.to_digit(radix)).ok_or(PromqlProblem::Escape)?;
                    value = value.wrapping_mul(radix) | digit;
                }
                // A byte of no character stands for one here: it decides nothing that is checked.
                out.push(char::from_u32(value).ok_or(PromqlProblem::Escape)?);
            }
            c => out.push(c),
        }
    }
    Err(PromqlProblem::OpenText)
}
