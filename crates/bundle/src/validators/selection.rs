//! Label selectors, as `--select-optional` takes them.

use std::collections::BTreeMap;

/// A selector, all of whose requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

/// The error of a text that is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse requirement: {0}")]
pub struct SelectionError(String);

impl Selection {
    /// Reads `name=a,suite in (b, c),!d`; an empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, SelectionError> {
        let requirements = split(text)?.into_iter().filter(|part| !part.is_empty()).map(requirement).collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }

    /// Returns whether the labels match.
    pub fn matches(&self, labels: &BTreeMap<&str, &str>) -> bool {
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => labels.contains_key(key.as_str()),
            Requirement::Absent(key) => !labels.contains_key(key.as_str()),
            Requirement::In(key, values) => labels.get(key.as_str()).is_some_and(|value| values.iter().any(|wanted| wanted == value)),
            Requirement::NotIn(key, values) => labels.get(key.as_str()).is_none_or(|value| values.iter().all(|wanted| wanted != value)),
        })
    }
}

/// The parts between commas that stand outside parentheses.
fn split(text: &str) -> Result<Vec<&str>, SelectionError> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        if !(0..=1).contains(&depth) {
            return Err(SelectionError(format!("parentheses do not match in {text:?}")));
        }
    }
    if depth != 0 {
        return Err(SelectionError(format!("parentheses do not match in {text:?}")));
    }
    parts.push(text[start..].trim());
    Ok(parts)
}

fn requirement(part: &str) -> Result<Requirement, SelectionError> {
    let value = |text: &str| vec![text.trim().trim_matches(['"', '\'']).to_owned()];
    let set = |text: &str| {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').flat_map(value).collect::<Vec<_>>())
    };
    let bad = || SelectionError(format!("{part:?} is no requirement such as name=NAME, suite in (A, B) or !KEY"));
    let parsed = if let Some(key) = part.strip_prefix('!') {
        Requirement::Absent(key.trim().to_owned())
    } else if let Some((key, text)) = part.split_once("!=") {
        Requirement::NotIn(key.trim().to_owned(), value(text))
    } else if let Some((key, text)) = part.split_once("==").or_else(|| part.split_once('=')) {
        Requirement::In(key.trim().to_owned(), value(text))
    } else if let Some((key, text)) = part.split_once(" notin ") {
        Requirement::NotIn(key.trim().to_owned(), set(text).ok_or_else(bad)?)
    } else if let Some((key, text)) = part.split_once(" in ") {
        Requirement::In(key.trim().to_owned(), set(text).ok_or_else(bad)?)
    } else {
        Requirement::Exists(part.to_owned())
    };
    let key = match &parsed {
        Requirement::Exists(key) | Requirement::Absent(key) | Requirement::In(key, _) | Requirement::NotIn(key, _) => key,
    };
    if key.is_empty() || key.contains(|c: char| c.is_whitespace() || "()!=,".contains(c)) { Err(bad()) } else { Ok(parsed) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn selectors() {
        let labels = BTreeMap::from([("name", "good-practices"), ("suite", "operatorframework")]);
        for (text, expected) in [
            ("", true),
            ("name=good-practices", true),
            ("name==good-practices,suite", true),
            ("suite in (a, operatorframework)", true),
            ("suite notin (operatorframework)", false),
            ("!suite", false),
            ("name!=x", true),
            ("name=x", false),
        ] {
            assert_eq!(Selection::parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        for bad in ["name in a", "(", "a b", "=x", "name in (a"] {
            assert!(Selection::parse(bad).is_err(), "{bad}");
        }
    }
}
