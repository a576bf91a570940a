//! Tokens.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Issue;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Ident(Arc<str>),
    Int(i64),
    /// 2^63, which only fits with a minus sign.
    IntMinimum,
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Punctuation and operators.
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 24] =
    ["==", "!=", "<=", ">=", "&&", "||", "(", ")", "[", "]", "{", "}", ".", ",", ":", "?", "+", "-", "*", "/", "%", "!", "<", ">"];

/// The tokens with their places, of which the last is `End`, and what could not be read.
pub(crate) fn tokens(text: &str) -> (Vec<(Token, Range<usize>)>, Vec<Issue>) {
    let mut lexer = Lexer { text, at: 0 };
    let (mut out, mut issues) = (Vec::new(), Vec::new());
    loop {
        match lexer.token() {
            Ok((token, at)) => {
                let end = token == Token::End;
                out.push((token, at..lexer.at));
                if end {
                    return (out, issues);
                }
            }
            Err(issue) => issues.push(issue),
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn token(&mut self) -> Result<(Token, usize), Issue> {
        self.blanks();
        let at = self.at;
        let Some(first) = self.rest().chars().next() else { return Ok((Token::End, at)) };
        if first.is_ascii_alphabetic() || first == '_' {
            if let Some(token) = self.text_literal()? {
                return Ok((token, at));
            }
            let length = self.rest().bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
            let name = self.rest()[..length].into();
            self.at += length;
            return Ok((Token::Ident(name), at));
        }
        if matches!(first, '"' | '\'')
            && let Some(token) = self.text_literal()?
        {
            return Ok((token, at));
        }
        let second_is_digit = self.rest().as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if first.is_ascii_digit() || first == '.' && second_is_digit {
            return Ok((self.number()?, at));
        }
        let sign = SIGNS.into_iter().find(|sign| self.rest().starts_with(sign));
        if let Some(sign) = sign {
            self.at += sign.len();
            return Ok((Token::Sign(sign), at));
        }
        // A lone `=` takes the character after it along, because it could have begun `==`.
        let letters = if matches!(first, '=' | '&' | '|') { 2 } else { 1 };
        let shown: String = self.rest().chars().take(letters).collect();
        self.at += shown.len();
        Err(Issue::new(at, format!("Syntax error: token recognition error at: '{shown}'")))
    }

    fn blanks(&mut self) {
        loop {
            let blank = self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
            self.at += blank;
            if self.rest().starts_with("//") {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if blank == 0 {
                return;
            }
        }
    }

    fn number(&mut self) -> Result<Token, Issue> {
        let start = self.at;
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if bytes.len() > 2 && bytes[0] == b'0' && matches!(bytes[1], b'x' | b'X') && bytes[2].is_ascii_hexdigit() {
            let length = 2 + bytes[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            return self.integer(start, 2, length, 16);
        }
        let mut length = digits(0);
        let mut double = false;
        if bytes.get(length) == Some(&b'.') && bytes.get(length + 1).is_some_and(u8::is_ascii_digit) {
            double = true;
            length += 1 + digits(length + 1);
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            if bytes.get(length + 1 + sign).is_some_and(u8::is_ascii_digit) {
                double = true;
                length += 1 + sign + digits(length + 1 + sign);
            }
        }
        if !double {
            return self.integer(start, 0, length, 10);
        }
        let text = &self.text[start..start + length];
        self.at += length;
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Token::Double(number)),
            _ => Err(Issue::new(start, "invalid double literal")),
        }
    }

    fn integer(&mut self, start: usize, skip: usize, length: usize, radix: u32) -> Result<Token, Issue> {
        let parsed = u64::from_str_radix(&self.text[start + skip..start + length], radix);
        self.at += length;
        if self.rest().starts_with(['u', 'U']) {
            self.at += 1;
            return parsed.map(Token::Uint).map_err(|_| Issue::new(start, "invalid uint literal"));
        }
        match parsed {
            Ok(number) if number == 1 << 63 => Ok(Token::IntMinimum),
            Ok(number) => i64::try_from(number).map(Token::Int).map_err(|_| Issue::new(start, "invalid int literal")),
            Err(_) => Err(Issue::new(start, "invalid int literal")),
        }
    }

    /// A string or bytes literal, if one begins here.
    fn text_literal(&mut self) -> Result<Option<Token>, Issue> {
        let start = self.at;
        let (mut raw, mut bytes) = (false, false);
        let mut ahead = self.at;
        for letter in self.rest().chars().take(2) {
            match letter {
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes => bytes = true,
                _ => break,
            }
            ahead += 1;
        }
        let rest = &self.text[ahead..];
        let quote = match rest.get(..3) {
            Some(three @ ("\"\"\"" | "'''")) => three,
            _ => match rest.get(..1) {
                Some(one @ ("\"" | "'")) => one,
                _ => return Ok(None),
            },
        };
        let mut out: Vec<u8> = Vec::new();
        let body = ahead + quote.len();
        let mut letters = self.text[body..].char_indices();
        while let Some((offset, letter)) = letters.next() {
            let at = body + offset;
            if self.text[at..].starts_with(quote) {
                self.at = at + quote.len();
                if bytes {
                    return Ok(Some(Token::Bytes(out.into())));
                }
                let text = String::from_utf8(out).map_err(|_| unterminated(start, &self.text[start..self.at]))?;
                return Ok(Some(Token::Text(text.into())));
            }
            if quote.len() == 1 && matches!(letter, '\n' | '\r') {
                self.at = at;
                return Err(unterminated(start, &self.text[start..at]));
            }
            if letter != '\\' || raw {
                out.extend(letter.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            let Some(escape) = escape(&self.text[at + 1..], bytes) else {
                self.at = self.text.len();
                return Err(unterminated(start, &self.text[start..]));
            };
            out.extend(escape.bytes);
            for _ in 0..escape.letters {
                letters.next();
            }
        }
        self.at = self.text.len();
        Err(unterminated(start, &self.text[start..]))
    }
}

fn unterminated(at: usize, text: &str) -> Issue {
    Issue::new(at, format!("Syntax error: token recognition error at: '{text}'"))
}

struct Escape {
    bytes: Vec<u8>,
    letters: usize,
}

/// Reads the text that follows a backslash.
fn escape(text: &str, bytes: bool) -> Option<Escape> {
    let first = text.chars().next()?;
    let simple = match first {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '"' | '\'' | '`' | '?' => first as u8,
        'x' | 'X' => return code(text.get(1..3)?, 16, 3, bytes),
        'u' if !bytes => return code(text.get(1..5)?, 16, 5, false),
        'U' if !bytes => return code(text.get(1..9)?, 16, 9, false),
        '0'..='3' => return code(text.get(0..3)?, 8, 3, bytes),
        _ => return None,
    };
    Some(Escape { bytes: vec![simple], letters: 1 })
}

fn code(digits: &str, radix: u32, letters: usize, bytes: bool) -> Option<Escape> {
    let number = u32::from_str_radix(digits, radix).ok()?;
    if bytes {
        return Some(Escape { bytes: vec![u8::try_from(number).ok()?], letters });
    }
    let letter = char::from_u32(number)?;
    Some(Escape { bytes: letter.to_string().into_bytes(), letters })
}
