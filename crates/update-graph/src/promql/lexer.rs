//! Words, numbers, texts and signs of a query.

use super::PromqlProblem;

/// A token and the byte where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) at: usize,
    pub(super) what: What<'a>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What<'a> {
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

pub(super) fn tokens(query: &str) -> Result<Vec<Token<'_>>, (usize, PromqlProblem)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut in_brackets = false;
    while let Some(c) = query[at..].chars().next() {
        let rest = &query[at..];
        let (what, length) = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if c == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        } else if c.is_ascii_alphabetic() || c == '_' || c == ':' && !in_brackets {
            let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':' && !in_brackets)).unwrap_or(rest.len());
            (What::Word(&rest[..length]), length)
        } else if c.is_ascii_digit() || c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            number(rest).map_err(|problem| (at, problem))?
        } else if matches!(c, '"' | '\'' | '`') {
            text(rest, c).map_err(|problem| (at, problem))?
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            in_brackets = match sign {
                "[" => true,
                "]" => false,
                _ => in_brackets,
            };
            (What::Sign(sign), sign.len())
        } else {
            return Err((at, PromqlProblem::Character(c)));
        };
        tokens.push(Token { at, what });
        at += length;
    }
    // What is missing is missed behind the last word, not on a line behind the query.
    tokens.push(Token { at: query.trim_end().len(), what: What::End });
    Ok(tokens)
}

fn number(rest: &str) -> Result<(What<'_>, usize), PromqlProblem> {
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
        return Ok((What::Number(word), length));
    }
    if is_duration(word) { Ok((What::Duration(word), length)) } else { Err(PromqlProblem::Number(word.to_owned())) }
}

/// Returns true for numbers with units, from larger to smaller ones: `1h30m`.
fn is_duration(word: &str) -> bool {
    let mut rest = word;
    for unit in ["y", "w", "d", "h", "m", "s", "ms"] {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = &rest[digits..];
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        if digits > 0 && &after[..letters] == unit {
            rest = &after[letters..];
        }
    }
    rest.is_empty() && !word.is_empty()
}

fn text(rest: &str, quote: char) -> Result<(What<'_>, usize), PromqlProblem> {
    let mut out = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Ok((What::Text(out), at + c.len_utf8())),
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
