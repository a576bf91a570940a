//! Text for conditions.

/// Maximum length of a condition's message, in bytes (MS-EXPL-06).
const LIMIT: usize = 32_768;

/// Maximum length of an event's note, in bytes.
const NOTE: usize = 1_024;

/// The text, cut if a condition cannot hold it, followed by the command that shows all of it.
pub fn bounded(text: &str, whole: &str) -> String {
    within(LIMIT, text, whole)
}

/// The text, cut if an event cannot hold it, followed by the command that shows all of it.
pub fn noted(text: &str, whole: &str) -> String {
    within(NOTE, text, whole)
}

fn within(limit: usize, text: &str, whole: &str) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = format!("\n... ({} bytes in all; the whole text: {whole})", text.len());
    let mut cut = limit.saturating_sub(end.len());
    while !text.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{end}", &text[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-EXPL-06: no message is larger than a condition holds.
    #[test]
    fn long_texts_are_cut_at_a_character() {
        let text = "ä".repeat(20_000);
        let cut = bounded(&text, "mainstay explain widgets");
        assert!(cut.len() <= LIMIT && cut.ends_with("(40000 bytes in all; the whole text: mainstay explain widgets)"));
        assert_eq!(bounded("short", ""), "short");
        let cut = noted(&text, "mainstay explain widgets");
        assert!(cut.len() <= NOTE && cut.ends_with("mainstay explain widgets)"));
    }
}
