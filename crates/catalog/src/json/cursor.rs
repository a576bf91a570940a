//! A pull reader of JSON text that checks each value it passes.

use std::borrow::Cow;

/// Maximum nesting of lists and mappings.
pub(crate) const MAX_DEPTH: usize = 128;

/// Position and reason of a JSON syntax error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// Bytes before the place.
    pub(crate) at: usize,
    /// The problem.
    pub(crate) reason: &'static str,
}

/// A position in a text.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

const NORMAL: u8 = 0;
const QUOTE: u8 = 1;
const BACKSLASH: u8 = 2;
const CONTROL: u8 = 3;

/// Class of each byte inside a string.
static IN_STRING: [u8; 256] = in_string();

const fn in_string() -> [u8; 256] {
    let mut table = [NORMAL; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = CONTROL;
        byte += 1;
    }
    table[b'"' as usize] = QUOTE;
    table[b'\\' as usize] = BACKSLASH;
    table
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Bytes before the cursor.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    fn wrong<T>(&self, reason: &'static str) -> Result<T, Syntax> {
        let reason = if self.at >= self.text.len() { "unexpected end" } else { reason };
        Err(Syntax { at: self.at, reason })
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is not a blank; the cursor stays before it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte() {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Checks that only blanks follow.
    pub(crate) fn end(&mut self) -> Result<(), Syntax> {
        if self.peek().is_none() { Ok(()) } else { self.wrong("unexpected text after the value") }
    }

    /// Enters a list or a mapping, whose first byte is `open`.
    pub(crate) fn enter(&mut self, open: u8) -> Result<(), Syntax> {
        if self.peek() != Some(open) {
            return self.wrong(if open == b'{' { "expected `{`" } else { "expected `[`" });
        }
        if self.depth >= MAX_DEPTH {
            return self.wrong("nested more than 128 deep");
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Goes to the next element of the current list; returns `false` at its end, after leaving it. `first` is true for the element after `[`.
    pub(crate) fn element(&mut self, first: &mut bool) -> Result<bool, Syntax> {
        self.next(first, b']')
    }

    /// The next key of the current mapping, with the cursor before its value; `None` at the end of the mapping, after leaving it.
    pub(crate) fn key(&mut self, first: &mut bool) -> Result<Option<Cow<'a, str>>, Syntax> {
        if !self.next(first, b'}')? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return self.wrong("expected a quoted key");
        }
        let key = self.string()?;
        if self.peek() != Some(b':') {
            return self.wrong("expected `:` after the key");
        }
        self.at += 1;
        Ok(Some(key))
    }

    fn next(&mut self, first: &mut bool, close: u8) -> Result<bool, Syntax> {
        let was_first = std::mem::replace(first, false);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            Some(b',') if !was_first => {
                self.at += 1;
                if self.peek() == Some(close) {
                    return self.wrong("trailing comma");
                }
                Ok(true)
            }
            Some(_) if was_first => Ok(true),
            _ => self.wrong(if close == b']' { "expected `,` or `]`" } else { "expected `,` or `}`" }),
        }
    }

    /// Passes a value, checking it, and returns its text.
    pub(crate) fn skip(&mut self) -> Result<&'a str, Syntax> {
        let Some(kind) = self.peek() else { return self.wrong("expected a value") };
        let start = self.at;
        match kind {
            b'{' => {
                self.enter(b'{')?;
                let mut first = true;
                while self.next(&mut first, b'}')? {
                    if self.peek() != Some(b'"') {
                        return self.wrong("expected a quoted key");
                    }
                    self.quoted()?;
                    if self.peek() != Some(b':') {
                        return self.wrong("expected `:` after the key");
                    }
                    self.at += 1;
                    self.skip()?;
                }
            }
            b'[' => {
                self.enter(b'[')?;
                let mut first = true;
                while self.next(&mut first, b']')? {
                    self.skip()?;
                }
            }
            b'"' => {
                self.quoted()?;
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => return self.wrong("expected a value"),
        }
        Ok(&self.text[start..self.at])
    }

    /// A string, its escapes resolved.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, Syntax> {
        if self.peek() != Some(b'"') {
            return self.wrong("expected a string");
        }
        let (inside, escaped) = self.quoted()?;
        Ok(if escaped { Cow::Owned(unescape(inside)) } else { Cow::Borrowed(inside) })
    }

    /// Passes a string; returns the text between the quotes, and true if it contains escapes.
    pub(crate) fn quoted(&mut self) -> Result<(&'a str, bool), Syntax> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            while at < bytes.len() && IN_STRING[usize::from(bytes[at])] == NORMAL {
                at += 1;
            }
            match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok((&self.text[start..at], escaped));
                }
                Some(b'\\') => {
                    escaped = true;
                    let length = match bytes.get(at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                        Some(b'u') if bytes.len() >= at + 6 && bytes[at + 2..at + 6].iter().all(u8::is_ascii_hexdigit) => 6,
                        _ => {
                            self.at = at;
                            return self.wrong("unknown escape in a string");
                        }
                    };
                    at += length;
                }
                Some(_) => {
                    self.at = at;
                    return self.wrong("control character in a string");
                }
                None => {
                    self.at = bytes.len();
                    return self.wrong("unexpected end");
                }
            }
        }
    }

    fn word(&mut self, word: &'static str) -> Result<(), Syntax> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.wrong("expected a value");
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Syntax> {
        if !self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            return self.wrong("expected a digit");
        }
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Syntax> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        if self.byte() == Some(b'0') {
            self.at += 1;
            if self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.wrong("number with a leading zero");
            }
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        // Only long numbers need a closer check.
        let text = &self.text[start..self.at];
        if text.len() > 4 && !text.parse::<f64>().is_ok_and(f64::is_finite) {
            return Err(Syntax { at: start, reason: "number out of range" });
        }
        Ok(())
    }
}

