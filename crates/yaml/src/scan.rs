//! The scanner: from text to tokens, by the rules of YAML 1.1 as libyaml and its Go port have them.
//!
//! ```text
//!   text ─ blanks, comments ─ indentation ─┬─ indicator ───────────┐
//!                                          ├─ tag, anchor, %       ├─ queue ─ parser
//!                                          └─ scalar ──────────────┘
//! ```
//!
//! A mapping key without `?` is recognized only by its `:`. So tokens wait in the queue while the first of them may still
//! turn out to be a key: no longer than 1,024 characters, and on one line.

use std::collections::VecDeque;

use crate::Error;
use crate::input::{Input, Mark};
use crate::token::{Kind, Token};

mod properties;
mod scalars;

/// The greatest distance in characters from the start of a key to its colon.
const KEY_LENGTH: usize = 1024;

/// The scanner of a text.
pub(crate) struct Scanner<'a> {
    pub(super) input: Input<'a>,
    /// Texts that differ from their form in the document.
    pub(crate) made: String,
    queue: VecDeque<Token<'a>>,
    /// Tokens that have left the queue.
    taken: usize,
    /// True if the first token of the queue may be handed out.
    ready: bool,
    flow: usize,
    indent: isize,
    indents: Vec<isize>,
    key_allowed: bool,
    /// The possible key of each flow level.
    keys: Vec<SimpleKey>,
    /// Numbers of tokens that may be keys, with their flow level; in rising order.
    waiting: VecDeque<(usize, usize)>,
}

#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// Only a key can stand there.
    required: bool,
    number: usize,
    mark: Mark,
}

