//! URLs as Go's `net/url` reads and writes them, with the words of its errors.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::quote;

/// Why a text is no URL, in the words of Go's library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parse {}: {problem}", quote(.text))]
pub struct InvalidUrl {
    text: String,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("net/url: invalid control character in URL")]
    Control,
    #[error("empty url")]
    Empty,
    #[error("missing protocol scheme")]
    NoScheme,
    #[error("first path segment in URL cannot contain colon")]
    Colon,
    #[error("invalid URI for request")]
    NotForRequest,
    #[error("net/url: invalid userinfo")]
    User,
    #[error("missing ']' in host")]
    Bracket,
    #[error("invalid port {} after host", quote(.0))]
    Port(String),
    #[error("invalid character {} in host name", quote(.0))]
    Host(String),
    #[error("invalid URL escape {}", quote(.0))]
    Escape(String),
}

/// A URL in its parts, each as it is written in the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// The scheme in lower case; empty for a relative reference.
    pub scheme: String,
    /// The rest after the scheme when it is not a path.
    pub opaque: String,
    /// User and password.
    pub user: Option<String>,
    /// Host and port.
    pub host: String,
    /// The path, escaped.
    pub path: String,
    /// The query, escaped and without `?`.
    pub query: String,
    /// The fragment, escaped and without `#`.
    pub fragment: String,
}

/// Queries by key; a key may have several values.
pub type Query = BTreeMap<String, Vec<String>>;

/// Which of Go's two readers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Any,
    Request,
}

/// Reads a URL, as `url.Parse` does.
pub fn parse(text: &str) -> Result<Url, InvalidUrl> {
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = read(before, For::Any).map_err(|problem| InvalidUrl { text: before.to_owned(), problem })?;
    unescape(fragment).map_err(|WrongEscape(escape)| InvalidUrl { text: text.to_owned(), problem: Problem::Escape(escape) })?;
    fragment.clone_into(&mut url.fragment);
    Ok(url)
}

/// Checks that a text is a URL that can be requested, as `url.ParseRequestURI` does.
pub fn check_request(text: &str) -> Result<(), InvalidUrl> {
    read(text, For::Request).map(drop).map_err(|problem| InvalidUrl { text: text.to_owned(), problem })
}

fn read(text: &str, purpose: For) -> Result<Url, Problem> {
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err(Problem::Control);
    }
    if text.is_empty() && purpose == For::Request {
        return Err(Problem::Empty);
    }
    if text == "*" {
        return Ok(Url { path: text.to_owned(), ..Url::default() });
    }
    let (scheme, rest) = split_scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = Url { scheme: scheme.to_ascii_lowercase(), query: query.to_owned(), ..Url::default() };
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if purpose == For::Request {
            return Err(Problem::NotForRequest);
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err(Problem::Colon);
        }
    }
    let has_authority = !scheme.is_empty() || purpose == For::Any && !rest.starts_with("///");
    let path = match rest.strip_prefix("//").filter(|_| has_authority) {
        Some(after) => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            let (user, host) = split_authority(authority)?;
            (url.user, url.host) = (user.map(str::to_owned), host.to_owned());
            path
        }
        None => rest,
    };
    let plain = unescape(path).map_err(|WrongEscape(escape)| Problem::Escape(escape))?;
    url.path = if path.bytes().all(is_in_path) { path.to_owned() } else { escape_path(&plain) };
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), Problem> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err(Problem::NoScheme),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn split_authority(authority: &str) -> Result<(Option<&str>, &str), Problem> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    check_host(host)?;
    if let Some(user) = user {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        if !user.bytes().all(plain) {
            return Err(Problem::User);
        }
        unescape(user).map_err(|WrongEscape(escape)| Problem::Escape(escape))?;
    }
    Ok((user, host))
}

fn check_host(host: &str) -> Result<(), Problem> {
    let port = if host.starts_with('[') {
        let (_, port) = host.rsplit_once(']').ok_or(Problem::Bracket)?;
        port
    } else {
        host.rfind(':').map_or("", |colon| &host[colon..])
    };
    let digits = port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !port.is_empty() && !digits {
        return Err(Problem::Port(port.to_owned()));
    }
    // The zone of an address may escape any byte.
    let zone = host.find("%25").filter(|_| host.starts_with('['));
    let bytes = host.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b'%' {
            let shown = || String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]).into_owned();
            let value = hex(bytes, at).ok_or_else(|| Problem::Escape(shown()))?;
            if zone.is_none_or(|zone| at < zone) && value < 0x80 && &bytes[at..at + 3] != b"%25" {
                return Err(Problem::Escape(shown()));
            }
            at += 3;
            continue;
        }
        if byte < 0x80 && !byte.is_ascii_alphanumeric() && !b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte) {
            return Err(Problem::Host(char::from(byte).to_string()));
        }
        at += 1;
    }
    Ok(())
}

