//! Messages of Go's JSON reader about text that it cannot read.

use serde_json::Value;

/// Why a text is no JSON, in the words of Go's reader.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SyntaxError(String);

/// The value, or the words of Go's error.
pub(crate) fn parse(text: &[u8]) -> Result<Value, SyntaxError> {
    let mut scan = Scan { text, at: 0 };
    scan.blanks();
    scan.value(0)?;
    scan.blanks();
    if scan.at < text.len() {
        return Err(scan.unexpected("after top-level value"));
    }
    // Text that Go reads and this reader does not: bytes that are no UTF-8, which Go replaces.
    serde_json::from_str(&String::from_utf8_lossy(text)).map_err(|error| SyntaxError(error.to_string()))
}

/// We give up before the stack does; Go goes on to ten thousand levels.
const DEPTH: usize = 128;

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The problem with the next character, or that there is none. Go takes bytes for characters here.
    fn unexpected(&self, context: &str) -> SyntaxError {
        let Some(byte) = self.peek() else { return SyntaxError("unexpected end of JSON input".to_owned()) };
        let shown = match byte {
            b'\'' => r"\'".to_owned(),
            b'"' => "\"".to_owned(),
            byte => {
                let quoted = mainstay_golang::quote(&char::from(byte).to_string());
                quoted[1..quoted.len() - 1].to_owned()
            }
        };
        SyntaxError(format!("invalid character '{shown}' {context}"))
    }

    fn value(&mut self, depth: usize) -> Result<(), SyntaxError> {
        if depth > DEPTH {
            return Err(SyntaxError("exceeded max depth".to_owned()));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), SyntaxError> {
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.blanks();
            self.value(depth + 1)?;
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), SyntaxError> {
        self.at += 1;
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blanks();
            self.value(depth + 1)?;
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                    return Err(self.unexpected("in \\u hexadecimal character escape"));
                                }
                                self.at += 1;
                            }
                        }
                        _ => return Err(self.unexpected("in string escape code")),
                    }
                }
                Some(0..=0x1f) | None => return Err(self.unexpected("in string literal")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn digits(&mut self, context: &str) -> Result<(), SyntaxError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected(context));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), SyntaxError> {
        self.at += 1;
        for letter in word.chars().skip(1) {
            if self.peek().map(char::from) != Some(letter) {
                return Err(self.unexpected(&format!("in literal {word} (expecting '{letter}')")));
            }
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_go_says() {
        for (text, wanted) in [
            (b"" as &[u8], "unexpected end of JSON input"),
            (b"\xc7", "invalid character '\u{c7}' looking for beginning of value"),
            (b"{a", "invalid character 'a' looking for beginning of object key string"),
            (b"{\"a\" 1", "invalid character '1' after object key"),
            (b"{\"a\":1 2", "invalid character '2' after object key:value pair"),
            (b"[1 2", "invalid character '2' after array element"),
            (b"1 x", "invalid character 'x' after top-level value"),
            (b"trux", "invalid character 'x' in literal true (expecting 'e')"),
            (b"-x", "invalid character 'x' in numeric literal"),
            (b"1.'", "invalid character '\\'' after decimal point in numeric literal"),
            (b"1ex", "invalid character 'x' in exponent of numeric literal"),
            (b"\"\n", "invalid character '\\n' in string literal"),
            (b"\"\\q", "invalid character 'q' in string escape code"),
            (b"\"\\u00g", "invalid character 'g' in \\u hexadecimal character escape"),
        ] {
            assert_eq!(parse(text).map_err(|error| error.to_string()), Err(wanted.to_owned()));
        }
        assert_eq!(parse(b" {\"a\": [1, null]} "), Ok(json!({"a": [1, null]})));
    }
}
