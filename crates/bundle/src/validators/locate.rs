//! The line of a field in a YAML file, found by indentation.
//!
//! The YAML reader keeps no positions of values, and needs none: people write bundles in block style, in which a field stands on a line of its
//! own, deeper than its parent. Otherwise (flow style, JSON on one line) the result is `None`, never the line of another field.

/// The line of the field of the first document, counted from 1; `None` if it cannot be found.
pub fn line(text: &str, path: &str) -> Option<usize> {
    let steps = steps(path);
    let lines: Vec<(usize, &str)> = content(text);
    let mut range = 0..lines.len();
    let mut found = lines.first()?.0;
    let mut least = 0;
    for step in steps {
        let (index, children, indent) = match step {
            Step::Key(key) => child(&lines, range, least, &key)?,
            Step::Index(number) => item(&lines, range, least, number)?,
        };
        found = lines[index].0;
        range = children;
        least = indent;
    }
    Some(found)
}

enum Step {
    Key(String),
    Index(usize),
}

/// `spec.a[0].b` as steps; `[name]` that is not a number is a key.
fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (inner, tail) = after.split_once(']').unwrap_or((after, ""));
            steps.push(inner.parse().map_or_else(|_| Step::Key(inner.to_owned()), Step::Index));
            rest = tail;
        } else {
            let rest_of = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest_of.find(['.', '[']).unwrap_or(rest_of.len());
            if end > 0 {
                steps.push(Step::Key(rest_of[..end].to_owned()));
            }
            rest = &rest_of[end..];
            if end == 0 && rest.is_empty() {
                break;
            }
        }
    }
    steps
}

/// The lines of the first document that are not empty, with their numbers.
fn content(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let trimmed = line.trim();
        if trimmed == "---" || trimmed.starts_with("--- ") {
            if lines.is_empty() {
                continue;
            }
            break;
        }
        if !trimmed.is_empty() && !trimmed.starts_with('#') {
            lines.push((index + 1, line.trim_end()));
        }
    }
    lines
}

type Found = (usize, std::ops::Range<usize>, usize);

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The column of a mapping entry's text: behind the dashes of the list items that it opens.
fn opened(line: &str, from: usize) -> usize {
    let mut at = indent(line).max(from.min(line.len()));
    while line[at..].starts_with("- ") {
        at += 2;
        at += line[at..].len() - line[at..].trim_start_matches(' ').len();
    }
    at
}

/// The entry of a mapping, its lines, and the least column of its content.
fn child(lines: &[(usize, &str)], range: std::ops::Range<usize>, least: usize, key: &str) -> Option<Found> {
    let first = lines.get(range.start).filter(|_| !range.is_empty())?.1;
    // The first line of an item stands behind its dash.
    let column = if least > indent(first) { least } else { indent(first) };
    for index in range.clone() {
        let line = lines[index].1;
        let at = if index == range.start { column } else { indent(line) };
        if at != column || !line.is_char_boundary(at) || at > line.len() {
            continue;
        }
        let entry = &line[at..];
        let named = [key.to_owned(), format!("\"{key}\""), format!("'{key}'")]
            .iter()
            .any(|name| entry.strip_prefix(name.as_str()).is_some_and(|rest| rest == ":" || rest.starts_with(": ")));
        if named {
            let end = (index + 1..range.end)
                .find(|next| {
                    let line = lines[*next].1;
                    // A list may stand in the column of its key.
                    indent(line) < column || (indent(line) == column && !line[column..].starts_with('-'))
                })
                .unwrap_or(range.end);
            return Some((index, index + 1..end, 0));
        }
    }
    None
}

/// The item of a list, its lines, and the column behind its dash.
fn item(lines: &[(usize, &str)], range: std::ops::Range<usize>, least: usize, number: usize) -> Option<Found> {
    let first = lines.get(range.start).filter(|_| !range.is_empty())?.1;
    let column = indent(first).max(least);
    let is_item = |index: usize| {
        let line = lines[index].1;
        (indent(line) == column || index == range.start) && line.get(column..).is_some_and(|rest| rest == "-" || rest.starts_with("- "))
    };
    let index = range.clone().filter(|index| is_item(*index)).nth(number)?;
    let end = (index + 1..range.end).find(|next| is_item(*next) || indent(lines[*next].1) < column).unwrap_or(range.end);
    if lines[index].1.trim() == "-" {
        return Some((index, index + 1..end, 0));
    }
    Some((index, index..end, opened(lines[index].1, column)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# a comment
apiVersion: v1
kind: ClusterServiceVersion
metadata:
  annotations:
    a.b/c: x
    \"quoted\": y
spec:
  icon:
  - base64data: a
    mediatype: b
  relatedImages:
    - name: one
      image: first
    -
      name: two
      image: second
  description: |
    version: not this one
  install: {spec: {x: 1}}
  version: 1.0.0
---
spec:
  version: other
";

    #[test]
    fn fields_are_found_by_indentation() {
        for (path, expected) in [
            ("", Some(2)),
            ("kind", Some(3)),
            ("metadata.annotations[a.b/c]", Some(6)),
            ("metadata.annotations[quoted]", Some(7)),
            ("spec.icon[0]", Some(10)),
            ("spec.icon[0].base64data", Some(10)),
            ("spec.icon[0].mediatype", Some(11)),
            ("spec.icon[1]", None),
            ("spec.relatedImages[0].image", Some(14)),
            ("spec.relatedImages[1].image", Some(17)),
            ("spec.version", Some(21)),
            ("spec.install.spec.x", None),
            ("spec.missing", None),
        ] {
            assert_eq!(line(TEXT, path), expected, "{path}");
        }
        assert_eq!(line("", "a"), None);
    }
}
