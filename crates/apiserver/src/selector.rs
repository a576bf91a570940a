//! Label and field selectors: the text of a query parameter becomes a list of requirements (KAPI-REST-02).

use std::sync::LazyLock;

use mainstay_objects::{Requirement, Requirements, SelectorOperator};
use regex::Regex;

/// Why a text is no selector, in the words that Kubernetes answers with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSelector(String);

/// The longest selector text that is parsed.
const TEXT: usize = 64 * 1024;

/// Parses the text of a `labelSelector` parameter; the error is the text Kubernetes answers with.
pub fn parse_labels(text: &str) -> Result<Requirements, InvalidSelector> {
    if text.len() > TEXT {
        return Err(InvalidSelector(format!("label selector is longer than {TEXT} bytes")));
    }
    Parser { tokens: tokens(text), at: 0 }.parse().map(Requirements::new)
}

fn tokens(text: &str) -> Vec<String> {
    let special = |c: char| "=!(),<>".contains(c);
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&c) = rest.peek() {
        if c.is_whitespace() {
            rest.next();
        } else if special(c) {
            rest.next();
            let mut token = String::from(c);
            // `==`, `!=` and single signs are the only ones there are.
            if (c == '=' || c == '!') && rest.peek() == Some(&'=') {
                rest.next();
                token.push('=');
            }
            found.push(token);
        } else {
            let mut token = String::new();
            while let Some(&c) = rest.peek() {
                if special(c) || c.is_whitespace() {
                    break;
                }
                token.push(c);
                rest.next();
            }
            found.push(token);
        }
    }
    found
}

struct Parser {
    tokens: Vec<String>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn next(&mut self) -> String {
        let token = self.peek().to_owned();
        self.at += 1;
        token
    }

