//! Messages of Go's JSON reader about text that it cannot read, and about values that do not fit a struct.

use std::borrow::Cow;

use serde_json::Value;

use crate::value::json_type;

/// Why a text is no JSON, in the words of Go's reader.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    message: String,
    offset: usize,
}

impl SyntaxError {
    /// The bytes that Go's reader has read when it gives up; those of the whole text if it ends too early.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

/// Checks that the text is one JSON value, or returns the words of Go's error.
pub fn check_syntax(text: &[u8]) -> Result<(), SyntaxError> {
    let mut scan = Scan { text, at: 0 };
    scan.blanks();
    scan.value(0)?;
    scan.blanks();
    if scan.at < text.len() {
        return Err(scan.unexpected("after top-level value"));
    }
    Ok(())
}

/// The value, or the words of Go's error.
pub fn parse(text: &[u8]) -> Result<Value, SyntaxError> {
    check_syntax(text)?;
    // Text that Go reads and this reader does not: bytes that are no UTF-8, and halves of surrogate pairs, which Go replaces.
    let text = String::from_utf8_lossy(text);
    serde_json::from_str(&without_half_pairs(&text)).map_err(|error| SyntaxError { message: error.to_string(), offset: 0 })
}

/// JSON in which the escape of a half surrogate pair is the one of the replacement character.
pub fn without_half_pairs(text: &str) -> Cow<'_, str> {
    const ESCAPE: usize = "\\u0000".len();
    let unit = |at: usize| {
        let digits = text.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        at += match (unit(at), unit(at + ESCAPE)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * ESCAPE,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                copied = at + ESCAPE;
                ESCAPE
            }
            (Some(_), _) => ESCAPE,
            // Another escape: the reverse solidus and a character of one byte.
            (None, _) => 2,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// The first value of the text, as `json.Decoder` reads it; the rest of the text does not count.
pub fn parse_first(text: &[u8]) -> Result<Value, SyntaxError> {
    let mut scan = Scan { text, at: 0 };
    scan.blanks();
    if scan.at == text.len() {
        return Err(SyntaxError { message: "EOF".to_owned(), offset: text.len() });
    }
    let begin = scan.at;
    match scan.value(0) {
        Ok(()) => parse(&text[begin..scan.at]),
        Err(_) if scan.at == text.len() => Err(SyntaxError { message: "unexpected EOF".to_owned(), offset: text.len() }),
        Err(error) => Err(error),
    }
}

/// A Go struct, as far as JSON is read into it.
#[derive(Debug)]
pub struct Struct {
    /// Its name with the package, as messages about the whole value have it; the definition of a struct without a name.
    pub full_name: &'static str,
    /// Its name without the package; empty if it has none.
    pub name: &'static str,
    /// Its fields by their names in JSON.
    pub fields: &'static [(&'static str, Type)],
}

/// The type of a field.
#[derive(Debug)]
pub enum Type {
    /// A text.
    Text,
    /// Any JSON.
    Raw,
    /// A struct, or a pointer to one.
    Struct(&'static Struct),
    /// A list of structs.
    List(&'static Struct),
}

/// The treatment of fields that a struct lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// They are ignored.
    Ignored,
    /// They are an error, as after `DisallowUnknownFields`.
    Refused,
}

/// A value that does not fit a struct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("json: {0}")]
pub struct TypeError(String);

/// Why a text cannot be read into a struct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is no JSON.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// It does not fit.
    #[error(transparent)]
    Type(#[from] TypeError),
}

impl Struct {
    /// Reads a text, as `json.Unmarshal` does.
    pub fn read(&'static self, text: &str) -> Result<Value, Unreadable> {
        let value = parse(text.as_bytes())?;
        self.check(&value, Unknown::Ignored)?;
        Ok(value)
    }

    /// Returns the first value that does not fit; fields are gone through in the order of their names.
    pub fn check(&'static self, value: &Value, unknown: Unknown) -> Result<(), TypeError> {
        match value {
            Value::Object(_) | Value::Null => self.fields_of(value, "", unknown),
            other => Err(TypeError(format!("cannot unmarshal {} into Go value of type {}", json_type(other), self.full_name))),
        }
    }

