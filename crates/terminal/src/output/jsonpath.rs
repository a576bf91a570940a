//! The part of kubectl's JSONPath that names fields, elements and all elements: `{.items[*].metadata.name}`, with text between.

use serde_json::Value;

/// Why a text is no JSONPath template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidJsonPath(String);

/// A template of text and paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Path(Vec<Step>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Element(usize),
    All,
}

impl JsonPath {
    /// Parses a template; unknown syntax is refused rather than guessed.
    pub fn parse(text: &str) -> Result<Self, InvalidJsonPath> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (before, after) = rest.split_once('{').unwrap_or((rest, ""));
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            if before.len() == rest.len() {
                break;
            }
            let (inside, after) = after.split_once('}').ok_or_else(|| InvalidJsonPath("a { without }".to_owned()))?;
            parts.push(if let Some(text) = inside.strip_prefix('"') {
                let text = text.strip_suffix('"').ok_or_else(|| InvalidJsonPath("a text without closing quote".to_owned()))?;
                Part::Text(text.replace("\\n", "\n").replace("\\t", "\t"))
            } else {
                Part::Path(steps(inside)?)
            });
            rest = after;
        }
        Ok(Self(parts))
    }

    /// Returns the text with every path replaced by its values; several values are separated by blanks.
    pub fn evaluate(&self, value: &Value) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Path(steps) => {
                    let found =
                        steps.iter().fold(vec![value], |values, step| values.into_iter().flat_map(|value| follow(value, step)).collect());
                    let texts: Vec<String> =
                        found.into_iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
                    out.push_str(&texts.join(" "));
                }
            }
        }
        out
    }
}

fn follow<'v>(value: &'v Value, step: &Step) -> Vec<&'v Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Element(index) => value.get(index).into_iter().collect(),
        Step::All => match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => Vec::new(),
        },
    }
}

fn steps(text: &str) -> Result<Vec<Step>, InvalidJsonPath> {
    let mut rest = text.trim().trim_start_matches('$');
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let mut name = String::new();
            let mut letters = after.char_indices();
            let mut end = after.len();
            while let Some((at, letter)) = letters.next() {
                match letter {
                    // A dot in a name is written `\.`, as in kubectl.
                    '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
                    '.' | '[' => {
                        end = at;
                        break;
                    }
                    letter => name.push(letter),
                }
            }
            match name.as_str() {
                "" if after.is_empty() => {}
                "" => return Err(InvalidJsonPath(format!("{text}: a field name is missing (recursive descent is not supported)"))),
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Field(name)),
            }
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            let (inside, after) = after.split_once(']').ok_or_else(|| InvalidJsonPath(format!("{text}: a [ without ]")))?;
            steps.push(match inside.trim() {
                "*" => Step::All,
                quoted if quoted.len() > 1 && quoted.starts_with('\'') && quoted.ends_with('\'') => {
                    Step::Field(quoted[1..quoted.len() - 1].to_owned())
                }
                index => Step::Element(
                    index
                        .parse()
                        .map_err(|_| InvalidJsonPath(format!("{text}: [{index}] is not supported; give an index, * or a quoted name")))?,
                ),
            });
            rest = after;
        } else {
            return Err(InvalidJsonPath(format!("{text}: expected a path like .metadata.name")));
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use serde_json::json;

    use super::*;

    /// MS-CLI-06: `-o jsonpath=...` names fields, elements and all elements.
    #[test]
    fn values_at_paths() {
        let value = json!({"items": [{"metadata": {"name": "a", "labels": {"x.y/z": "1"}}}, {"metadata": {"name": "b"}}], "n": 3});
        for (path, expected) in [
            ("{.items[*].metadata.name}", "a b"),
            ("{.items[1].metadata.name}", "b"),
            ("{$.n}", "3"),
            ("n is {.n}{\"\\n\"}", "n is 3\n"),
            ("{.items[0].metadata.labels['x.y/z']}", "1"),
            ("{.items[0].metadata.labels.x\\.y/z}", "1"),
            ("{.none}", ""),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().evaluate(&value), expected, "{path}");
        }
        for bad in ["{.a", "{..a}", "{[?(@.a)]}", "{a}"] {
            assert!(JsonPath::parse(bad).is_err(), "{bad}");
        }
    }
}
