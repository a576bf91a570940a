//! JSON text with the place of each value in it.

use mainstay_golang::json_reader::{SyntaxError, check_syntax};

/// A value and its place in the text.
#[derive(Debug)]
pub(crate) struct Node<'t> {
    /// The first byte.
    pub(crate) first: usize,
    /// The last byte.
    pub(crate) last: usize,
    pub(crate) value: Value<'t>,
}

#[derive(Debug)]
pub(crate) enum Value<'t> {
    Object(Vec<Member<'t>>),
    Array(Vec<Node<'t>>),
    /// A text, a number, `true`, `false` or `null`, as it stands.
    Literal(&'t str),
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Member<'t> {
    pub(crate) key: String,
    pub(crate) key_first: usize,
    /// The byte after the key.
    pub(crate) key_end: usize,
    pub(crate) node: Node<'t>,
}

impl<'t> Node<'t> {
    /// Reads a text.
    pub(crate) fn read(text: &'t str) -> Result<Self, SyntaxError> {
        check_syntax(text.as_bytes())?;
        let mut reader = Reader { text, bytes: text.as_bytes(), at: 0 };
        reader.blanks();
        Ok(reader.node())
    }

    /// The value of a key; of several the last.
    pub(crate) fn member(&self, key: &str) -> Option<&Member<'t>> {
        match &self.value {
            Value::Object(members) => members.iter().rfind(|member| member.key == key),
            _ => None,
        }
    }

    pub(crate) fn item(&self, index: usize) -> Option<&Node<'t>> {
        match &self.value {
            Value::Array(items) => items.get(index),
            _ => None,
        }
    }

    /// The place that a report about a 3.x config names: behind a bracket, or at the beginning of a literal.
    pub(crate) fn marker(&self) -> usize {
        match self.value {
            Value::Literal(_) => self.first,
            _ => self.first + 1,
        }
    }
}

/// The text of a string literal, as Go reads it: halves of surrogate pairs become the replacement character.
pub(crate) fn unquoted(literal: &str) -> String {
    let inner = literal.get(1..literal.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return inner.to_owned();
    }
    let whole = mainstay_golang::json_reader::without_half_pairs(literal);
    // The syntax was checked, and nothing else can be wrong with a text.
    serde_json::from_str(&whole).unwrap_or_default()
}

/// A reader of text whose syntax was checked, so that it need not look for mistakes.
struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or_default()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    fn node(&mut self) -> Node<'t> {
        let first = self.at;
        let value = match self.peek() {
            b'{' => Value::Object(self.members()),
            b'[' => Value::Array(self.items()),
            b'"' => Value::Literal(self.string()),
            _ => {
                while matches!(self.peek(), b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.') {
                    self.at += 1;
                }
                Value::Literal(&self.text[first..self.at])
            }
        };
        Node { first, last: self.at.saturating_sub(1), value }
    }

    fn members(&mut self) -> Vec<Member<'t>> {
        let mut members = Vec::new();
        self.at += 1;
        self.blanks();
        while self.at < self.bytes.len() && self.peek() != b'}' {
            let key_first = self.at;
            let key = unquoted(self.string());
            let key_end = self.at;
            self.blanks();
            self.at += 1;
            self.blanks();
            let node = self.node();
            members.push(Member { key, key_first, key_end, node });
            self.separator();
        }
        self.at += 1;
        members
    }

    fn items(&mut self) -> Vec<Node<'t>> {
        let mut items = Vec::new();
        self.at += 1;
        self.blanks();
        while self.at < self.bytes.len() && self.peek() != b']' {
            items.push(self.node());
            self.separator();
        }
        self.at += 1;
        items
    }

    fn separator(&mut self) {
        self.blanks();
        if self.peek() == b',' {
            self.at += 1;
            self.blanks();
        }
    }

    fn string(&mut self) -> &'t str {
        let first = self.at;
        self.at += 1;
        while self.at < self.bytes.len() && self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        self.text.get(first..self.at).unwrap_or_default()
    }
}
