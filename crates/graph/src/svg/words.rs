//! Text in a page: its approximate width, and its escaping.

use std::borrow::Cow;

/// The width of a text in a common sans-serif face. Faces differ by some per cent; boxes leave room for that.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let letter = |letter: char| match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' => 0.31,
        'f' | 't' | 'r' | '-' | '(' | ')' | '[' | ']' | '/' | ' ' => 0.38,
        'm' | 'w' | 'M' | 'W' | '@' => 0.92,
        '<' | '>' | '=' | '+' | '~' => 0.78,
        'A'..='Z' | '&' => 0.69,
        '0'..='9' => 0.63,
        '\u{0}'..='\u{2ff}' => 0.59,
        // Letters of other scripts may be as wide as high.
        _ => 1.0,
    };
    text.chars().map(letter).sum::<f64>() * size
}

/// The text, cut in its middle when it is wider than `most`: names differ at both ends.
pub(super) fn shorten(text: &str, most: f64, size: f64) -> Cow<'_, str> {
    if width(text, size) <= most {
        return Cow::Borrowed(text);
    }
    let letters: Vec<char> = text.chars().collect();
    let mut keep = letters.len();
    loop {
        keep -= 1;
        let (head, tail) = (keep.div_ceil(2), keep / 2);
        let cut: String = letters[..head].iter().chain(&['\u{2026}']).chain(&letters[letters.len() - tail..]).collect();
        if keep == 0 || width(&cut, size) <= most {
            return Cow::Owned(cut);
        }
    }
}

/// The text in lines of at most this width, broken between words.
pub(super) fn wrap(text: &str, most: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shorten(word, most, size).into_owned()),
        }
    }
    lines
}

/// Escapes the text for XML. Characters that XML cannot hold are left out.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {}
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-EXPL-03: text stays text, whatever a catalog calls its bundles.
    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b>&\"c'\u{0}\u{1b}\u{fffe}"), "a&lt;b&gt;&amp;&quot;c&#39;");
    }

    /// MS-EXPL-03: notes are broken between words, and no word is lost.
    #[test]
    fn notes_are_wrapped() {
        let text = "way to the head: 1.0.0 \u{2192} 1.1.0 \u{2192} 1.2.0";
        let lines = wrap(text, 120.0, 12.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| width(line, 12.0) <= 120.0), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert!(wrap(" ", 10.0, 12.0).is_empty());
    }

    /// MS-EXPL-03: what is too long loses its middle.
    #[test]
    fn long_text_loses_its_middle() {
        let short = shorten("strimzi-cluster-operator.v0.45.0", 100.0, 11.0);
        assert!(short.starts_with("strim") && short.ends_with("5.0") && short.contains('\u{2026}'), "{short}");
        assert!(width(&short, 11.0) <= 100.0);
        assert_eq!(shorten("v1", 100.0, 11.0), "v1");
        assert_eq!(shorten("abc", 0.0, 11.0), "\u{2026}");
    }
}
