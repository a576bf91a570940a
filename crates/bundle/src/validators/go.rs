//! The messages of Go's libraries about JSON, and their form of lists, for validators.

use mainstay_golang::quote_ascii;

/// The byte at which Go's scanner stops reading a text as JSON, and the text up to there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidJson(String);

/// Checks that a text is JSON or empty; the error has the byte at which Go's scanner stopped, and the text up to there.
pub fn check_json(text: &str) -> Result<(), InvalidJson> {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return Ok(());
    }
    match scan(bytes) {
        Ok(()) => Ok(()),
        Err(offset) => {
            let read = String::from_utf8_lossy(&bytes[..offset.min(bytes.len())]);
            Err(InvalidJson(format!("invalid character at {offset}\n {read}<--(see the invalid character)")))
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
        let Some(next) = done else {
            let rest = bytes[at..].iter().position(|byte| !b" \t\r\n".contains(byte));
            return rest.map_or(Ok(()), |more| Err(at + more + 1));
        };
        expect = next;
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

/// Returns texts as Go's `%+q` writes a list of them.
pub fn quoted_list<S: AsRef<str>>(items: &[S]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| quote_ascii(item.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
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
}
