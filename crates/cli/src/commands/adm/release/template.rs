//! Go templates over a document: texts, fields, `range`, `if`, `with`, `len`, `index`. Everything else of Go's language is refused.

use std::iter::Peekable;
use std::vec::IntoIter;

use mainstay_golang::value;
use serde_json::Value;

/// A template that cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("error parsing template: unclosed action")]
    Open,
    #[error("error parsing template: unexpected {{{{{0}}}}}")]
    Unexpected(String),
    #[error("error parsing template: missing {{{{end}}}}")]
    NoEnd,
    #[error("the template action {0:?} is not supported; known are fields, range, if, with, else, end, len and index")]
    Unsupported(String),
    #[error("error executing template: range can't iterate over {0}")]
    Range(String),
}

enum Token {
    Text(String),
    Action(String),
}

enum Node {
    Text(String),
    Print(String),
    Block { kind: Block, of: String, body: Vec<Node>, otherwise: Vec<Node> },
}

#[derive(Clone, Copy)]
enum Block {
    If,
    With,
    Range,
}

/// Evaluates a template.
pub(super) fn render(template: &str, document: &Value) -> Result<String, TemplateError> {
    let mut tokens = tokens(template)?.into_iter().peekable();
    let (nodes, end) = nodes(&mut tokens, 0)?;
    if let Some(end) = end {
        return Err(TemplateError::Unexpected(end));
    }
    let mut out = String::new();
    write(&mut out, &nodes, document, document)?;
    Ok(out)
}

fn tokens(template: &str) -> Result<Vec<Token>, TemplateError> {
    let (mut tokens, mut rest, mut trim) = (Vec::new(), template, false);
    loop {
        let (text, after) = rest.split_once("{{").map_or((rest, None), |(text, after)| (text, Some(after)));
        let text = if trim { text.trim_start() } else { text };
        let Some(after) = after else {
            tokens.push(Token::Text(text.to_owned()));
            return Ok(tokens);
        };
        let (action, next) = after.split_once("}}").ok_or(TemplateError::Open)?;
        let trimmed = action.strip_prefix("- ");
        tokens.push(Token::Text(if trimmed.is_some() { text.trim_end() } else { text }.to_owned()));
        let action = trimmed.unwrap_or(action);
        let ended = action.strip_suffix(" -");
        trim = ended.is_some();
        tokens.push(Token::Action(ended.unwrap_or(action).trim().to_owned()));
        rest = next;
    }
}

/// Reads nodes up to `end`, `else` or the end of the template.
fn nodes(tokens: &mut Peekable<IntoIter<Token>>, depth: usize) -> Result<(Vec<Node>, Option<String>), TemplateError> {
    let mut nodes = Vec::new();
    while let Some(token) = tokens.next() {
        let action = match token {
            Token::Text(text) => {
                nodes.push(Node::Text(text));
                continue;
            }
            Token::Action(action) => action,
        };
        let (word, of) = action.split_once(char::is_whitespace).unwrap_or((&action, ""));
        let kind = match word {
            "end" | "else" => return Ok((nodes, Some(action))),
            "if" => Block::If,
            "with" => Block::With,
            "range" => Block::Range,
            _ => {
                nodes.push(Node::Print(action));
                continue;
            }
        };
        if depth > 100 {
            return Err(TemplateError::Unsupported(action));
        }
        let of = of.trim().to_owned();
        let (body, mut end) = self::nodes(tokens, depth + 1)?;
        let mut otherwise = Vec::new();
        if end.as_deref() == Some("else") {
            (otherwise, end) = self::nodes(tokens, depth + 1)?;
        }
        match end.as_deref() {
            Some("end") => nodes.push(Node::Block { kind, of, body, otherwise }),
            Some(other) => return Err(TemplateError::Unsupported(other.to_owned())),
            None => return Err(TemplateError::NoEnd),
        }
    }
    Ok((nodes, None))
}

