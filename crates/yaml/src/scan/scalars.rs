//! Scalars: plain, quoted, and in blocks.

use super::{Scanner, error_at};
use crate::Error;
use crate::input::{Mark, is_break_start};
use crate::token::{Kind, Style, Text, Token};

/// Bytes at which a run of plain text may end.
const fn stops(of: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8, b' ' | b'\t') || is_break_start(byte as u8);
        byte += 1;
    }
    let mut at = 0;
    while at < of.len() {
        table[of[at] as usize] = true;
        at += 1;
    }
    table
}

const BLOCK_PLAIN: [bool; 256] = stops(b":");
const FLOW_PLAIN: [bool; 256] = stops(b":,?[]{}");
const SINGLE: [bool; 256] = stops(b"'");
const DOUBLE: [bool; 256] = stops(b"\"\\");

/// A scalar that is being put together. While it equals its form in the document, nothing is copied.
struct Parts {
    /// The beginning of the part that has not been copied.
    from: usize,
    /// The beginning of the text among the copied ones, once there is one.
    made: Option<usize>,
}

/// Line ends within a scalar.
#[derive(Default)]
struct Fold {
    first: &'static str,
    rest: String,
}

impl Fold {
    /// Writes a single line end as a blank, and several as one less.
    fn write(&self, out: &mut String) {
        if self.first.starts_with('\n') {
            out.push_str(if self.rest.is_empty() { " " } else { &self.rest });
        } else {
            out.push_str(self.first);
            out.push_str(&self.rest);
        }
    }
}

impl<'a> Scanner<'a> {
    /// Copies the text between the last copy and an offset.
    fn copy(&mut self, parts: &mut Parts, to: usize) {
        parts.made.get_or_insert(self.made.len());
        let text = self.input.slice(parts.from, to);
        self.made.push_str(text);
    }

