//! `data:` URLs, as the library of Ignition and the Machine Config Operator reads and writes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Why a text is no data URL, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataUrlError {
    /// The text breaks the syntax of data URLs.
    #[error("{0}")]
    Syntax(&'static str),
    /// A parameter without value is not the word for base64.
    #[error("expected base64, got {0}")]
    NotBase64(String),
    /// A quoted parameter cannot be unquoted.
    #[error("invalid syntax")]
    Quoted,
    /// An escape is cut off.
    #[error("rfc2396: unexpected end of unescape sequence")]
    EscapeEnd,
    /// An escape is not of two hexadecimal digits.
    #[error("rfc2396: invalid char 0x25 in unescape sequence")]
    Escape,
    /// The content is no base64 from this byte on.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
}

/// The content of a data URL.
pub fn decode(url: &str) -> Result<Vec<u8>, DataUrlError> {
    let rest = url.strip_prefix("data:").ok_or(DataUrlError::Syntax("missing data prefix"))?;
    let mut reader = Reader { rest };
    reader.media_type()?;
    let mut is_base64 = false;
    while reader.next_is(';') {
        if reader.parameter()? {
            is_base64 = true;
            break;
        }
    }
    reader.take();
    let data = reader.rest;
    let fits = if is_base64 { is_base64_letter } else { is_url_letter };
    if !data.chars().all(fits) {
        return Err(DataUrlError::Syntax("invalid data character"));
    }
    if is_base64 { decode_base64(data) } else { unescape(data) }
}

/// A text as data URL, as the Butane tools write short ones: `data:,` and the text with its special characters escaped.
pub fn escaped(content: &[u8]) -> String {
    let mut out = String::from("data:,");
    for byte in content {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => {
                out.push(char::from(*byte));
            }
            byte => {
                let escaped = format!("%{byte:02X}");
                out.push_str(&escaped);
            }
        }
    }
    out
}

struct Reader<'u> {
    rest: &'u str,
}

/// The first parts of media types that are known.
const MEDIA_TYPES: [&str; 7] = ["text", "image", "audio", "video", "application", "message", "multipart"];
const MISSING_COMMA: DataUrlError = DataUrlError::Syntax("missing comma before data");

impl Reader<'_> {
    fn next_is(&self, letter: char) -> bool {
        self.rest.starts_with(letter)
    }

    fn take(&mut self) -> Option<char> {
        let mut letters = self.rest.chars();
        let letter = letters.next();
        self.rest = letters.as_str();
        letter
    }

    /// Reads a type and its subtype, up to a semicolon or comma; there may be none.
    fn media_type(&mut self) -> Result<(), DataUrlError> {
        match self.rest.chars().next() {
            Some(';' | ',') => return Ok(()),
            None => return Err(MISSING_COMMA),
            Some(letter) if is_token(letter) => {}
            Some(_) => return Err(DataUrlError::Syntax("invalid character after data prefix")),
        }
        // An own type begins with x-; upstream looks at the second letter before anything else, for any letter.
        let starts_as_own = self.rest.starts_with(['x', 'X']);
        let is_own = starts_as_own && self.rest[1..].starts_with('-');
        let skipped = match (starts_as_own, self.rest.chars().nth(1)) {
            (true, Some(second)) => 1 + second.len_utf8(),
            _ => 1,
        };
        let end = self.rest[skipped..].find(|letter| !is_token(letter)).map(|at| at + skipped);
        let Some(end) = end else { return Err(DataUrlError::Syntax("missing media type slash")) };
        if !self.rest[end..].starts_with('/') {
            return Err(DataUrlError::Syntax("invalid character for media type"));
        }
        if !is_own && !MEDIA_TYPES.iter().any(|known| self.rest[..end].starts_with(known)) {
            return Err(DataUrlError::Syntax("invalid media type"));
        }
        self.rest = &self.rest[end + 1..];
        match self.rest.find(|letter| !is_token(letter)) {
            None => Err(DataUrlError::Syntax("incomplete media type")),
            Some(end) if self.rest[end..].starts_with([';', ',']) => {
                self.rest = &self.rest[end..];
                Ok(())
            }
            Some(_) => Err(DataUrlError::Syntax("invalid character for media subtype")),
        }
    }

    /// Reads a parameter behind its semicolon, up to the next semicolon or comma; returns whether it says that the content is base64.
    fn parameter(&mut self) -> Result<bool, DataUrlError> {
        const UNTERMINATED: DataUrlError = DataUrlError::Syntax("unterminated parameter sequence");
        const INVALID: DataUrlError = DataUrlError::Syntax("invalid character for parameter attribute");
        self.take();
        match self.rest.chars().next() {
            None | Some('=' | ',') => return Err(UNTERMINATED),
            Some(letter) if is_token(letter) => {}
            Some(_) => return Err(INVALID),
        }
        let end = self.rest.find(|letter| !is_token(letter)).ok_or(UNTERMINATED)?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if self.next_is(',') {
            return if name == "base64" { Ok(true) } else { Err(DataUrlError::NotBase64(name.to_owned())) };
        }
        if !self.next_is('=') {
            return Err(INVALID);
        }
        self.take();
        if self.next_is('"') {
            self.take();
            self.quoted_value()?;
        } else {
            self.plain_value()?;
        }
        match self.rest.chars().next() {
            Some(';' | ',') => Ok(false),
            None => Err(MISSING_COMMA),
            Some(_) => Err(DataUrlError::Syntax("expected semicolon or comma")),
        }
    }

    fn plain_value(&mut self) -> Result<(), DataUrlError> {
        const INVALID: DataUrlError = DataUrlError::Syntax("invalid character for parameter value");
        if !self.rest.starts_with(is_token) {
            return Err(if self.rest.is_empty() { MISSING_COMMA } else { INVALID });
        }
        let end = self.rest.find(|letter| !is_token(letter)).ok_or(MISSING_COMMA)?;
        let (value, rest) = self.rest.split_at(end);
        if !rest.starts_with([';', ',']) {
            return Err(INVALID);
        }
        self.rest = rest;
        unescape(value).map(drop)
    }

    fn quoted_value(&mut self) -> Result<(), DataUrlError> {
        let mut value = String::new();
        loop {
            match self.take() {
                None => return Err(DataUrlError::Syntax("unclosed quoted string")),
                Some('"') => break,
                Some('\\') => {
                    value.push('\\');
                    match self.take() {
                        Some(letter) if letter.is_ascii() => value.push(letter),
                        None => return Err(DataUrlError::Syntax("unclosed quoted string")),
                        Some(_) => return Err(DataUrlError::Syntax("invalid escaped character")),
                    }
                }
                Some(letter) if letter.is_ascii() => value.push(letter),
                Some(_) => return Err(DataUrlError::Syntax("invalid character for parameter value")),
            }
        }
        if is_go_quotable(&value) { Ok(()) } else { Err(DataUrlError::Quoted) }
    }
}

