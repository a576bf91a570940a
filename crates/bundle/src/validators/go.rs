//! What Go's libraries say of JSON, URLs and mail addresses, as far as validators show it.

use mainstay_schema::field::go_quote;
use serde_json::Value;

/// Words of JSON text that is none: how far Go's scanner came, and what it read.
pub fn check_json(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return Ok(());
    }
    match scan(bytes) {
        Ok(()) => Ok(()),
        Err(offset) => {
            let read = String::from_utf8_lossy(&bytes[..offset.min(bytes.len())]);
            Err(format!("invalid character at {offset}\n {read}<--(see the invalid character)"))
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

/// The number of bytes read when the text stopped being JSON.
fn scan(bytes: &[u8]) -> Result<(), usize> {
    let mut open: Vec<u8> = Vec::new();
    let mut expect = Expect::Value;
    let mut at = 0;
    let after = |open: &[u8]| if open.is_empty() { None } else { Some(Expect::CommaOrEnd) };
    loop {
        while bytes.get(at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            at += 1;
        }
        let Some(&byte) = bytes.get(at) else { return Err(bytes.len()) };
        let refused = Err(at + 1);
        let done = match (expect, byte) {
            (Expect::Value | Expect::ValueOrEnd, b'{' | b'[') => {
                open.push(byte);
                expect = if byte == b'{' { Expect::KeyOrEnd } else { Expect::ValueOrEnd };
                at += 1;
                continue;
            }
            (Expect::ValueOrEnd, b']') | (Expect::KeyOrEnd, b'}') => {
                open.pop();
                at += 1;
                after(&open)
            }
            (Expect::Value | Expect::ValueOrEnd, _) => {
                at = scalar(bytes, at)?;
                after(&open)
            }
            (Expect::Key | Expect::KeyOrEnd, b'"') => {
                at = string(bytes, at)?;
                Some(Expect::Colon)
            }
            (Expect::Colon, b':') => {
                at += 1;
                Some(Expect::Value)
            }
            (Expect::CommaOrEnd, b',') => {
                at += 1;
                Some(if open.last() == Some(&b'{') { Expect::Key } else { Expect::Value })
            }
            (Expect::CommaOrEnd, b'}' | b']') if open.last().is_some_and(|opened| *opened + 2 == byte) => {
                open.pop();
                at += 1;
                after(&open)
            }
            _ => return refused,
        };
        match done {
            Some(next) => expect = next,
            None => {
                let rest = bytes[at..].iter().position(|byte| !b" \t\r\n".contains(byte));
                return rest.map_or(Ok(()), |more| Err(at + more + 1));
            }
        }
    }
}

fn scalar(bytes: &[u8], at: usize) -> Result<usize, usize> {
    match bytes[at] {
        b'"' => string(bytes, at),
        b't' => literal(bytes, at, b"true"),
        b'f' => literal(bytes, at, b"false"),
        b'n' => literal(bytes, at, b"null"),
        b'-' | b'0'..=b'9' => number(bytes, at),
        _ => Err(at + 1),
    }
}

fn literal(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize, usize> {
    match word.iter().zip(&bytes[at..]).position(|(wanted, found)| wanted != found) {
        Some(wrong) => Err(at + wrong + 1),
        None if bytes.len() < at + word.len() => Err(bytes.len()),
        None => Ok(at + word.len()),
    }
}

fn string(bytes: &[u8], start: usize) -> Result<usize, usize> {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => {
                at += 1;
                match bytes.get(at) {
                    Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {}
                    Some(b'u') => {
                        for _ in 0..4 {
                            at += 1;
                            match bytes.get(at) {
                                Some(digit) if digit.is_ascii_hexdigit() => {}
                                Some(_) => return Err(at + 1),
                                None => return Err(bytes.len()),
                            }
                        }
                    }
                    Some(_) => return Err(at + 1),
                    None => return Err(bytes.len()),
                }
            }
            0..0x20 => return Err(at + 1),
            _ => {}
        }
        at += 1;
    }
    Err(bytes.len())
}

fn number(bytes: &[u8], start: usize) -> Result<usize, usize> {
    let digits = |mut at: usize| -> Result<usize, usize> {
        match bytes.get(at) {
            Some(byte) if byte.is_ascii_digit() => {}
            Some(_) => return Err(at + 1),
            None => return Err(bytes.len()),
        }
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        Ok(at)
    };
    let mut at = start + usize::from(bytes[start] == b'-');
    at = if bytes.get(at) == Some(&b'0') { at + 1 } else { digits(at)? };
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        at = digits(at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-'))))?;
    }
    Ok(at)
}

/// The type of a value as Go's decoder calls it.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Why a text is no URL that can be asked for; the words are those of Go's `url.ParseRequestURI`.
pub fn check_url(text: &str) -> Result<(), String> {
    url_problem(text).map_or(Ok(()), |problem| Err(format!("parse {}: {problem}", go_quote(text))))
}

fn url_problem(text: &str) -> Option<String> {
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Some("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() {
        return Some("empty url".to_owned());
    }
    if text == "*" {
        return None;
    }
    let scheme_end = text.bytes().position(|byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)));
    let scheme = match scheme_end.map(|end| (end, text.as_bytes()[end])) {
        Some((0, b':')) => return Some("missing protocol scheme".to_owned()),
        Some((end, b':')) if text.as_bytes()[0].is_ascii_alphabetic() => &text[..end],
        _ => "",
    };
    let rest = if scheme.is_empty() { text } else { &text[scheme.len() + 1..] };
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    if !rest.starts_with('/') {
        return scheme.is_empty().then(|| "invalid URI for request".to_owned());
    }
    let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(after) => {
            let end = after.find('/').unwrap_or(after.len());
            if let Some(problem) = authority_problem(&after[..end]) {
                return Some(problem);
            }
            &after[end..]
        }
        None => rest,
    };
    escape_problem(path)
}

