//! The messages of Go's libraries about URLs and mail addresses, for validators.

use mainstay_golang::quote;

/// Why a text is no URL or mail address, in the words of Go's libraries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

/// Checks that a text is a URL that can be requested; the words are those of Go's `url.ParseRequestURI`.
pub fn check_url(text: &str) -> Result<(), Malformed> {
    url_problem(text).map_or(Ok(()), |problem| Err(Malformed(format!("parse {}: {problem}", quote(text)))))
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
        return Some(format!("invalid port {} after host", quote(port)));
    }
    let allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    host.chars().find(|c| !allowed(*c)).map(|c| format!("invalid character {} in host name", quote(&c.to_string())))
}

fn escape_problem(path: &str) -> Option<String> {
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            if !digits {
                let shown = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]);
                return Some(format!("invalid URL escape {}", quote(&shown)));
            }
            at += 2;
        }
        at += 1;
    }
    None
}

/// Checks that a text is a mail address; the words are those of Go's `mail.ParseAddress`.
pub fn check_mail(text: &str) -> Result<(), Malformed> {
    let text = text.trim_start_matches([' ', '\t']);
    if text.is_empty() {
        return Err(Malformed("mail: no address".to_owned()));
    }
    if let Ok(rest) = address(text) {
        return ended(rest);
    }
    let (name, rest) = if text.starts_with('<') { (String::new(), text) } else { phrase(text)? };
    let rest = rest.trim_start_matches([' ', '\t']);
    let Some(inner) = rest.strip_prefix('<') else {
        let plain = name.chars().all(|c| c == '.' || is_atom(c));
        return Err(Malformed(if plain { "mail: missing '@' or angle-addr" } else { "mail: no angle-addr" }.to_owned()));
    };
    let rest = address(inner)?;
    ended(rest.strip_prefix('>').ok_or_else(|| Malformed("mail: unclosed angle-addr".to_owned()))?)
}

fn ended(rest: &str) -> Result<(), Malformed> {
    let mut rest = rest.trim_start_matches([' ', '\t']);
    if let Some(comment) = rest.strip_prefix('(') {
        rest = comment
            .split_once(')')
            .ok_or_else(|| Malformed("mail: misformatted parenthetical comment".to_owned()))?
            .1
            .trim_start_matches([' ', '\t']);
    }
    if rest.is_empty() { Ok(()) } else { Err(Malformed(format!("mail: expected single address, got {}", quote(rest)))) }
}

fn is_atom(c: char) -> bool {
    !c.is_ascii() || (c.is_ascii_graphic() && !"()<>[]:;@\\,\".".contains(c))
}

/// Reads `local@domain` at the beginning, and returns the rest.
fn address(text: &str) -> Result<&str, Malformed> {
    if text.is_empty() {
        return Err(Malformed("mail: no addr-spec".to_owned()));
    }
    let rest = if text.starts_with('"') { quoted(text)?.1 } else { atom(text)?.1 };
    let rest = rest.strip_prefix('@').ok_or_else(|| Malformed("mail: missing @ in addr-spec".to_owned()))?.trim_start_matches([' ', '\t']);
    if rest.is_empty() {
        return Err(Malformed("mail: no domain in addr-spec".to_owned()));
    }
    if let Some(literal) = rest.strip_prefix('[') {
        return Ok(literal.split_once(']').ok_or_else(|| Malformed("mail: unclosed domain-literal".to_owned()))?.1);
    }
    Ok(atom(rest)?.1)
}

fn atom(text: &str) -> Result<(&str, &str), Malformed> {
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
    Err(Malformed(problem.to_owned()))
}

fn quoted(text: &str) -> Result<(String, &str), Malformed> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Ok((text[1..at].replace('\\', ""), &text[at + 1..])),
            _ => {}
        }
    }
    Err(Malformed("mail: unclosed quoted-string".to_owned()))
}

/// Words before an angle: a display name.
fn phrase(text: &str) -> Result<(String, &str), Malformed> {
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
            if end == 0 { Err(Malformed("mail: invalid string".to_owned())) } else { Ok((rest[..end].to_owned(), &rest[end..])) }
        };
        match word {
            Ok((word, after)) => {
                words.push(word);
                rest = after;
            }
            Err(problem) if words.is_empty() => return Err(Malformed(format!("mail: missing word in phrase: {problem}"))),
            Err(_) => break,
        }
    }
    Ok((words.join(" "), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(check_url(bad), Err(Malformed(problem.to_owned())));
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
            assert_eq!(check_mail(bad), Err(Malformed(problem.to_owned())));
        }
    }
}
