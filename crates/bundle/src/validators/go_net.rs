//! The messages of Go's library about mail addresses, for validators.

use mainstay_golang::quote;

/// Why a text is no mail address, in the words of Go's library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

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
    fn addresses() {
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
