//! The text, and the position in it.
//!
//! Columns and distances are counted in characters, as Go's library counts them; offsets are bytes.

/// A place in the text, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Characters before it.
    pub(crate) index: usize,
}

/// Text that is read from beginning to end. After the end there are only NULs.
pub(crate) struct Input<'a> {
    text: &'a str,
    offset: usize,
    /// Bytes so far that continue a character.
    continued: usize,
    line: usize,
    /// Characters before the line.
    line_index: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, offset: 0, continued: 0, line: 0, line_index: 0 }
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a str {
        &self.text[from..to]
    }

    /// The byte at the position.
    pub(crate) fn peek(&self) -> u8 {
        self.at(0)
    }

    /// The byte `ahead` bytes further.
    pub(crate) fn at(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.offset + ahead).copied().unwrap_or(0)
    }

    pub(crate) fn index(&self) -> usize {
        self.offset - self.continued
    }

    pub(crate) fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn column(&self) -> usize {
        self.index() - self.line_index
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { line: self.line, column: self.column(), index: self.index() }
    }

    pub(crate) fn at_end(&self) -> bool {
        self.offset >= self.text.len()
    }

    /// Skips characters of one byte that do not end a line.
    pub(crate) fn skip(&mut self, count: usize) {
        self.offset += count;
    }

    /// Skips the rest of the line.
    pub(crate) fn skip_to_break(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.offset) {
            if is_break_start(byte) && self.is_break(0) {
                return;
            }
            self.continued += usize::from(byte & 0xc0 == 0x80);
            self.offset += 1;
        }
    }

    /// Skips characters until one of `stops`, which include blanks and line ends.
    pub(crate) fn skip_until(&mut self, stops: &[bool; 256]) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.offset) {
            if stops[usize::from(byte)] && (byte < 0x80 || self.is_break(0)) {
                return;
            }
            self.continued += usize::from(byte & 0xc0 == 0x80);
            self.offset += 1;
        }
    }

    pub(crate) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.at(ahead), b' ' | b'\t')
    }

    pub(crate) fn is_break(&self, ahead: usize) -> bool {
        match self.at(ahead) {
            b'\r' | b'\n' => true,
            0xc2 => self.at(ahead + 1) == 0x85,
            0xe2 => self.at(ahead + 1) == 0x80 && matches!(self.at(ahead + 2), 0xa8 | 0xa9),
            _ => false,
        }
    }

    /// Returns whether a line or the text ends there.
    pub(crate) fn is_break_or_end(&self, ahead: usize) -> bool {
        self.offset + ahead >= self.text.len() || self.is_break(ahead)
    }

    /// Returns whether there is a blank, a line end, or the end of the text.
    pub(crate) fn is_blank_or_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_break_or_end(ahead)
    }

    /// Takes a line end; returns its meaning as text, empty if there is none.
    pub(crate) fn take_break(&mut self) -> &'static str {
        // Bytes, the number of them that continue a character, and the text.
        let (width, continued, text) = match (self.peek(), self.at(1), self.at(2)) {
            (b'\r', b'\n', _) => (2, 0, "\n"),
            (b'\r' | b'\n', ..) => (1, 0, "\n"),
            (0xc2, 0x85, _) => (2, 1, "\n"),
            (0xe2, 0x80, 0xa8) => (3, 2, "\u{2028}"),
            (0xe2, 0x80, 0xa9) => (3, 2, "\u{2029}"),
            _ => return "",
        };
        self.offset += width;
        self.continued += continued;
        self.line += 1;
        self.line_index = self.index();
        text
    }

    /// Returns whether `---` or `...` stands here, at the beginning of a line.
    pub(crate) fn at_document_mark(&self) -> bool {
        let first = self.peek();
        matches!(first, b'-' | b'.') && self.column() == 0 && self.at(1) == first && self.at(2) == first && self.is_blank_or_end(3)
    }

    /// Counts lines as if one ended here.
    pub(crate) fn end_line(&mut self) {
        if self.column() != 0 {
            self.line += 1;
            self.line_index = self.index();
        }
    }
}

/// Bytes that a line end begins with.
pub(crate) const fn is_break_start(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0xc2 | 0xe2)
}

/// The offset of the first character that YAML does not allow.
pub(crate) fn first_forbidden(text: &str) -> Option<usize> {
    const SUSPECT: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            table[byte] = (byte < 0x20 && !matches!(byte as u8, b'\t' | b'\n' | b'\r')) || matches!(byte, 0x7f | 0xc2 | 0xef);
            byte += 1;
        }
        table
    };
    let bytes = text.as_bytes();
    let next = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let forbidden = |at: usize| match bytes[at] {
        0xc2 => next(at + 1) < 0xa0 && next(at + 1) != 0x85,
        0xef => next(at + 1) == 0xbf && next(at + 2) >= 0xbe,
        _ => true,
    };
    let mut at = 0;
    while let Some(ahead) = bytes[at..].iter().position(|byte| SUSPECT[usize::from(*byte)]) {
        at += ahead;
        if forbidden(at) {
            return Some(at);
        }
        at += 1;
    }
    None
}
