//! Checks of an icon against its media type, and of its size.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Rule;
use crate::model::Icon;

/// Size from which an icon is large, in bytes.
const LARGE: usize = 100_000;

/// The problem of an icon, with its rule.
pub(super) fn problem(icon: &Icon) -> Option<(Rule, String)> {
    if icon.base64data.trim().is_empty() {
        return Some((Rule::IconBroken, "the icon has no data".to_owned()));
    }
    // Consoles put the text into a data URL, in which browsers allow white space.
    let text: String = icon.base64data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let bytes = match STANDARD.decode(&text) {
        Ok(bytes) => bytes,
        Err(error) => return Some((Rule::IconBroken, format!("the icon is not base64: {error}"))),
    };
    let said = icon.mediatype.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some(is) = media_type(&bytes) else {
        return Some((Rule::IconBroken, format!("the icon is said to be {said:?} and is no picture that browsers know")));
    };
    if is != said && !(is == "image/jpeg" && said == "image/jpg") {
        return Some((Rule::IconMediaType, format!("the icon is {is}, its media type says {:?}", icon.mediatype)));
    }
    (bytes.len() > LARGE).then(|| (Rule::IconLarge, format!("the icon has {} kB", bytes.len() / 1000)))
}

/// The media type of a picture according to its first bytes.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let starts = |prefix: &[u8]| bytes.starts_with(prefix);
    if starts(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if starts(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if starts(b"GIF8") {
        Some("image/gif")
    } else if starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else if starts(b"BM") {
        Some("image/bmp")
    } else if starts(b"\0\0\x01\0") {
        Some("image/x-icon")
    } else if bytes.get(4..12).is_some_and(|brand| brand == b"ftypavif") {
        Some("image/avif")
    } else {
        is_svg(bytes).then_some("image/svg+xml")
    }
}

/// Returns true if the first element of an XML text is `svg`.
fn is_svg(bytes: &[u8]) -> bool {
    const PROLOGUE: usize = 64 * 1024;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(PROLOGUE)]);
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    while let Some(inside) = rest.strip_prefix('<') {
        let end = if inside.starts_with("!--") {
            inside.find("-->").map(|at| at + 3)
        } else if inside.starts_with('?') {
            inside.find("?>").map(|at| at + 2)
        } else if inside.starts_with("!DOCTYPE") {
            // An internal subset stands between brackets.
            match (inside.find('['), inside.find('>')) {
                (Some(open), Some(close)) if open < close => inside.find("]>").map(|at| at + 2),
                (_, close) => close.map(|at| at + 1),
            }
        } else {
            let name: String = inside.chars().take_while(|c| !c.is_whitespace() && !matches!(c, '>' | '/')).collect();
            return name == "svg" || name.ends_with(":svg");
        };
        let Some(end) = end else { return false };
        rest = inside[end..].trim_start();
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn check(mediatype: &str, content: &[u8], expected: Option<Rule>) {
        let icon = Icon { base64data: STANDARD.encode(content), mediatype: mediatype.to_owned() };
        assert_eq!(problem(&icon).map(|(rule, _)| rule), expected, "{mediatype} {content:?}");
    }

    /// CATLG-14, CATLG-25: icons are not validated; lint looks at their content.
    #[test]
    fn icons() {
        check("image/png", b"\x89PNG\r\n\x1a\nrest", None);
        check("image/svg+xml", b"<svg xmlns='x'/>", None);
        check("image/svg+xml", b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- a > b -->\n<!DOCTYPE svg PUBLIC '-//W3C' 'x'>\n<svg>", None);
        check("image/svg+xml", b"<!DOCTYPE svg [ <!ENTITY a '>'> ]><svg>", None);
        check("image/svg+xml; charset=utf-8", b"<svg>", None);
        check("image/jpg", b"\xff\xd8\xff\xe0", None);
        check("image/png", b"<svg/>", Some(Rule::IconMediaType));
        check("", b"\x89PNG\r\n\x1a\n", Some(Rule::IconMediaType));
        check("image/png", b"hello", Some(Rule::IconBroken));
        check("image/png", b"", Some(Rule::IconBroken));
        check("image/svg+xml", b"<html><svg/></html>", Some(Rule::IconBroken));
        let large = [b"\x89PNG\r\n\x1a\n".to_vec(), vec![0; LARGE]].concat();
        check("image/png", &large, Some(Rule::IconLarge));
        let icon = Icon { base64data: "not base64!".to_owned(), mediatype: "image/png".to_owned() };
        assert_eq!(problem(&icon).map(|(rule, _)| rule), Some(Rule::IconBroken));
    }
}