fn authority_problem(authority: &str) -> Option<String> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            if !user.bytes().all(plain) {
                return Some("net/url: invalid userinfo".to_owned());
            }
            host
        }
        None => authority,
    };
    let after_brackets = host.rsplit_once(']').map(|(_, rest)| rest);
    if host.starts_with('[') && after_brackets.is_none() {
        return Some("missing ']' in host".to_owned());
    }
    let port = match after_brackets {
        Some(rest) => rest,
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let digits = port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !port.is_empty() && !digits {
        return Some(format!("invalid port {} after host", go_quote(port)));
    }
    let allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    host.chars().find(|c| !allowed(*c)).map(|c| format!("invalid character {} in host name", go_quote(&c.to_string())))
}

fn escape_problem(path: &str) -> Option<String> {
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            if !digits {
                let shown = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]);
                return Some(format!("invalid URL escape {}", go_quote(&shown)));
            }
            at += 2;
        }
        at += 1;
    }
    None
}

/// Why a text is no mail address; the words are those of Go's `mail.ParseAddress`.
pub fn check_mail(text: &str) -> Result<(), String> {
    let text = text.trim_start_matches([' ', '\t']);
    if text.is_empty() {
        return Err("mail: no address".to_owned());
    }
    if let Ok(rest) = address(text) {
        return ended(rest);
    }
    let (name, rest) = if text.starts_with('<') { (String::new(), text) } else { phrase(text)? };
    let rest = rest.trim_start_matches([' ', '\t']);
    let Some(inner) = rest.strip_prefix('<') else {
        let plain = name.chars().all(|c| c == '.' || is_atom(c));
        return Err(if plain { "mail: missing '@' or angle-addr" } else { "mail: no angle-addr" }.to_owned());
    };
    let rest = address(inner)?;
    ended(rest.strip_prefix('>').ok_or("mail: unclosed angle-addr")?)
}

fn ended(rest: &str) -> Result<(), String> {
    let mut rest = rest.trim_start_matches([' ', '\t']);
    if let Some(comment) = rest.strip_prefix('(') {
        rest = comment.split_once(')').ok_or("mail: misformatted parenthetical comment")?.1.trim_start_matches([' ', '\t']);
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("mail: expected single address, got {}", go_quote(rest))) }
}

fn is_atom(c: char) -> bool {
    !c.is_ascii() || (c.is_ascii_graphic() && !"()<>[]:;@\\,\".".contains(c))
}

/// `local@domain` at the beginning; what follows it.
fn address(text: &str) -> Result<&str, String> {
    if text.is_empty() {
        return Err("mail: no addr-spec".to_owned());
    }
    let rest = if text.starts_with('"') { quoted(text)?.1 } else { atom(text)?.1 };
    let rest = rest.strip_prefix('@').ok_or("mail: missing @ in addr-spec")?.trim_start_matches([' ', '\t']);
    if rest.is_empty() {
        return Err("mail: no domain in addr-spec".to_owned());
    }
    if let Some(literal) = rest.strip_prefix('[') {
        return Ok(literal.split_once(']').ok_or("mail: unclosed domain-literal")?.1);
    }
    Ok(atom(rest)?.1)
}

