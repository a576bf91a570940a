//! The operator's own manifests are templates (CVO-REL-05): two values, and quoted text for the templates of other programs.

/// The values of a template.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// `{{.ReleaseImage}}`: the release's pull spec.
    pub release_image: &'a str,
    /// `{{.ClusterProfile}}`.
    pub cluster_profile: &'a str,
}

/// A template that cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TemplateError {
    /// The line of the action, counted from 1.
    pub line: usize,
    /// The problem.
    pub problem: TemplateProblem,
}

/// The mistake in an action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateProblem {
    /// It has no end.
    #[error("a template action has no }}}}")]
    Open,
    /// It names a value that there is not.
    #[error("the template has no value .{0}; known are .ReleaseImage and .ClusterProfile")]
    Unknown(String),
    /// It is more than a value or a text.
    #[error("the template action {0:?} is neither a value nor a quoted text")]
    Action(String),
}

/// Returns the text with its actions replaced.
pub fn render(text: &str, values: Values<'_>) -> Result<String, TemplateError> {
    let mut out = String::with_capacity(text.len() + 256);
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let at = text.len() - rest.len() + start;
        let fail = |problem| TemplateError { line: 1 + text[..at].matches('\n').count(), problem };
        out.push_str(&rest[..start]);
        let mut inner = &rest[start + 2..];
        if let Some(trimmed) = inner.strip_prefix('-').filter(|after| after.starts_with(is_blank)) {
            out.truncate(out.trim_end_matches(is_blank).len());
            inner = trimmed;
        }
        let action = inner.trim_start_matches(is_blank);
        let (value, after) = match action.chars().next() {
            Some('"' | '`') => quoted(action).ok_or_else(|| fail(TemplateProblem::Open))?,
            Some('.') => {
                let end = action[1..].find(|letter: char| !letter.is_alphanumeric() && letter != '_').map_or(action.len(), |end| end + 1);
                let value = match &action[1..end] {
                    "ReleaseImage" => values.release_image,
                    "ClusterProfile" => values.cluster_profile,
                    other => return Err(fail(TemplateProblem::Unknown(other.to_owned()))),
                };
                (value.to_owned(), &action[end..])
            }
            _ => return Err(fail(TemplateProblem::Action(shown(action)))),
        };
        out.push_str(&value);
        let close = after.trim_start_matches(is_blank);
        if let Some(next) = close.strip_prefix("}}") {
            rest = next;
        } else if let Some(next) = close.strip_prefix("-}}").filter(|_| close.len() < after.len()) {
            rest = next.trim_start_matches(is_blank);
        } else {
            return Err(fail(if action.contains("}}") { TemplateProblem::Action(shown(action)) } else { TemplateProblem::Open }));
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n')
}

/// The action up to its end, cut for a message.
fn shown(action: &str) -> String {
    action.split("}}").next().unwrap_or_default().trim().chars().take(60).collect()
}

/// A Go text constant at the beginning, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    if let Some(raw) = text.strip_prefix('`') {
        return raw.split_once('`').map(|(value, after)| (value.to_owned(), after));
    }
    let mut escaped = false;
    let end = text.char_indices().skip(1).find_map(|(at, letter)| {
        let closes = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        closes.then_some(at)
    })?;
    // Texts of manifests have no escapes that JSON lacks.
    let value = serde_json::from_str(&text[..=end]).ok()?;
    Some((value, &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVO-REL-05: values and quoted texts, with Go's blanks and trims.
    #[test]
    fn templates() {
        let values = Values { release_image: "r.test/a@sha256:1", cluster_profile: "hosted" };
        for (text, expected) in [
            ("plain } { text", Ok("plain } { text")),
            ("image: '{{.ReleaseImage}}' p: {{ .ClusterProfile }}", Ok("image: 'r.test/a@sha256:1' p: hosted")),
            (r#"{{ "{{ if eq $labels.name \"version\" }}" }}x{{"{{ end }}"}}"#, Ok(r#"{{ if eq $labels.name "version" }}x{{ end }}"#)),
            ("{{`{{ a }}`}}", Ok("{{ a }}")),
            ("a  {{- .ClusterProfile -}}  b", Ok("ahostedb")),
            ("a\n{{ .Images }}", Err("line 2: the template has no value .Images; known are .ReleaseImage and .ClusterProfile")),
            ("{{ if .ReleaseImage }}", Err("line 1: the template action \"if .ReleaseImage\" is neither a value nor a quoted text")),
            (
                "{{ .ReleaseImage | quote }}",
                Err("line 1: the template action \".ReleaseImage | quote\" is neither a value nor a quoted text"),
            ),
            ("{{ .ReleaseImage", Err("line 1: a template action has no }}")),
            ("{{ \"a", Err("line 1: a template action has no }}")),
        ] {
            let rendered = render(text, values).map_err(|error| error.to_string());
            assert_eq!(rendered.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
