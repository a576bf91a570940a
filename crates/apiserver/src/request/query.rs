//! Queries and paths as Go decodes them.

/// The decoded query of a request.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes `a=b&c=d`. Pairs with a semicolon or a broken escape do not count, as in Go.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Self(
            pairs
                .filter_map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((form_decode(key)?, form_decode(value)?))
                })
                .collect(),
        )
    }

    /// The first value of a parameter.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value that is not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.first(name).filter(|value| !value.is_empty())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean as Kubernetes reads it: present and neither `0` nor `false`, in whatever case.
    pub fn flag(&self, name: &str) -> bool {
        self.first(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

/// The path of a request as it is authorized, routed and sent on: decoded as a whole before it is taken apart, as Go's `URL.Path`, so
/// that an encoded slash separates like any other for all who read it. `None` for an escape that is none, and for what is no text.
pub fn decode_path(raw: &str) -> Option<String> {
    let mut bytes = raw.bytes();
    let mut plain = Vec::with_capacity(raw.len());
    while let Some(byte) = bytes.next() {
        let mut hex = || (bytes.next()? as char).to_digit(16);
        plain.push(if byte == b'%' { u8::try_from(hex()? * 16 + hex()?).ok()? } else { byte });
    }
    String::from_utf8(plain).ok()
}

/// A decoded path as Go's `URL.EscapedPath` writes it.
pub fn encode_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            encoded.push(byte as char);
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    encoded
}

/// Decodes `%XX` in the name of a header; a broken escape stays what it is.
pub fn percent_decode(text: &str) -> String {
    decode(text.as_bytes(), false, true).unwrap_or_default()
}

fn form_decode(text: &str) -> Option<String> {
    decode(text.as_bytes(), true, false)
}

/// `None` for a broken escape, unless those stay what they are.
fn decode(bytes: &[u8], plus: bool, lenient: bool) -> Option<String> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = |index: usize| bytes.get(index).and_then(|byte| (*byte as char).to_digit(16));
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'%', ..) if !lenient => return None,
            (b'+', ..) if plus => plain.push(b' '),
            (byte, ..) => plain.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&plain).into_owned())
}
