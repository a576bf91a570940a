//! Directives, tags, anchors and aliases.

use std::borrow::Cow;

use super::{Scanner, error_at};
use crate::Error;
use crate::input::Mark;
use crate::token::{Kind, Token};

/// The most digits of a version's part.
const VERSION_DIGITS: usize = 2;

impl<'a> Scanner<'a> {
    pub(super) fn scan_directive(&mut self) -> Result<Token<'a>, Error> {
        let mark = self.input.mark();
        let refused = |problem: &str| Err(error_at(mark, format!("while scanning a directive: {problem}")));
        self.input.skip(1);
        let name = self.word();
        if name.is_empty() {
            return refused("could not find expected directive name");
        }
        if !self.input.is_blank_or_end(0) {
            return refused("found unexpected non-alphabetical character");
        }
        let kind = match name {
            "YAML" => {
                self.blanks();
                let major = self.version_part(mark)?;
                if self.input.peek() != b'.' {
                    return refused("did not find expected digit or '.' character");
                }
                self.input.skip(1);
                Kind::Version(major, self.version_part(mark)?)
            }
            "TAG" => {
                self.blanks();
                let handle = self.handle(mark)?;
                if handle != "!" && (handle.len() == 1 || !handle.ends_with('!')) {
                    return refused("did not find expected '!'");
                }
                if !self.input.is_blank(0) {
                    return refused("did not find expected whitespace");
                }
                self.blanks();
                let prefix = self.uri("", mark)?;
                if !self.input.is_blank_or_end(0) {
                    return refused("did not find expected whitespace or line break");
                }
                Kind::TagHandle(handle, prefix)
            }
            _ => return refused("found unknown directive name"),
        };
        self.blanks();
        if self.input.peek() == b'#' {
            self.input.skip_to_break();
        }
        if !self.input.is_break_or_end(0) {
            return refused("did not find expected comment or line break");
        }
        self.input.take_break();
        Ok(Token { kind, mark })
    }

    pub(super) fn blanks(&mut self) {
        while self.input.is_blank(0) {
            self.input.skip(1);
        }
    }

    /// Reads letters, digits, `_` and `-`.
    fn word(&mut self) -> &'a str {
        let from = self.input.offset();
        while is_word(self.input.peek()) {
            self.input.skip(1);
        }
        self.input.slice(from, self.input.offset())
    }

    fn version_part(&mut self, mark: Mark) -> Result<u8, Error> {
        let from = self.input.offset();
        while self.input.peek().is_ascii_digit() {
            self.input.skip(1);
        }
        let digits = self.input.slice(from, self.input.offset());
        match digits.parse() {
            Ok(part) if digits.len() <= VERSION_DIGITS => Ok(part),
            _ => Err(error_at(mark, "while scanning a %YAML directive: did not find expected version number")),
        }
    }

    /// Reads `&name` or `*name`.
    pub(super) fn anchor(&mut self) -> Result<Token<'a>, Error> {
        let mark = self.input.mark();
        let is_alias = self.input.peek() == b'*';
        self.input.skip(1);
        let name = self.word();
        let ended = self.input.is_blank_or_end(0) || matches!(self.input.peek(), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ended {
            let what = if is_alias { "an alias" } else { "an anchor" };
            return Err(error_at(mark, format!("while scanning {what}: did not find expected alphabetic or numeric character")));
        }
        Ok(Token { kind: if is_alias { Kind::Alias(name) } else { Kind::Anchor(name) }, mark })
    }

    /// Reads `!<uri>`, `!handle!suffix`, `!suffix` or `!`.
    pub(super) fn tag(&mut self) -> Result<Token<'a>, Error> {
        let mark = self.input.mark();
        let (handle, suffix) = if self.input.at(1) == b'<' {
            self.input.skip(2);
            let uri = self.uri("", mark)?;
            if self.input.peek() != b'>' {
                return Err(error_at(mark, "while scanning a tag: did not find the expected '>'"));
            }
            self.input.skip(1);
            ("", uri)
        } else {
            let handle = self.handle(mark)?;
            if handle.len() > 1 && handle.ends_with('!') {
                (handle, self.uri("", mark)?)
            } else {
                // The supposed handle is the beginning of the suffix.
                let suffix = self.uri(handle, mark)?;
                if suffix.is_empty() { ("", Cow::Borrowed(b"!".as_slice())) } else { ("!", suffix) }
            }
        };
        if !self.input.is_blank_or_end(0) {
            return Err(error_at(mark, "while scanning a tag: did not find expected whitespace or line break"));
        }
        Ok(Token { kind: Kind::Tag(handle, suffix), mark })
    }

    /// Reads `!`, `!word` or `!word!`.
    fn handle(&mut self, mark: Mark) -> Result<&'a str, Error> {
        if self.input.peek() != b'!' {
            return Err(error_at(mark, "while scanning a tag: did not find expected '!'"));
        }
        let from = self.input.offset();
        self.input.skip(1);
        self.word();
        if self.input.peek() == b'!' {
            self.input.skip(1);
        }
        Ok(self.input.slice(from, self.input.offset()))
    }

    /// Reads characters of a URI, after a `head` that begins with `!` and was read before.
    fn uri(&mut self, head: &'a str, mark: Mark) -> Result<Cow<'a, [u8]>, Error> {
        let from = self.input.offset();
        let mut made: Option<Vec<u8>> = None;
        loop {
            match self.input.peek() {
                b'%' => {
                    let bytes = made.get_or_insert_with(|| self.input.slice(from, self.input.offset()).as_bytes().to_vec());
                    let mut left = 0;
                    loop {
                        let hex = |ahead: usize| char::from(self.input.at(ahead)).to_digit(16);
                        let (b'%', Some(high), Some(low)) = (self.input.peek(), hex(1), hex(2)) else {
                            return Err(error_at(mark, "while parsing a tag: did not find URI escaped octet"));
                        };
                        // Two hexadecimal digits fit.
                        let octet = (high * 16 + low) as u8;
                        left = match (left, octet) {
                            (0, 0..0x80) => 1,
                            (0, 0xc0..0xe0) => 2,
                            (0, 0xe0..0xf0) => 3,
                            (0, 0xf0..0xf8) => 4,
                            (1.., 0x80..0xc0) => left,
                            _ => return Err(error_at(mark, "while parsing a tag: found an incorrect UTF-8 octet")),
                        } - 1;
                        bytes.push(octet);
                        self.input.skip(3);
                        if left == 0 {
                            break;
                        }
                    }
                }
                byte if is_word(byte) || b";/?:@&=+$,.!~*'()[]".contains(&byte) => {
                    if let Some(bytes) = &mut made {
                        bytes.push(byte);
                    }
                    self.input.skip(1);
                }
                _ => break,
            }
        }
        if head.is_empty() && self.input.offset() == from {
            return Err(error_at(mark, "while parsing a tag: did not find expected tag URI"));
        }
        let head = head.get(1..).unwrap_or_default();
        Ok(match made {
            // The head stands directly before the rest.
            None => Cow::Borrowed(self.input.slice(from - head.len(), self.input.offset()).as_bytes()),
            Some(bytes) => Cow::Owned([head.as_bytes(), &bytes].concat()),
        })
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