/// The byte that an escape at this place stands for.
fn hex(bytes: &[u8], at: usize) -> Option<u8> {
    let digits = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// An escape without two hexadecimal digits.
#[derive(Debug)]
struct WrongEscape(String);

/// The bytes that an escaped text stands for, or its first wrong escape.
fn unescape(text: &str) -> Result<Vec<u8>, WrongEscape> {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let shown = || String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]).into_owned();
            plain.push(hex(bytes, at).ok_or_else(|| WrongEscape(shown()))?);
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    Ok(plain)
}

fn is_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]/%".contains(&byte)
}

fn escape_path(plain: &[u8]) -> String {
    let mut out = String::new();
    for byte in plain {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(byte) {
            out.push(char::from(*byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

impl Url {
    /// The pairs of the query; pairs that cannot be read are left out, as `URL.Query` does.
    pub fn pairs(&self) -> Query {
        let mut query = Query::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let plain = |text: &str| unescape(&text.replace('+', " ")).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            if let (Some(key), Some(value)) = (plain(key), plain(value)) {
                query.entry(key).or_default().push(value);
            }
        }
        query
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(out, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            if !self.host.is_empty() || self.user.is_some() {
                out.write_str("//")?;
                if let Some(user) = &self.user {
                    write!(out, "{user}@")?;
                }
                out.write_str(&self.host)?;
                if !self.path.is_empty() && !self.path.starts_with('/') {
                    out.write_char('/')?;
                }
            }
            out.write_str(&self.path)?;
        } else {
            out.write_str(&self.opaque)?;
        }
        if !self.query.is_empty() {
            write!(out, "?{}", self.query)?;
        }
        if !self.fragment.is_empty() {
            write!(out, "#{}", self.fragment)?;
        }
        Ok(())
    }
}

/// Writes a query sorted by key, as `Values.Encode` does.
pub fn encode_query(query: &Query) -> String {
    let mut out = String::new();
    for (key, values) in query {
        for value in values {
            if !out.is_empty() {
                out.push('&');
            }
            escape_component(&mut out, key);
            out.push('=');
            escape_component(&mut out, value);
        }
    }
    out
}

fn escape_component(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => out.push(char::from(byte)),
            byte => {
                // Writing to a text cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn reads_and_writes_as_go() {
        for (text, written) in [
            ("http://user:pw@example.com:80/a/b?c=d#e", None),
            ("HTTP://example.com", Some("http://example.com")),
            ("/graph?x=1", None),
            ("mailto:a@b", None),
            ("//host/path", None),
            ("http://[::1]:80/", None),
            ("http://[fe80::1%25en0]/", None),
            ("http://a/b c", Some("http://a/b%20c")),
            ("http://ä.example/", None),
            ("", None),
            ("a b", Some("a%20b")),
        ] {
            let url = parse(text).unwrap();
            assert_eq!(url.to_string(), written.unwrap_or(text), "{text}");
        }
    }

    #[test]
    fn refuses_in_gos_words() {
        for (text, words) in [
            ("http://[::1", r#"parse "http://[::1": missing ']' in host"#),
            ("%zz", r#"parse "%zz": invalid URL escape "%zz""#),
            ("%z", r#"parse "%z": invalid URL escape "%z""#),
            (":a", r#"parse ":a": missing protocol scheme"#),
            ("1a:b", r#"parse "1a:b": first path segment in URL cannot contain colon"#),
            ("http://a b/", r#"parse "http://a b/": invalid character " " in host name"#),
            ("http://a:b/", r#"parse "http://a:b/": invalid port ":b" after host"#),
            ("http://a%20b/", r#"parse "http://a%20b/": invalid URL escape "%20""#),
            ("http://u ser@a/", r#"parse "http://u ser@a/": net/url: invalid userinfo"#),
            ("http://a/\n", "parse \"http://a/\\n\": net/url: invalid control character in URL"),
            ("http://a/#%g", r#"parse "http://a/#%g": invalid URL escape "%g""#),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), words, "{text}");
        }
        assert_eq!(check_request("https://example.com/a?b#c"), Ok(()));
        assert_eq!(check_request("example.com").unwrap_err().to_string(), r#"parse "example.com": invalid URI for request"#);
        assert_eq!(check_request("://a").unwrap_err().to_string(), r#"parse "://a": missing protocol scheme"#);
    }

    #[test]
    fn queries_are_kept_and_sorted() {
        let mut query = parse("http://a/?b=2&a=1+x&b=%31&c;d=1&e=%").unwrap().pairs();
        assert_eq!(query["b"], ["2", "1"]);
        query.entry("a".to_owned()).or_default().push("&ä".to_owned());
        assert_eq!(encode_query(&query), "a=1+x&a=%26%C3%A4&b=2&b=1");
    }
}