    fn fields_of(&'static self, value: &Value, path: &str, unknown: Unknown) -> Result<(), TypeError> {
        for (key, value) in value.as_object().into_iter().flatten() {
            let exact = self.fields.iter().find(|(name, _)| name == key);
            let Some((name, kind)) = exact.or_else(|| self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key))) else {
                if unknown == Unknown::Refused {
                    return Err(TypeError(format!("unknown field {}", crate::quote(key))));
                }
                continue;
            };
            let at = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
            let misfit = |value: &Value, kind: &str| {
                let (found, owner) = (json_type(value), self.name);
                Err(TypeError(format!("cannot unmarshal {found} into Go struct field {owner}.{at} of type {kind}")))
            };
            match (kind, value) {
                (Type::Raw, _) | (_, Value::Null) | (Type::Text, Value::String(_)) => {}
                (Type::Text, other) => return misfit(other, "string"),
                (Type::Struct(inner), value @ Value::Object(_)) => inner.fields_of(value, &at, unknown)?,
                (Type::Struct(inner), other) => return misfit(other, inner.full_name),
                (Type::List(inner), Value::Array(items)) => {
                    for item in items {
                        match item {
                            Value::Object(_) | Value::Null => inner.fields_of(item, &at, unknown)?,
                            other => return misfit(other, inner.full_name),
                        }
                    }
                }
                (Type::List(inner), other) => return misfit(other, &format!("[]{}", inner.full_name)),
            }
        }
        Ok(())
    }
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
        match self.peek() {
            Some(byte) => self.misplaced(byte, context),
            None => SyntaxError { message: "unexpected end of JSON input".to_owned(), offset: self.text.len() },
        }
    }

    /// The problem inside a word, a number or an escape, where Go takes the end of the text for a blank.
    fn unexpected_inside(&self, context: &str) -> SyntaxError {
        self.misplaced(self.peek().unwrap_or(b' '), context)
    }

    fn misplaced(&self, byte: u8, context: &str) -> SyntaxError {
        let shown = match byte {
            b'\'' => r"\'".to_owned(),
            b'"' => "\"".to_owned(),
            byte => {
                let quoted = crate::quote(&char::from(byte).to_string());
                quoted[1..quoted.len() - 1].to_owned()
            }
        };
        let message = format!("invalid character '{shown}' {context}");
        SyntaxError { message, offset: (self.at + 1).min(self.text.len()) }
    }

    fn value(&mut self, depth: usize) -> Result<(), SyntaxError> {
        if depth > DEPTH {
            return Err(SyntaxError { message: "exceeded max depth".to_owned(), offset: self.at + 1 });
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
                                    return Err(self.unexpected_inside("in \\u hexadecimal character escape"));
                                }
                                self.at += 1;
                            }
                        }
                        _ => return Err(self.unexpected_inside("in string escape code")),
                    }
                }
                Some(0..=0x1f) | None => return Err(self.unexpected("in string literal")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn digits(&mut self, context: &str) -> Result<(), SyntaxError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected_inside(context));
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
                return Err(self.unexpected_inside(&format!("in literal {word} (expecting '{letter}')")));
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
            (b"nul", "invalid character ' ' in literal null (expecting 'l')"),
            (b"[-", "invalid character ' ' in numeric literal"),
            (b"1.", "invalid character ' ' after decimal point in numeric literal"),
            (b"\"\\", "invalid character ' ' in string escape code"),
            (b"\"a", "unexpected end of JSON input"),
        ] {
            assert_eq!(parse(text).map_err(|error| error.to_string()), Err(wanted.to_owned()));
        }
        assert_eq!(parse(b" {\"a\": [1, null]} "), Ok(json!({"a": [1, null]})));
        for (text, read) in [
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ude00b\\ud83d\ud83d\u0041""#, "\u{fffd}b\\ud83d\u{fffd}A"),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(json!(read)), "{text}");
        }
    }

    /// OLM0-RES-09: what Go 1.26 answered for these.
    #[test]
    fn values_that_do_not_fit() {
        static GVK: Struct = Struct {
            full_name: "constraints.GVKConstraint",
            name: "GVKConstraint",
            fields: &[("group", Type::Text), ("kind", Type::Text), ("version", Type::Text)],
        };
        static ALL: Struct = Struct {
            full_name: "constraints.CompoundConstraint",
            name: "CompoundConstraint",
            fields: &[("constraints", Type::List(&CONSTRAINT))],
        };
        static CONSTRAINT: Struct = Struct {
            full_name: "constraints.Constraint",
            name: "Constraint",
            fields: &[("all", Type::Struct(&ALL)), ("gvk", Type::Struct(&GVK)), ("value", Type::Raw)],
        };
        for (text, wanted) in [
            (r#""x""#, "json: cannot unmarshal string into Go value of type constraints.Constraint"),
            (r#"{"gvk":1}"#, "json: cannot unmarshal number into Go struct field Constraint.gvk of type constraints.GVKConstraint"),
            (r#"{"gvk":{"group":1}}"#, "json: cannot unmarshal number into Go struct field GVKConstraint.gvk.group of type string"),
            (
                r#"{"all":{"constraints":[{"gvk":{"group":true}}]}}"#,
                "json: cannot unmarshal bool into Go struct field GVKConstraint.all.constraints.gvk.group of type string",
            ),
            (
                r#"{"all":{"constraints":{}}}"#,
                "json: cannot unmarshal object into Go struct field CompoundConstraint.all.constraints of type []constraints.Constraint",
            ),
            (r#"{"x":1}"#, "json: unknown field \"x\""),
            (r#"{"gvk":{"y":1}}"#, "json: unknown field \"y\""),
            ("", "EOF"),
            ("{\"gvk\":null", "unexpected EOF"),
        ] {
            let answer = match parse_first(text.as_bytes()) {
                Ok(value) => CONSTRAINT.check(&value, Unknown::Refused).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            assert_eq!(answer, Err(wanted.to_owned()), "{text}");
        }
        for text in ["{} x", "null", r#"{"GVK":{"Group":"a"}}"#, r#"{"all":{"constraints":null},"value":[1]}"#] {
            assert_eq!(CONSTRAINT.check(&parse_first(text.as_bytes()).unwrap_or_default(), Unknown::Refused), Ok(()), "{text}");
        }
    }
}
