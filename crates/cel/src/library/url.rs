//! URLs as Go reads them: absolute ones and absolute paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::value::{Key, Value};

/// Why a text is no URL, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidUrl(String);

#[derive(Clone, Debug)]
pub struct Url {
    pub(crate) text: String,
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let url = Self::read(text).ok_or_else(|| InvalidUrl(format!("parse {text:?}: invalid URI for request")))?;
        match url.host.chars().find(|letter| matches!(letter, ' ' | '\\' | '^' | '{' | '}' | '|' | '`')) {
            Some(letter) => Err(InvalidUrl(format!("parse {text:?}: invalid character {:?} in host name", letter.to_string()))),
            None => Ok(url),
        }
    }

    fn read(text: &str) -> Option<Self> {
        if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        // A fragment is not part of a request URI: what looks like one belongs to the path.
        let (scheme, rest) = match scheme_end(text) {
            Some(end) => (text[..end].to_ascii_lowercase(), &text[end + 1..]),
            None if text.starts_with('/') => (String::new(), text),
            None => return None,
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = match rest.strip_prefix("//") {
            Some(authority) if !scheme.is_empty() || !rest.starts_with("///") => {
                let end = authority.find('/').unwrap_or(authority.len());
                let host = authority[..end].rsplit('@').next().unwrap_or("");
                (host.to_owned(), authority[end..].to_owned())
            }
            _ if !scheme.is_empty() && !rest.starts_with('/') => return None,
            _ => (String::new(), rest.to_owned()),
        };
        let url = Self { text: text.to_owned(), scheme, host, path, query: query.to_owned() };
        (url.host_is_valid() && decode(&url.path, false).is_some()).then_some(url)
    }

    fn host_is_valid(&self) -> bool {
        let port = self.port();
        let brackets = !self.host.starts_with('[') || self.host.contains(']');
        brackets && port.bytes().all(|byte| byte.is_ascii_digit())
    }

    fn split_host(&self) -> (&str, &str) {
        if let Some(inner) = self.host.strip_prefix('[') {
            return match inner.split_once(']') {
                Some((address, rest)) => (address, rest.strip_prefix(':').unwrap_or(rest)),
                None => (inner, ""),
            };
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }

    pub(crate) fn hostname(&self) -> &str {
        self.split_host().0
    }

    pub(crate) fn port(&self) -> &str {
        self.split_host().1
    }

    /// The path as it would be sent: what needs an escape gets one.
    pub(crate) fn escaped_path(&self) -> String {
        let mut out = String::with_capacity(self.path.len());
        for byte in self.path.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&percent(byte));
            }
        }
        out
    }

    pub(crate) fn query_values(&self) -> Value {
        let mut values: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (decode(name, true), decode(value, true)) {
                values.entry(Key::Text(name.into())).or_default().push(Value::text(value));
            }
        }
        Value::Map(Arc::new(values.into_iter().map(|(name, values)| (name, Value::list(values))).collect()))
    }
}

fn percent(byte: u8) -> String {
    format!("%{byte:02X}")
}

fn scheme_end(text: &str) -> Option<usize> {
    let end = text.find(':')?;
    let scheme = &text[..end];
    let valid = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    valid.then_some(end)
}

fn decode(text: &str, plus: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                let digits = std::str::from_utf8(&digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
            }
            b'+' if plus => out.push(b' '),
            byte => out.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
