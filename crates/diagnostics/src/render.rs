//! Findings as text.
//!
//! On a terminal a finding takes several lines; the faces may colour the leading word of each. In a condition it is one paragraph
//! of bounded length, because status must not grow without limit.

use std::fmt::Write as _;

use crate::finding::{Cause, Finding};

/// The longest message of a condition, as Kubernetes' own condition type has it.
pub const CONDITION_BYTES: usize = 32 * 1024;

/// Chains deeper than this are cut, because people do not read further.
const DEPTH: usize = 16;

impl Finding {
    /// Renders the finding for a terminal: its message, its place, its causes indented, each hint on its own line.
    pub fn to_text(&self) -> String {
        let mut out = format!("{}: {}: {}\n", self.severity, self.subject, self.message);
        if let Some(location) = &self.location {
            let place = location.to_string();
            if !place.is_empty() {
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(out, "  at {place}");
            }
        }
        for cause in &self.causes {
            write_cause(&mut out, cause, 1);
        }
        for hint in &self.hints {
            let _ = writeln!(out, "hint: {}", hint.as_str());
        }
        out
    }

    /// Renders one paragraph for a condition of at most `max_bytes`. If parts are left out, its end names `rest`, the place of the full text.
    pub fn to_condition(&self, max_bytes: usize, rest: &str) -> String {
        let mut out = self.message.clone();
        if let Some(location) = &self.location {
            let place = location.to_string();
            if !place.is_empty() {
                let _ = write!(out, " ({place})");
            }
        }
        let mut first = true;
        for cause in &self.causes {
            out.push_str(if first { ": " } else { "; " });
            first = false;
            chain(&mut out, cause, 1);
        }
        for hint in &self.hints {
            let _ = write!(out, ". Hint: {}", hint.as_str());
        }
        bounded(&out, max_bytes, rest)
    }
}

/// Renders findings for a terminal, the worst first, otherwise in the given order.
pub fn to_text(findings: &[Finding]) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    sorted.into_iter().map(Finding::to_text).collect()
}

/// Returns `text` in at most `max_bytes`, cut between two characters; a cut text ends with the number of missing bytes and names `rest`.
pub fn bounded(text: &str, max_bytes: usize, rest: &str) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    // At most the whole text is left out, so its marker is the longest.
    let marker = |left_out: usize| format!(" ... ({left_out} bytes left out, see {rest})");
    let room = max_bytes.saturating_sub(marker(text.len()).len());
    let kept = &text[..boundary(text, room)];
    if kept.is_empty() {
        return text[..boundary(text, max_bytes)].to_owned();
    }
    format!("{kept}{}", marker(text.len() - kept.len()))
}

/// The last place between two characters at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn write_cause(out: &mut String, cause: &Cause, depth: usize) {
    for (index, line) in cause.message.lines().enumerate() {
        let lead = if index == 0 { "because " } else { "        " };
        let _ = writeln!(out, "{:width$}{lead}{line}", "", width = depth * 2);
    }
    if depth < DEPTH {
        for inner in &cause.causes {
            write_cause(out, inner, depth + 1);
        }
    }
}

fn chain(out: &mut String, cause: &Cause, depth: usize) {
    out.push_str(&cause.message);
    if cause.causes.is_empty() || depth >= DEPTH {
        return;
    }
    out.push_str(": ");
    for (index, inner) in cause.causes.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        chain(out, inner, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::{Location, Severity};

    fn finding() -> Finding {
        Finding::error("catalog-blob", "catalog example", "content not replaced")
            .because(Cause::new("blob 3 is invalid").because("schema is missing"))
            .at(Location::file("alpha/index.yaml").at_line(12).at_field("schema"))
            .hint("run `mainstay opm validate DIR`")
    }

    #[test]
    fn a_terminal_gets_lines() {
        let expected = "error: catalog example: content not replaced\n  at alpha/index.yaml:12, field schema\n  because blob 3 is invalid\n    because schema is missing\nhint: run `mainstay opm validate DIR`\n";
        assert_eq!(finding().to_text(), expected);
        let all = to_text(&[Finding::info("a", "x", "one"), finding(), Finding::warning("b", "x", "two")]);
        assert_eq!(all, format!("{expected}warning: x: two\ninfo: x: one\n"));
    }

    #[test]
    fn a_condition_gets_a_paragraph() {
        assert_eq!(
            finding().to_condition(CONDITION_BYTES, "the log"),
            "content not replaced (alpha/index.yaml:12, field schema): blob 3 is invalid: schema is missing. Hint: run `mainstay opm validate DIR`"
        );
    }

    #[test]
    fn a_condition_is_bounded_between_characters() {
        let long = Finding::error("x", "y", "é".repeat(40_000));
        for max in [0, 1, 10, 50, 51, 52, 1000, CONDITION_BYTES] {
            let text = long.to_condition(max, "`mainstay describe`");
            assert!(text.len() <= max, "{max}: {}", text.len());
        }
        let text = long.to_condition(CONDITION_BYTES, "`mainstay describe`");
        assert!(text.ends_with(" bytes left out, see `mainstay describe`)"), "{text}");
    }

    #[test]
    fn machines_get_json() {
        let value = serde_json::to_value(finding()).unwrap();
        assert_eq!(
            value,
            serde_json::json!({
                "code": "catalog-blob", "severity": "error", "subject": "catalog example", "message": "content not replaced",
                "causes": [{"message": "blob 3 is invalid", "causes": [{"message": "schema is missing"}]}],
                "hints": ["run `mainstay opm validate DIR`"],
                "location": {"file": "alpha/index.yaml", "line": 12, "field": "schema"},
            })
        );
        assert!(Severity::Info < Severity::Error);
    }
}