fn write(out: &mut String, nodes: &[Node], dot: &Value, root: &Value) -> Result<(), TemplateError> {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Print(of) => {
                let found = evaluate(of, dot, root)?;
                out.push_str(&if found.is_null() { "<no value>".to_owned() } else { value::plain(&found) });
            }
            Node::Block { kind, of, body, otherwise } => {
                let found = evaluate(of, dot, root)?;
                match (kind, &found) {
                    (_, found) if !is_true(found) => write(out, otherwise, dot, root)?,
                    (Block::If, _) => write(out, body, dot, root)?,
                    (Block::With, found) => write(out, body, found, root)?,
                    (Block::Range, Value::Array(items)) => items.iter().try_for_each(|item| write(out, body, item, root))?,
                    (Block::Range, Value::Object(fields)) => fields.values().try_for_each(|item| write(out, body, item, root))?,
                    (Block::Range, other) => return Err(TemplateError::Range(value::plain(other))),
                }
            }
        }
    }
    Ok(())
}

/// What Go takes for true: everything but empty values.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn evaluate(expression: &str, dot: &Value, root: &Value) -> Result<Value, TemplateError> {
    let unsupported = || TemplateError::Unsupported(expression.to_owned());
    if expression.starts_with('"') {
        return serde_json::from_str::<String>(expression).map(Value::from).map_err(|_| unsupported());
    }
    let words: Vec<&str> = expression.split_whitespace().collect();
    match words.as_slice() {
        [path] => field(path, dot, root).cloned().ok_or_else(unsupported),
        ["len", path] => {
            let found = field(path, dot, root).ok_or_else(unsupported)?;
            Ok(match found {
                Value::Array(items) => items.len().into(),
                Value::Object(fields) => fields.len().into(),
                Value::String(text) => text.len().into(),
                _ => return Err(unsupported()),
            })
        }
        ["index", path, keys @ ..] => {
            let mut found = field(path, dot, root).ok_or_else(unsupported)?;
            for key in keys {
                let next = match (serde_json::from_str::<Value>(key), found) {
                    (Ok(Value::String(name)), Value::Object(fields)) => fields.get(&name),
                    (Ok(Value::Number(at)), Value::Array(items)) => at.as_u64().and_then(|at| items.get(usize::try_from(at).ok()?)),
                    _ => return Err(unsupported()),
                };
                found = next.unwrap_or(&Value::Null);
            }
            Ok(found.clone())
        }
        _ => Err(unsupported()),
    }
}

/// A field of the document: `.a.b`, `.`, `$.a`; none for other expressions.
fn field<'v>(path: &str, dot: &'v Value, root: &'v Value) -> Option<&'v Value> {
    let (mut found, path) = match path.strip_prefix('$') {
        Some(rest) => (root, rest),
        None => (dot, path),
    };
    if path.is_empty() {
        return Some(found);
    }
    let names = path.strip_prefix('.')?;
    for name in names.split('.').filter(|name| !name.is_empty()) {
        if !name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
            return None;
        }
        found = &found[name];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// CVO-RELI-02: fields, blocks and functions; what is not known is refused.
    #[test]
    fn templates() {
        let document =
            json!({"digest": "sha256:1", "list": [{"name": "a"}, {"name": "b"}], "map": {"x-y": 1}, "none": null, "flag": false});
        for (template, expected) in [
            ("{{.digest}}", Ok("sha256:1")),
            ("{{ range .list }}{{ .name }} {{ end }}", Ok("a b ")),
            ("{{if .flag}}yes{{else}}no{{end}}", Ok("no")),
            ("{{with .map}}{{index . \"x-y\"}}{{end}} {{len .list}}", Ok("1 2")),
            ("{{.none}} {{.missing}}", Ok("<no value> <no value>")),
            ("a  {{- .digest -}}  b", Ok("asha256:1b")),
            ("{{range .list}}{{$.digest}};{{end}}", Ok("sha256:1;sha256:1;")),
            ("{{.digest", Err("error parsing template: unclosed action")),
            ("{{end}}", Err("error parsing template: unexpected {{end}}")),
            ("{{if .flag}}", Err("error parsing template: missing {{end}}")),
        ] {
            let rendered = render(template, &document).map_err(|error| error.to_string());
            assert_eq!(rendered.as_deref().map_err(String::as_str), expected, "{template}");
        }
        assert!(matches!(render("{{printf \"%s\" .digest}}", &document), Err(TemplateError::Unsupported(_))));
    }
}