    fn scalar(&self, parts: &Parts, to: usize, style: Style, mark: Mark) -> Token<'a> {
        let text = match parts.made {
            None => Text::Written(parts.from..to),
            Some(from) => Text::Made(from..self.made.len()),
        };
        Token { kind: Kind::Scalar(text, style), mark }
    }

    pub(super) fn plain(&mut self) -> Result<Token<'a>, Error> {
        let mark = self.input.mark();
        let indent = self.indent + 1;
        let table = if self.flow > 0 { &FLOW_PLAIN } else { &BLOCK_PLAIN };
        let mut parts = Parts { from: self.input.offset(), made: None };
        let mut end = parts.from;
        let mut fold: Option<Fold> = None;
        loop {
            if self.input.at_document_mark() || self.input.peek() == b'#' {
                break;
            }
            let from = self.input.offset();
            loop {
                self.input.skip_until(table);
                if self.input.peek() != b':' || self.input.is_blank_or_end(1) {
                    break;
                }
                self.input.skip(1);
            }
            if self.input.offset() > from {
                if let Some(fold) = fold.take() {
                    self.copy(&mut parts, end);
                    fold.write(&mut self.made);
                    parts.from = from;
                }
                end = self.input.offset();
            }
            if self.input.at_end() || !(self.input.is_blank(0) || self.input.is_break(0)) {
                break;
            }
            loop {
                if self.input.is_blank(0) {
                    if fold.is_some() && self.column() < indent && self.input.peek() == b'\t' {
                        let problem = "while scanning a plain scalar: found a tab character that violates indentation";
                        return Err(error_at(self.input.mark(), problem));
                    }
                    self.input.skip(1);
                    continue;
                }
                let ended = self.input.take_break();
                match &mut fold {
                    _ if ended.is_empty() => break,
                    None => fold = Some(Fold { first: ended, rest: String::new() }),
                    Some(fold) => fold.rest.push_str(ended),
                }
            }
            if self.flow == 0 && self.column() < indent {
                break;
            }
        }
        if fold.is_some() {
            self.key_allowed = true;
        }
        if parts.made.is_some() {
            self.copy(&mut parts, end);
        }
        Ok(self.scalar(&parts, end, Style::Plain, mark))
    }

    pub(super) fn quoted(&mut self) -> Result<Token<'a>, Error> {
        let mark = self.input.mark();
        let quote = self.input.peek();
        let table = if quote == b'\'' { &SINGLE } else { &DOUBLE };
        self.input.skip(1);
        let mut parts = Parts { from: self.input.offset(), made: None };
        loop {
            if self.input.at_document_mark() {
                return Err(error_at(mark, "while scanning a quoted scalar: found unexpected document indicator"));
            }
            if self.input.at_end() {
                return Err(error_at(mark, "while scanning a quoted scalar: found unexpected end of stream"));
            }
            let mut fold: Option<Fold> = None;
            loop {
                self.input.skip_until(table);
                match self.input.peek() {
                    b'\'' if quote == b'\'' && self.input.at(1) == b'\'' => {
                        self.copy(&mut parts, self.input.offset() + 1);
                        self.input.skip(2);
                        parts.from = self.input.offset();
                    }
                    b'\\' if quote == b'"' => {
                        self.copy(&mut parts, self.input.offset());
                        if self.input.is_break(1) {
                            self.input.skip(1);
                            self.input.take_break();
                            parts.from = self.input.offset();
                            fold = Some(Fold::default());
                            break;
                        }
                        let letter = self.escape(mark)?;
                        self.made.push(letter);
                        parts.from = self.input.offset();
                    }
                    _ => break,
                }
            }
            if self.input.peek() == quote {
                break;
            }
            let end = self.input.offset();
            loop {
                if self.input.is_blank(0) {
                    self.input.skip(1);
                    continue;
                }
                let ended = self.input.take_break();
                match &mut fold {
                    _ if ended.is_empty() => break,
                    None => {
                        self.copy(&mut parts, end);
                        fold = Some(Fold { first: ended, rest: String::new() });
                    }
                    Some(fold) => fold.rest.push_str(ended),
                }
            }
            if let Some(fold) = fold {
                fold.write(&mut self.made);
                parts.from = self.input.offset();
            }
        }
        let end = self.input.offset();
        if parts.made.is_some() {
            self.copy(&mut parts, end);
        }
        self.input.skip(1);
        Ok(self.scalar(&parts, end, Style::Other, mark))
    }

    /// Reads an escape such as `\x`.
    fn escape(&mut self, mark: Mark) -> Result<char, Error> {
        let digits = match self.input.at(1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            other => {
                let letter = match other {
                    b'0' => '\0',
                    b'a' => '\u{7}',
                    b'b' => '\u{8}',
                    b't' | b'\t' => '\t',
                    b'n' => '\n',
                    b'v' => '\u{b}',
                    b'f' => '\u{c}',
                    b'r' => '\r',
                    b'e' => '\u{1b}',
                    b' ' | b'"' | b'\'' | b'\\' => char::from(other),
                    b'N' => '\u{85}',
                    b'_' => '\u{a0}',
                    b'L' => '\u{2028}',
                    b'P' => '\u{2029}',
                    _ => return Err(error_at(self.input.mark(), "while parsing a quoted scalar: found unknown escape character")),
                };
                self.input.skip(2);
                return Ok(letter);
            }
        };
        let mut code = 0;
        for ahead in 2..2 + digits {
            let Some(digit) = char::from(self.input.at(ahead)).to_digit(16) else {
                return Err(error_at(mark, "while parsing a quoted scalar: did not find expected hexadecimal number"));
            };
            code = code << 4 | digit;
        }
        self.input.skip(2 + digits);
        char::from_u32(code).ok_or_else(|| error_at(mark, "while parsing a quoted scalar: found invalid Unicode character escape code"))
    }

    pub(super) fn block(&mut self, literal: bool) -> Result<Token<'a>, Error> {
        let mark = self.input.mark();
        self.input.skip(1);
        let (keep, increment) = self.block_header(mark)?;
        let mut indent = match increment {
            0 => 0,
            more => self.indent.max(0) + more,
        };
        let from = self.made.len();
        let mut fold = Fold::default();
        let mut blank_before = false;
        self.block_breaks(&mut indent, &mut fold.rest, mark)?;
        while self.column() == indent && !self.input.at_end() {
            let blank = self.input.is_blank(0);
            if !literal && !blank_before && !blank && fold.first.starts_with('\n') {
                if fold.rest.is_empty() {
                    self.made.push(' ');
                }
            } else {
                self.made.push_str(fold.first);
            }
            self.made.push_str(&fold.rest);
            fold.rest.clear();
            blank_before = blank;
            let line = self.input.offset();
            self.input.skip_to_break();
            let text = self.input.slice(line, self.input.offset());
            self.made.push_str(text);
            fold.first = self.input.take_break();
            self.block_breaks(&mut indent, &mut fold.rest, mark)?;
        }
        if keep != Some(false) {
            self.made.push_str(fold.first);
        }
        if keep == Some(true) {
            self.made.push_str(&fold.rest);
        }
        Ok(Token { kind: Kind::Scalar(Text::Made(from..self.made.len()), Style::Other), mark })
    }

    /// Reads the header of a block: the line ends to keep at its end (all, none, or one), and its indentation beyond the parent's, 0 if not given.
    fn block_header(&mut self, mark: Mark) -> Result<(Option<bool>, isize), Error> {
        let (mut keep, mut increment) = (None, 0);
        loop {
            match self.input.peek() {
                byte @ (b'+' | b'-') if keep.is_none() => keep = Some(byte == b'+'),
                b'0' if increment == 0 => {
                    return Err(error_at(mark, "while scanning a block scalar: found an indentation indicator equal to 0"));
                }
                byte @ b'1'..=b'9' if increment == 0 => increment = isize::from(byte - b'0'),
                _ => break,
            }
            self.input.skip(1);
        }
        self.blanks();
        if self.input.peek() == b'#' {
            self.input.skip_to_break();
        }
        if !self.input.is_break_or_end(0) {
            return Err(error_at(mark, "while scanning a block scalar: did not find expected comment or line break"));
        }
        self.input.take_break();
        Ok((keep, increment))
    }

    /// Skips indentation and empty lines; the first line with text decides the indentation if it is not known (0).
    fn block_breaks(&mut self, indent: &mut isize, breaks: &mut String, mark: Mark) -> Result<(), Error> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.column() < *indent) && self.input.peek() == b' ' {
                self.input.skip(1);
            }
            deepest = deepest.max(self.column());
            if (*indent == 0 || self.column() < *indent) && self.input.peek() == b'\t' {
                let problem = "while scanning a block scalar: found a tab character where an indentation space is expected";
                return Err(error_at(if self.input.column() == 0 { self.input.mark() } else { mark }, problem));
            }
            match self.input.take_break() {
                "" => break,
                ended => breaks.push_str(ended),
            }
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }
}