/// Resolves the escapes of a checked string; half a surrogate pair becomes U+FFFD, as in Go.
pub(crate) fn unescape(inside: &str) -> String {
    let mut out = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (letter, length) = escaped_char(&rest[at..]);
        out.push(letter);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// The character of a checked escape, and the number of bytes that it takes.
pub(super) fn escaped_char(text: &str) -> (char, usize) {
    match text.as_bytes().get(1) {
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'n') => ('\n', 2),
        Some(b'r') => ('\r', 2),
        Some(b't') => ('\t', 2),
        Some(b'u') => unicode(text),
        Some(byte) => (char::from(*byte), 2),
        None => (char::REPLACEMENT_CHARACTER, text.len()),
    }
}

fn unicode(text: &str) -> (char, usize) {
    let unit = |from: usize| text.get(from..from + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let first = unit(2).unwrap_or(0xFFFD);
    if (0xD800..0xDC00).contains(&first)
        && text.get(6..8) == Some("\\u")
        && let Some(second) = unit(8).filter(|second| (0xDC00..0xE000).contains(second))
    {
        let letter = char::from_u32(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
        return (letter.unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Result<&str, Syntax> {
        let mut cursor = Cursor::new(text);
        let value = cursor.skip()?;
        cursor.end()?;
        Ok(value)
    }

    /// CATLG-07: what is no JSON is refused, with the place.
    #[test]
    fn refuses_with_the_place() {
        let cases = [
            ("", 0, "unexpected end"),
            ("{\"a\": }", 6, "expected a value"),
            ("{\"a\" 1}", 5, "expected `:` after the key"),
            ("{\"a\":1,}", 7, "trailing comma"),
            ("{a:1}", 1, "expected a quoted key"),
            ("[1 2]", 3, "expected `,` or `]`"),
            ("[,1]", 1, "expected a value"),
            ("\"\\x\"", 1, "unknown escape in a string"),
            ("\"\n\"", 1, "control character in a string"),
            ("01", 1, "number with a leading zero"),
            ("1.", 2, "unexpected end"),
            ("-x", 1, "expected a digit"),
            ("nul", 0, "expected a value"),
            ("[1e999]", 1, "number out of range"),
            ("{} {}", 3, "unexpected text after the value"),
        ];
        for (text, at, reason) in cases {
            assert_eq!(whole(text), Err(Syntax { at, reason }), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert_eq!(whole(&deep).unwrap_err().reason, "nested more than 128 deep");
        let allowed = &deep[1..deep.len() - 1];
        assert_eq!(whole(allowed).unwrap(), allowed);
    }

    #[test]
    fn escapes() {
        let text = r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud800x\udc00""#;
        assert_eq!(Cursor::new(text).string().unwrap(), "a\"\\/\u{8}\u{c}\n\r\té😀\u{fffd}x\u{fffd}");
    }

    proptest! {
        /// CATLG-07: any text is JSON here exactly when it is JSON for an independent reader.
        #[test]
        fn agrees_with_serde(text in "[\\[\\]{}:,\"\\\\ntrue0-9.eE+\\- u\u{1}]{0,12}") {
            let independent = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            prop_assert_eq!(whole(&text).is_ok(), independent, "{}", text);
        }
    }
}