fn atom(text: &str) -> Result<(&str, &str), String> {
    let end = text.find(|c: char| c != '.' && !is_atom(c)).unwrap_or(text.len());
    let (atom, rest) = text.split_at(end);
    let problem = if atom.is_empty() {
        "mail: invalid string"
    } else if atom.starts_with('.') {
        "mail: leading dot in atom"
    } else if atom.contains("..") {
        "mail: double dot in atom"
    } else if atom.ends_with('.') {
        "mail: trailing dot in atom"
    } else {
        return Ok((atom, rest));
    };
    Err(problem.to_owned())
}

fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Ok((text[1..at].replace('\\', ""), &text[at + 1..])),
            _ => {}
        }
    }
    Err("mail: unclosed quoted-string".to_owned())
}

/// Words before an angle: a display name.
fn phrase(text: &str) -> Result<(String, &str), String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        if rest.is_empty() || rest.starts_with('<') && !words.is_empty() {
            break;
        }
        let word = if rest.starts_with('"') {
            quoted(rest)
        } else {
            // A display name may have dots anywhere.
            let end = rest.find(|c: char| c != '.' && !is_atom(c)).unwrap_or(rest.len());
            if end == 0 { Err("mail: invalid string".to_owned()) } else { Ok((rest[..end].to_owned(), &rest[end..])) }
        };
        match word {
            Ok((word, after)) => {
                words.push(word);
                rest = after;
            }
            Err(problem) if words.is_empty() => return Err(format!("mail: missing word in phrase: {problem}")),
            Err(_) => break,
        }
    }
    Ok((words.join(" "), rest))
}

/// Texts as Go's `%+q` writes a list of them.
pub fn quoted_list<S: AsRef<str>>(items: &[S]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| ascii_quote(item.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

/// A text in quotes, ASCII only.
fn ascii_quote(text: &str) -> String {
    let mut out = String::new();
    for c in go_quote(text).chars() {
        match u32::from(c) {
            code if c.is_ascii() => out.push(char::from(u8::try_from(code).unwrap_or(b'?'))),
            code if code < 0x1_0000 => out.push_str(&format!("\\u{code:04x}")),
            code => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_as_far_as_go_reads_it() {
        for good in ["[]", " {\"a\": [1, -0.5e+3, true, null, \"\\u00e4\"]} ", "\"x\"", "0", ""] {
            assert_eq!(check_json(good), Ok(()), "{good}");
        }
        for (bad, offset) in [
            ("{]", 2),
            ("[1,]", 4),
            ("[01]", 3),
            ("nul", 3),
            ("nulx", 4),
            ("[1] x", 5),
            ("{\"a\" 1}", 6),
            ("\"\\x\"", 3),
            ("[", 1),
            ("-", 1),
            ("[1}", 3),
        ] {
            assert_eq!(scan(bad.as_bytes()), Err(offset), "{bad}");
        }
    }

    #[test]
    fn urls_and_addresses() {
        assert_eq!(check_url("https://example.com/a?b#c"), Ok(()));
        assert_eq!(check_url("mailto:a@b"), Ok(()));
        for (bad, problem) in [
            ("example.com", "parse \"example.com\": invalid URI for request"),
            ("https://a b", "parse \"https://a b\": invalid character \" \" in host name"),
            ("https://a:x/", "parse \"https://a:x/\": invalid port \":x\" after host"),
            ("https://a/%zz", "parse \"https://a/%zz\": invalid URL escape \"%zz\""),
            ("://a", "parse \"://a\": missing protocol scheme"),
        ] {
            assert_eq!(check_url(bad), Err(problem.to_owned()));
        }
        for good in ["a@b.c", "Full Name <a@b.c>", "\"q x\" <a@b>", " a@b.c (home)"] {
            assert_eq!(check_mail(good), Ok(()), "{good}");
        }
        for (bad, problem) in [
            ("abc", "mail: missing '@' or angle-addr"),
            ("a b", "mail: no angle-addr"),
            ("a@", "mail: missing '@' or angle-addr"),
            ("a@b.c, d@e.f", "mail: expected single address, got \", d@e.f\""),
            ("@b", "mail: missing word in phrase: mail: invalid string"),
            ("N <a@b", "mail: unclosed angle-addr"),
        ] {
            assert_eq!(check_mail(bad), Err(problem.to_owned()));
        }
    }
}
