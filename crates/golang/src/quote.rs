//! Texts in double quotes, as `fmt` writes them for `%q` and `%+q`.

use std::fmt::Write as _;

/// Returns a text as `%q` writes it.
pub fn quote(text: &str) -> String {
    quoted(text, is_print)
}

/// Returns a text as `%+q` writes it, with characters outside ASCII escaped.
pub fn quote_ascii(text: &str) -> String {
    quoted(text, |letter| letter.is_ascii() && is_print(letter))
}

/// Returns a list of texts as `%q` writes it: `["a" "b"]`.
pub fn quoted_list<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    let quoted: Vec<String> = items.into_iter().map(|item| quote(item.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

fn quoted(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            letter if stays(letter) => out.push(letter),
            letter => escape(&mut out, letter),
        }
    }
    out.push('"');
    out
}

fn escape(out: &mut String, letter: char) {
    let code = u32::from(letter);
    // Writing to a text cannot fail.
    let _written = match code {
        0..0x80 => write!(out, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Returns whether Go counts a letter as printable: letters, marks, numbers, punctuation, symbols, and of all blanks the one of ASCII.
///
/// Go 1.26 gives the same answer for every code point except those that Unicode has assigned since its tables (15.0) were made.
fn is_print(letter: char) -> bool {
    if letter.is_ascii() {
        return !letter.is_ascii_control();
    }
    // Rust's own escaping uses the same categories of Unicode, except that it also escapes a mark at the beginning of a text.
    let mut text = [b' '; 5];
    let length = 1 + letter.encode_utf8(&mut text[1..]).len();
    // A blank and an encoded letter are UTF-8.
    std::str::from_utf8(&text[..length]).is_ok_and(|text| text.escape_debug().nth(1) == Some(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CATLG-23: names in messages are quoted as Go 1.26 quoted these.
    #[test]
    fn as_go_quotes() {
        let cases = [
            ("a \"b\" \\", r#""a \"b\" \\""#, r#""a \"b\" \\""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#, r#""\a\b\f\n\r\t\v""#),
            ("\0\u{1}\u{1f}\u{7f}", r#""\x00\x01\x1f\x7f""#, r#""\x00\x01\x1f\x7f""#),
            ("\u{80}\u{85}\u{9f}", r#""\u0080\u0085\u009f""#, r#""\u0080\u0085\u009f""#),
            (
                "\u{a0}\u{ad}\u{200b}\u{2028}\u{3000}\u{feff}",
                r#""\u00a0\u00ad\u200b\u2028\u3000\ufeff""#,
                r#""\u00a0\u00ad\u200b\u2028\u3000\ufeff""#,
            ),
            ("ä–é\u{301}日", "\"ä–é\u{301}日\"", r#""\u00e4\u2013\u00e9\u0301\u65e5""#),
            ("\u{301}", "\"\u{301}\"", r#""\u0301""#),
            ("😀\u{e000}\u{e0001}\u{10ffff}", r#""😀\ue000\U000e0001\U0010ffff""#, r#""\U0001f600\ue000\U000e0001\U0010ffff""#),
            ("<'&'>\u{fffd}", "\"<'&'>\u{fffd}\"", r#""<'&'>\ufffd""#),
        ];
        for (text, quoted, ascii) in cases {
            assert_eq!((quote(text).as_str(), quote_ascii(text).as_str()), (quoted, ascii), "{text:?}");
        }
        assert_eq!(quoted_list(["a", "\""]), r#"["a" "\""]"#);
        assert_eq!(quoted_list(Vec::<String>::new()), "[]");
    }
}
