//! Image references made from the names in a bundle: `quay.io/team/{{.Package}}:v{{.Version}}`.
//!
//! The notation is a subset of Go's templates that is enough for a reference: the three fields, blanks inside of the braces, `{{-` and `-}}`
//! that remove blanks beside them, comments. Anything else (functions, conditions) is refused by name.

/// A template for image references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageTemplate {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Package,
    Name,
    Version,
}

/// A template that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid image reference template: {problem}")]
pub struct InvalidTemplate {
    problem: String,
}

impl ImageTemplate {
    /// Parses a template.
    pub fn parse(pattern: &str) -> Result<Self, InvalidTemplate> {
        let refuse = |problem: String| InvalidTemplate { problem };
        let mut parts = Vec::new();
        let mut rest = pattern;
        let mut trim_start = false;
        loop {
            let (mut text, action) = match rest.split_once("{{") {
                Some((text, after)) => (text, Some(after)),
                None => (rest, None),
            };
            if std::mem::take(&mut trim_start) {
                text = text.trim_start();
            }
            if action.is_some_and(|after| after.starts_with('-') && after[1..].starts_with(char::is_whitespace)) {
                text = text.trim_end();
            }
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
            let Some(after) = action else { return Ok(Self { parts }) };
            let Some((inside, next)) = after.split_once("}}") else { return Err(refuse("unclosed action".to_owned())) };
            let mut inside = inside;
            if let Some(trimmed) = inside.strip_suffix('-').filter(|text| text.ends_with(char::is_whitespace)) {
                inside = trimmed;
                trim_start = true;
            }
            inside = inside.strip_prefix('-').filter(|text| text.starts_with(char::is_whitespace)).unwrap_or(inside);
            match inside.trim() {
                ".Package" => parts.push(Part::Package),
                ".Name" => parts.push(Part::Name),
                ".Version" => parts.push(Part::Version),
                "" => return Err(refuse("missing value for command".to_owned())),
                comment if comment.starts_with("/*") && comment.ends_with("*/") => {}
                other => {
                    return Err(refuse(format!("{{{{{other}}}}} is none of {{{{.Package}}}}, {{{{.Name}}}} and {{{{.Version}}}}")));
                }
            }
            rest = next;
        }
    }

    /// Returns the image reference of a bundle.
    pub fn apply(&self, package: &str, name: &str, version: &str) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Package => package.to_owned(),
            Part::Name => name.to_owned(),
            Part::Version => version.to_owned(),
        };
        self.parts.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// CATLG-32: image references of bundles that have none yet.
    #[test]
    fn patterns() {
        let apply = |pattern: &str| ImageTemplate::parse(pattern).map(|template| template.apply("app", "app.v1.0.0", "1.0.0"));
        for (pattern, expected) in [
            ("quay.io/team/{{.Package}}-bundle:v{{.Version}}", "quay.io/team/app-bundle:v1.0.0"),
            ("{{ .Name }}", "app.v1.0.0"),
            ("a {{- .Name -}} b", "aapp.v1.0.0b"),
            ("a{{/* nothing */}}b", "ab"),
            ("plain", "plain"),
            ("", ""),
        ] {
            assert_eq!(apply(pattern).unwrap(), expected, "{pattern}");
        }
        for pattern in ["{{.Package", "{{}}", "{{.Channel}}", "{{if .Name}}x{{end}}", "{{printf .Name}}"] {
            assert!(apply(pattern).is_err(), "{pattern}");
        }
    }
}