    fn parse(mut self) -> Result<Vec<Requirement>, InvalidSelector> {
        let mut all = Vec::new();
        loop {
            let token = self.peek().to_owned();
            if token.is_empty() && self.at >= self.tokens.len() {
                return Ok(all);
            }
            if token == "!" || is_identifier(&token) {
                all.push(self.requirement().map_err(|problem| InvalidSelector(format!("unable to parse requirement: {problem}")))?);
                match self.next().as_str() {
                    "" => return Ok(all),
                    "," => {
                        let ahead = self.peek();
                        if ahead != "!" && !is_identifier(ahead) {
                            return Err(InvalidSelector(format!("found '{ahead}', expected: identifier after ','")));
                        }
                    }
                    other => return Err(InvalidSelector(format!("found '{other}', expected: ',' or 'end of string'"))),
                }
            } else {
                return Err(InvalidSelector(format!("found '{token}', expected: !, identifier, or 'end of string'")));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, InvalidSelector> {
        let negated = self.peek() == "!";
        if negated {
            self.at += 1;
        }
        let key = self.next();
        if !is_identifier(&key) {
            return Err(InvalidSelector(format!("found '{key}', expected: identifier")));
        }
        label_key(&key)?;
        if negated {
            return Ok(Requirement { key, operator: SelectorOperator::DoesNotExist, values: Vec::new() });
        }
        if matches!(self.peek(), "" | ",") {
            return Ok(Requirement { key, operator: SelectorOperator::Exists, values: Vec::new() });
        }
        let operator = match self.next().as_str() {
            "in" => SelectorOperator::In,
            "=" | "==" => return self.exact(key, SelectorOperator::In),
            "!=" => return self.exact(key, SelectorOperator::NotIn),
            "notin" => SelectorOperator::NotIn,
            ">" | "gt" => return self.number(key, SelectorOperator::GreaterThan),
            "<" | "lt" => return self.number(key, SelectorOperator::LessThan),
            other => return Err(InvalidSelector(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"))),
        };
        let values = self.values()?;
        for (index, value) in values.iter().enumerate() {
            label_value(&key, index, value)?;
        }
        Ok(Requirement { key, operator, values })
    }

    fn exact(&mut self, key: String, operator: SelectorOperator) -> Result<Requirement, InvalidSelector> {
        let value = if matches!(self.peek(), "" | ",") { String::new() } else { self.next() };
        if !value.is_empty() && !is_identifier(&value) {
            return Err(InvalidSelector(format!("found '{value}', expected: identifier")));
        }
        label_value(&key, 0, &value)?;
        Ok(Requirement { key, operator, values: vec![value] })
    }

    fn number(&mut self, key: String, operator: SelectorOperator) -> Result<Requirement, InvalidSelector> {
        let value = self.next();
        if value.parse::<i64>().is_err() {
            return Err(InvalidSelector(format!(
                "values[0][{key}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            )));
        }
        Ok(Requirement { key, operator, values: vec![value] })
    }

    fn values(&mut self) -> Result<Vec<String>, InvalidSelector> {
        let open = self.next();
        if open != "(" {
            return Err(InvalidSelector(format!("found '{open}' expected: '('")));
        }
        let mut values = Vec::new();
        loop {
            let token = self.next();
            match token.as_str() {
                ")" => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    return Ok(values);
                }
                "," => {
                    values.push(String::new());
                    continue;
                }
                "" => return Err(InvalidSelector("found '', expected: ',', ')' or identifier".into())),
                _ if is_identifier(&token) => values.push(token),
                _ => return Err(InvalidSelector(format!("found '{token}', expected: ',', ')' or identifier"))),
            }
            match self.next().as_str() {
                "," => {}
                ")" => return Ok(values),
                other => return Err(InvalidSelector(format!("found '{other}', expected: ',' or ')'"))),
            }
        }
    }
}

fn is_identifier(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(['=', '!', '(', ')', ',', '<', '>'])
}

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const KEY_RULE: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const PREFIX_RULE: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

#[allow(clippy::expect_used, reason = "the pattern is a constant, compiled in every test")]
static NAME_PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new(&format!("^{NAME}$")).expect("constant pattern"));
#[allow(clippy::expect_used, reason = "the pattern is a constant, compiled in every test")]
static SUBDOMAIN_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").expect("constant pattern"));

fn label_key(key: &str) -> Result<(), InvalidSelector> {
    let refuse = |rule: &str| Err(InvalidSelector(format!("<nil>: Invalid value: {key:?}: {rule}")));
    let name = match key.split('/').collect::<Vec<_>>().as_slice() {
        ["", _] => return refuse("prefix part must be non-empty"),
        [prefix, _] if !SUBDOMAIN_PATTERN.is_match(prefix) => return refuse(PREFIX_RULE),
        [name] | [_, name] => *name,
        _ => return refuse(KEY_RULE),
    };
    if name.is_empty() {
        return refuse("name part must be non-empty");
    }
    if name.len() > 63 {
        return refuse("name part must be no more than 63 bytes");
    }
    if NAME_PATTERN.is_match(name) { Ok(()) } else { refuse(NAME_RULE) }
}

fn label_value(key: &str, index: usize, value: &str) -> Result<(), InvalidSelector> {
    let refuse = |rule: &str| Err(InvalidSelector(format!("values[{index}][{key}]: Invalid value: {value:?}: {rule}")));
    if value.len() > 63 {
        return refuse("must be no more than 63 bytes");
    }
    if value.is_empty() || NAME_PATTERN.is_match(value) { Ok(()) } else { refuse(VALUE_RULE) }
}

/// A parsed field selector; empty selects everything.
#[derive(Clone, Debug, Default)]
pub struct FieldSelector(Vec<Term>);

#[derive(Clone, Debug)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses the text of a `fieldSelector` parameter; the error is the text Kubernetes answers with.
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        if text.len() > TEXT {
            return Err(InvalidSelector(format!("field selector is longer than {TEXT} bytes")));
        }
        let mut parts = split(text);
        // Which of two names counts as the required one depends on this order.
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts {
            if part.is_empty() {
                continue;
            }
            let Some((field, equal, value)) = operator(&part) else {
                return Err(InvalidSelector(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            terms.push(Term { field: field.to_owned(), equal, value: unescape(value)? });
        }
        Ok(Self(terms))
    }

    /// Selects the one object of that name.
    pub fn name(name: &str) -> Self {
        Self(vec![Term { field: "metadata.name".into(), equal: true, value: name.into() }])
    }

    /// Returns whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields it asks for.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|term| term.field.as_str())
    }

    /// The value that a field must have, where the selector says so.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Returns whether it selects an object whose fields `read` gives.
    pub fn matches(&self, read: impl Fn(&str) -> String) -> bool {
        self.0.iter().all(|term| (read(&term.field) == term.value) == term.equal)
    }
}

fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
}

fn operator(part: &str) -> Option<(&str, bool, &str)> {
    part.char_indices().find_map(|(at, _)| {
        let (field, rest) = part.split_at(at);
        let unequal = rest.strip_prefix("!=").map(|value| (field, false, value));
        unequal.or_else(|| rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).map(|value| (field, true, value)))
    })
}

/// The value that was meant; the error is Kubernetes' text for one that cannot be.
fn unescape(value: &str) -> Result<String, InvalidSelector> {
    let invalid = |sequence: &str| InvalidSelector(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let mut plain = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        match c {
            '\\' | ',' | '=' if escaped => plain.push(c),
            other if escaped => return Err(invalid(&format!("\\{other}"))),
            '\\' => {
                escaped = true;
                continue;
            }
            ',' | '=' => return Err(InvalidSelector(format!("invalid field selector: unescaped character in value: {}", u32::from(c)))),
            other => plain.push(other),
        }
        escaped = false;
    }
    if escaped { Err(invalid("\\")) } else { Ok(plain) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        parse_labels(selector).unwrap().matches(&labels)
    }

    /// KAPI-REST-02: equality, set-based and existence requirements.
    #[test]
    fn label_selectors_select() {
        let labels = [("tier", "a"), ("n", "5")];
        for (selector, expected) in [
            ("", true),
            ("tier=a", true),
            ("tier == b", false),
            ("tier!=b,n", true),
            ("tier in (b, a)", true),
            ("tier notin (a)", false),
            ("x notin (a)", true),
            ("!x", true),
            ("!tier", false),
            ("n>4,n<6", true),
            ("x=", false),
        ] {
            assert_eq!(selects(selector, &labels), expected, "{selector}");
        }
    }

    /// KAPI-REST-02: the texts for selectors that do not parse.
    #[test]
    fn broken_label_selectors_are_named() {
        for (selector, text) in [
            ("a=(b", "unable to parse requirement: found '(', expected: identifier"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
        ] {
            assert_eq!(parse_labels(selector).unwrap_err().to_string(), text, "{selector}");
        }
    }

    /// KAPI-REST-02: field selectors and their escapes.
    #[test]
    fn field_selectors_select() {
        let selector = FieldSelector::parse(r"metadata.name=a\,b,spec.x!=1").unwrap();
        let read = |field: &str| if field == "metadata.name" { "a,b".to_owned() } else { "2".to_owned() };
        assert!(selector.matches(read));
        assert_eq!(FieldSelector::parse("a=c,a=b").unwrap().required("a"), Some("b"), "terms are sorted before the first counts");
        for (text, refusal) in [
            (r"a=b\c", r"invalid field selector: invalid escape sequence: \c"),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap_err().to_string(), refusal, "{text}");
        }
        assert_eq!(
            FieldSelector::parse("metadata.name").unwrap_err().to_string(),
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
        );
    }
}
