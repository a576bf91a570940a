//! The part of kubectl's JSONPath that printer columns use: fields, quoted keys, indexes, wildcards and equality filters.

use serde_json::Value;

/// The most values that one path may find.
const FOUND: usize = 1_000;

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// `[?(@.type=="Ready")]`
    Filter(Vec<String>, bool, Value),
}

/// The values that a path finds in an object; a path that does not parse finds none.
pub fn find<'a>(path: &str, object: &'a Value) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else { return Vec::new() };
    let mut found = vec![object];
    for step in &steps {
        let mut next = Vec::new();
        for node in found {
            match (step, node) {
                (Step::Field(name), Value::Object(map)) => next.extend(map.get(name)),
                (Step::Index(index), Value::Array(items)) => {
                    let at = if *index < 0 { items.len() as i64 + index } else { *index };
                    next.extend(usize::try_from(at).ok().and_then(|at| items.get(at)));
                }
                (Step::All, Value::Array(items)) => next.extend(items),
                (Step::All, Value::Object(map)) => next.extend(map.values()),
                (Step::Filter(field, equal, wanted), Value::Array(items)) => {
                    next.extend(items.iter().filter(|item| {
                        let value = field.iter().try_fold(*item, |node, name| node.get(name));
                        value.is_some_and(|value| (value == wanted) == *equal)
                    }));
                }
                _ => {}
            }
        }
        next.truncate(FOUND);
        found = next;
    }
    found
}

/// Several values as one text, as kubectl prints them.
pub fn text(found: &[&Value]) -> String {
    let shown: Vec<String> = found
        .iter()
        .map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    shown.join(" ")
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let path = path.trim().trim_start_matches('{').trim_end_matches('}');
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            steps.push(bracket(&after[..end])?);
            rest = &after[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let (name, after) = name(rest);
        if name.is_empty() {
            if after.len() == rest.len() && !after.starts_with('[') {
                return None;
            }
        } else {
            steps.push(if name == "*" { Step::All } else { Step::Field(name) });
        }
        rest = after;
    }
    Some(steps)
}

/// A name up to the next `.` or `[`; `\.` is a dot in the name.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return (name, &text[at..]),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c => name.push(c),
        }
    }
    (name, "")
}

fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(key) = quoted(text) {
        return Some(Step::Field(key));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (left, equal, right) = match filter.split_once("==") {
            Some((left, right)) => (left, true, right),
            None => filter.split_once("!=").map(|(left, right)| (left, false, right))?,
        };
        let field = left.trim().strip_prefix('@')?.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let right = right.trim();
        let wanted = quoted(right).map(Value::String).or_else(|| serde_json::from_str(right).ok())?;
        return Some(Step::Filter(field, equal, wanted));
    }
    text.parse().ok().map(Step::Index)
}

/// A text in quotes; as in fields, a backslash keeps the meaning of the letter behind it away.
fn quoted(text: &str) -> Option<String> {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inner('\'').or_else(|| inner('"')).map(unescaped)
}

fn unescaped(text: &str) -> String {
    let (mut out, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        out.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// KAPI-REST-06: the paths that CRDs use in printer columns.
    #[test]
    fn paths_find_values() {
        let object = json!({"spec": {"a": 1, "l": ["x", "y"]}, "metadata": {"labels": {"a.b/c": "d"}},
            "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}});
        for (path, shown) in [
            (".spec.a", "1"),
            ("{.spec.l[1]}", "y"),
            (".spec.l[*]", "x y"),
            (".metadata.labels['a.b/c']", "d"),
            (".metadata.labels.a\\.b/c", "d"),
            (".metadata.labels['a\\.b/c']", "d"),
            (".status.conditions[?(@.type==\"Ready\")].status", "True"),
            (".status.conditions[?(@.type=='None')].status", ""),
            (".spec.none", ""),
        ] {
            assert_eq!(text(&find(path, &object)), shown, "{path}");
        }
    }
}