pub(crate) fn error_at(mark: Mark, problem: impl Into<String>) -> Error {
    Error { line: mark.line + 1, column: mark.column + 1, problem: problem.into() }
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            input: Input::new(text),
            made: String::new(),
            queue: VecDeque::new(),
            taken: 0,
            ready: false,
            flow: 0,
            indent: -1,
            indents: Vec::new(),
            key_allowed: true,
            keys: vec![SimpleKey::default()],
            waiting: VecDeque::new(),
        }
    }

    /// Returns the offset up to which the text was read.
    pub(crate) fn offset(&self) -> usize {
        self.input.offset()
    }

    /// Returns the next token without taking it.
    pub(crate) fn peek(&mut self) -> Result<&Token<'a>, Error> {
        if !self.ready {
            self.fill()?;
            self.ready = true;
        }
        self.queue.front().ok_or_else(|| error_at(Mark::default(), "unexpected end of the document"))
    }

    /// Takes the next token.
    pub(crate) fn next(&mut self) -> Result<Token<'a>, Error> {
        self.peek()?;
        self.ready = false;
        self.taken += 1;
        self.queue.pop_front().ok_or_else(|| error_at(Mark::default(), "unexpected end of the document"))
    }

    /// Reads on until the first token of the queue can no longer become a key.
    fn fill(&mut self) -> Result<(), Error> {
        loop {
            if !self.queue.is_empty() {
                while self.waiting.front().is_some_and(|(number, _)| *number < self.taken) {
                    self.waiting.pop_front();
                }
                match self.waiting.front() {
                    Some(&(number, level)) if number == self.taken && level < self.keys.len() => {
                        if !self.is_valid(level)? {
                            return Ok(());
                        }
                    }
                    _ => return Ok(()),
                }
            }
            self.fetch()?;
        }
    }

    fn fetch(&mut self) -> Result<(), Error> {
        self.skip_blanks();
        self.unroll(self.column());
        if self.input.at_end() {
            return self.stream_end();
        }
        let byte = self.input.peek();
        if self.input.column() == 0 {
            if byte == b'%' {
                return self.directive();
            }
            if self.input.at_document_mark() {
                return self.document_mark(byte);
            }
        }
        let spaced = self.input.is_blank_or_end(1);
        match byte {
            b'[' => self.open(Kind::FlowSequence),
            b'{' => self.open(Kind::FlowMapping),
            b']' => self.close(Kind::FlowSequenceEnd),
            b'}' => self.close(Kind::FlowMappingEnd),
            b',' => {
                self.drop_key()?;
                self.key_allowed = true;
                self.indicator(Kind::Comma);
                Ok(())
            }
            b'-' if spaced => self.entry(),
            b'?' if spaced || self.flow > 0 => self.key(),
            b':' if spaced || self.flow > 0 => self.value(),
            b'*' | b'&' => self.property(Self::anchor),
            b'!' => self.property(Self::tag),
            b'|' | b'>' if self.flow == 0 => {
                self.drop_key()?;
                self.key_allowed = true;
                let token = self.block(byte == b'|')?;
                self.queue.push_back(token);
                Ok(())
            }
            b'\'' | b'"' => self.property(Self::quoted),
            b'\t' => Err(error_at(self.input.mark(), "a tab stands where a token begins: indent with blanks")),
            b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => self.no_token(),
            _ => self.property(Self::plain),
        }
    }

    fn no_token(&self) -> Result<(), Error> {
        let letter = char::from(self.input.peek());
        Err(error_at(self.input.mark(), format!("found character {letter:?} that cannot start any token")))
    }

    /// Scans a token that may be a key, and after which no key may follow.
    fn property(&mut self, scan: fn(&mut Self) -> Result<Token<'a>, Error>) -> Result<(), Error> {
        self.save_key()?;
        self.key_allowed = false;
        let token = scan(self)?;
        self.queue.push_back(token);
        Ok(())
    }

    fn skip_blanks(&mut self) {
        loop {
            while self.input.peek() == b' ' || (self.input.peek() == b'\t' && (self.flow > 0 || !self.key_allowed)) {
                self.input.skip(1);
            }
            if self.input.peek() == b'#' {
                self.input.skip_to_break();
            }
            if self.input.take_break().is_empty() {
                return;
            }
            if self.flow == 0 {
                self.key_allowed = true;
            }
        }
    }

    fn column(&self) -> isize {
        self.input.column().try_into().unwrap_or(isize::MAX)
    }

    /// Queues an indicator of one character, and skips it.
    fn indicator(&mut self, kind: Kind<'a>) {
        let mark = self.input.mark();
        self.input.skip(1);
        self.queue.push_back(Token { kind, mark });
    }

    /// Inserts a token before the one of this number and those after it; at the end if that one has left the queue.
    fn insert(&mut self, number: usize, token: Token<'a>) {
        match number.checked_sub(self.taken) {
            Some(at) if at <= self.queue.len() => self.queue.insert(at, token),
            _ => self.queue.push_back(token),
        }
    }

    // --- keys ---

    /// Returns whether the possible key of a level can still be one.
    fn is_valid(&mut self, level: usize) -> Result<bool, Error> {
        let key = self.keys[level];
        if !key.possible {
            return Ok(false);
        }
        if key.mark.line < self.input.line() || key.mark.index + KEY_LENGTH < self.input.index() {
            if key.required {
                return Err(no_colon(key.mark));
            }
            self.keys[level].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_key(&mut self) -> Result<(), Error> {
        if !self.key_allowed {
            return Ok(());
        }
        let required = self.flow == 0 && self.indent == self.column();
        let number = self.taken + self.queue.len();
        let key = SimpleKey { possible: true, required, number, mark: self.input.mark() };
        self.drop_key()?;
        let level = self.keys.len() - 1;
        self.keys[level] = key;
        self.waiting.push_back((number, level));
        Ok(())
    }

    fn drop_key(&mut self) -> Result<(), Error> {
        let level = self.keys.len() - 1;
        let key = self.keys[level];
        if key.possible {
            if key.required {
                return Err(no_colon(key.mark));
            }
            self.keys[level].possible = false;
            self.forget(key.number);
        }
        Ok(())
    }

    fn forget(&mut self, number: usize) {
        if let Some(at) = self.waiting.iter().rposition(|(other, _)| *other == number) {
            self.waiting.remove(at);
        }
    }

    // --- indentation ---

    /// Begins a block collection if the column is further right than the current one.
    fn roll(&mut self, column: usize, number: Option<usize>, kind: Kind<'a>, mark: Mark) {
        let column = column.try_into().unwrap_or(isize::MAX);
        if self.flow > 0 || self.indent >= column {
            return;
        }
        self.indents.push(std::mem::replace(&mut self.indent, column));
        let token = Token { kind, mark };
        match number {
            Some(number) => self.insert(number, token),
            None => self.queue.push_back(token),
        }
    }

    /// Ends the block collections that are further right than a column.
    fn unroll(&mut self, column: isize) {
        if self.flow > 0 {
            return;
        }
        while self.indent > column {
            self.queue.push_back(Token { kind: Kind::BlockEnd, mark: self.input.mark() });
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    // --- tokens ---

    fn stream_end(&mut self) -> Result<(), Error> {
        self.input.end_line();
        self.unroll(-1);
        self.drop_key()?;
        self.key_allowed = false;
        self.queue.push_back(Token { kind: Kind::StreamEnd, mark: self.input.mark() });
        Ok(())
    }

    fn directive(&mut self) -> Result<(), Error> {
        self.unroll(-1);
        self.drop_key()?;
        self.key_allowed = false;
        let token = self.scan_directive()?;
        self.queue.push_back(token);
        Ok(())
    }

    fn document_mark(&mut self, byte: u8) -> Result<(), Error> {
        self.unroll(-1);
        self.drop_key()?;
        self.key_allowed = false;
        let kind = if byte == b'-' { Kind::DocumentStart } else { Kind::DocumentEnd };
        self.queue.push_back(Token { kind, mark: self.input.mark() });
        self.input.skip(3);
        Ok(())
    }

    fn open(&mut self, kind: Kind<'a>) -> Result<(), Error> {
        self.save_key()?;
        let number = self.taken + self.queue.len();
        self.keys.push(SimpleKey { number, mark: self.input.mark(), ..SimpleKey::default() });
        self.flow += 1;
        self.key_allowed = true;
        self.indicator(kind);
        Ok(())
    }

    fn close(&mut self, kind: Kind<'a>) -> Result<(), Error> {
        self.drop_key()?;
        if self.flow > 0 {
            self.flow -= 1;
            if let Some(key) = self.keys.pop() {
                self.forget(key.number);
            }
        }
        self.key_allowed = false;
        self.indicator(kind);
        Ok(())
    }

    fn entry(&mut self) -> Result<(), Error> {
        let mark = self.input.mark();
        if self.flow == 0 {
            if !self.key_allowed {
                return Err(error_at(mark, "block sequence entries are not allowed in this context"));
            }
            self.roll(mark.column, None, Kind::BlockSequence, mark);
        }
        self.drop_key()?;
        self.key_allowed = true;
        self.indicator(Kind::Entry);
        Ok(())
    }

    fn key(&mut self) -> Result<(), Error> {
        let mark = self.input.mark();
        if self.flow == 0 {
            if !self.key_allowed {
                return Err(error_at(mark, "mapping keys are not allowed in this context"));
            }
            self.roll(mark.column, None, Kind::BlockMapping, mark);
        }
        self.drop_key()?;
        self.key_allowed = self.flow == 0;
        self.indicator(Kind::Key);
        Ok(())
    }

    fn value(&mut self) -> Result<(), Error> {
        let level = self.keys.len() - 1;
        if self.is_valid(level)? {
            let key = self.keys[level];
            self.insert(key.number, Token { kind: Kind::Key, mark: key.mark });
            self.roll(key.mark.column, Some(key.number), Kind::BlockMapping, key.mark);
            self.keys[level].possible = false;
            self.forget(key.number);
            self.key_allowed = false;
        } else {
            if self.flow == 0 {
                let mark = self.input.mark();
                if !self.key_allowed {
                    return Err(error_at(mark, "mapping values are not allowed in this context"));
                }
                self.roll(mark.column, None, Kind::BlockMapping, mark);
            }
            self.key_allowed = self.flow == 0;
        }
        self.indicator(Kind::Value);
        Ok(())
    }
}

fn no_colon(mark: Mark) -> Error {
    error_at(mark, "while scanning a simple key: could not find expected ':'")
}