/// Returns whether the inside of a quoted text is one that Go's `strconv.Unquote` takes.
fn is_go_quotable(inside: &str) -> bool {
    let bytes = inside.as_bytes();
    let hexadecimal = |at: usize, count: usize| bytes.get(at..at + count).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'\n' {
            return false;
        }
        if *byte != b'\\' {
            at += 1;
            continue;
        }
        at += match bytes.get(at + 1) {
            Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'\\' | b'"') => 2,
            Some(b'x') if hexadecimal(at + 2, 2) => 4,
            Some(b'u') if hexadecimal(at + 2, 4) => 6,
            Some(b'U') if hexadecimal(at + 2, 8) => 10,
            Some(b'0'..=b'3') if bytes.get(at + 2..at + 4).is_some_and(|rest| rest.iter().all(|digit| matches!(digit, b'0'..=b'7'))) => 4,
            _ => return false,
        };
    }
    true
}

fn is_token(letter: char) -> bool {
    letter.is_ascii_graphic() && !matches!(letter, '(' | ')' | '<' | '>' | '@' | ',' | ';' | ':' | '\\' | '"' | '/' | '[' | ']' | '?' | '=')
}

fn is_url_letter(letter: char) -> bool {
    letter.is_ascii_graphic() && !matches!(letter, '<' | '>' | '#' | '"' | '{' | '}' | '|' | '\\' | '^' | '[' | ']' | '`')
}

fn is_base64_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '+' | '/' | '=' | '\n')
}

fn unescape(text: &str) -> Result<Vec<u8>, DataUrlError> {
    let digit = |byte: Option<u8>| {
        let byte = byte.ok_or(DataUrlError::EscapeEnd)?;
        char::from(byte).to_digit(16).ok_or(DataUrlError::Escape)
    };
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
            out.push((high * 16 + low) as u8);
        } else {
            out.push(byte);
        }
    }
    Ok(out)
}

/// Reads base64 as Go does, four letters at a time: line ends do not count, padding must be there, and its last bits are not looked at.
fn decode_base64(text: &str) -> Result<Vec<u8>, DataUrlError> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    let mut at = 0;
    loop {
        let mut letters = [0_u8; 4];
        let mut count = 0;
        while count < letters.len() {
            let Some(byte) = bytes.get(at).copied() else {
                return if count == 0 { Ok(out) } else { Err(DataUrlError::Base64(at - count)) };
            };
            at += 1;
            match byte {
                b'\n' => continue,
                b'=' => return padded(bytes, at, letters, count, out),
                byte => letters[count] = sextet(byte),
            }
            count += 1;
        }
        push_letters(&mut out, letters, letters.len());
    }
}

/// Reads the end of a text from behind its first padding letter.
fn padded(bytes: &[u8], at: usize, letters: [u8; 4], count: usize, mut out: Vec<u8>) -> Result<Vec<u8>, DataUrlError> {
    let skip = |from: usize| (from..bytes.len()).find(|at| bytes[*at] != b'\n').unwrap_or(bytes.len());
    let mut end = at;
    match count {
        0 | 1 => return Err(DataUrlError::Base64(at - 1)),
        2 => {
            let second = skip(at);
            match bytes.get(second) {
                None => return Err(DataUrlError::Base64(bytes.len())),
                Some(b'=') => end = second + 1,
                Some(_) => return Err(DataUrlError::Base64(second - 1)),
            }
        }
        _ => {}
    }
    let end = skip(end);
    if end < bytes.len() {
        return Err(DataUrlError::Base64(end));
    }
    push_letters(&mut out, letters, count);
    Ok(out)
}

fn push_letters(out: &mut Vec<u8>, letters: [u8; 4], count: usize) {
    let bits = letters.iter().fold(0_u32, |bits, letter| bits << 6 | u32::from(*letter));
    out.extend_from_slice(&bits.to_be_bytes()[1..count]);
}

fn sextet(letter: u8) -> u8 {
    match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    }
}

/// A content as data URL in base64 without a type.
pub fn base64_url(content: &[u8]) -> String {
    format!("data:;base64,{}", STANDARD.encode(content))
}
