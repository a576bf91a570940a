//! Label selectors with the meaning they have in Kubernetes (OLM1-SEL-03 to OLM1-SEL-05, KAPI-REST-02).
//!
//! ```text
//!   LabelSelector   as objects hold it: read, checked, written
//!   Requirements    read once and matched often, whichever form they came in: an object, or the text of a query
//!                   └── both compare by SelectorOperator::holds
//! ```

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Returns the labels in an object's metadata; values that are no text are left out.
pub fn labels_of(object: &Value) -> Labels {
    match object.pointer("/metadata/labels") {
        Some(Value::Object(map)) => map.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        _ => Labels::new(),
    }
}

/// A label selector; all of its criteria must hold. An empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must have these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further criteria.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One criterion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelectorRequirement {
    /// Key of the label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`, as written.
    pub operator: String,
    /// Values, for `In` and `NotIn`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// The comparison that a criterion makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorOperator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or does not exist.
    NotIn,
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
    /// The label is a whole number above the first value; in queries only.
    GreaterThan,
    /// The label is a whole number below the first value; in queries only.
    LessThan,
}

impl SelectorOperator {
    /// Returns whether the value of a label (`None` if absent) fulfils the comparison with the values of a criterion.
    pub fn holds(self, label: Option<&str>, values: &[String]) -> bool {
        let listed = |label: &str| values.iter().any(|value| value == label);
        let compares = |label: &str, wanted: Ordering| match (label.parse::<i64>(), values.first().map(|value| value.parse::<i64>())) {
            (Ok(label), Some(Ok(limit))) => label.cmp(&limit) == wanted,
            _ => false,
        };
        match self {
            Self::In => label.is_some_and(listed),
            Self::NotIn => !label.is_some_and(listed),
            Self::Exists => label.is_some(),
            Self::DoesNotExist => label.is_none(),
            Self::GreaterThan => label.is_some_and(|label| compares(label, Ordering::Greater)),
            Self::LessThan => label.is_some_and(|label| compares(label, Ordering::Less)),
        }
    }
}

/// One criterion, ready to be matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// The comparison.
    pub operator: SelectorOperator,
    /// The values that the label is compared with.
    pub values: Vec<String>,
}

/// Criteria that must all hold, ready to be matched; an empty list selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements(Vec<Requirement>);

impl Requirements {
    /// Creates requirements of these criteria.
    pub fn new(all: Vec<Requirement>) -> Self {
        Self(all)
    }

    /// Reads the criteria of a `LabelSelector` object (`matchLabels`, `matchExpressions`) that was checked when it was written. An unknown
    /// operator matches nothing.
    pub fn of_selector(selector: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let labels =
            labels.map(|(key, value)| Requirement { key: key.clone(), operator: SelectorOperator::In, values: vec![text(Some(value))] });
        let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
        let expressions = expressions.map(|expression| {
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let read = SelectorRequirement {
                key: text(expression.get("key")),
                operator: text(expression.get("operator")),
                values: values.filter_map(Value::as_str).map(str::to_owned).collect(),
            };
            match read.operator() {
                Ok(operator) => Requirement { key: read.key, operator, values: read.values },
                // `In` with no values matches nothing.
                Err(_) => Requirement { key: read.key, operator: SelectorOperator::In, values: Vec::new() },
            }
        });
        Self(labels.chain(expressions).collect())
    }

    /// Returns whether they select everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether they select an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|one| one.operator.holds(labels.get(&one.key).map(String::as_str), &one.values))
    }
}

/// The reason why a selector is invalid, in Kubernetes' words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl LabelSelector {
    /// Creates a selector of one label.
    pub fn label(key: &str, value: &str) -> Self {
        Self { match_labels: BTreeMap::from([(key.to_owned(), value.to_owned())]), match_expressions: Vec::new() }
    }

    /// Returns whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Checks keys, operators and values.
    pub fn validate(&self) -> Result<(), SelectorError> {
        for (key, value) in &self.match_labels {
            check_key(key)?;
            check_value(key, 0, value)?;
        }
        for requirement in &self.match_expressions {
            let operator = requirement.operator()?;
            check_key(&requirement.key)?;
            let values = &requirement.values;
            let listed = || values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(",");
            match operator {
                SelectorOperator::In | SelectorOperator::NotIn if values.is_empty() => {
                    return Err(SelectorError(
                        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned(),
                    ));
                }
                SelectorOperator::Exists | SelectorOperator::DoesNotExist if !values.is_empty() => {
                    let text = "values set must be empty for exists and does not exist";
                    return Err(SelectorError(format!("values: Invalid value: [{}]: {text}", listed())));
                }
                _ => {}
            }
            for (i, value) in values.iter().enumerate() {
                check_value(&requirement.key, i, value)?;
            }
        }
        Ok(())
    }

    /// Returns whether labels match a valid selector; an unknown operator matches nothing.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }
}

impl SelectorRequirement {
    fn operator(&self) -> Result<SelectorOperator, SelectorError> {
        match self.operator.as_str() {
            "In" => Ok(SelectorOperator::In),
            "NotIn" => Ok(SelectorOperator::NotIn),
            "Exists" => Ok(SelectorOperator::Exists),
            "DoesNotExist" => Ok(SelectorOperator::DoesNotExist),
            other => Err(SelectorError(format!("{other:?} is not a valid label selector operator"))),
        }
    }

    fn matches(&self, labels: &Labels) -> bool {
        self.operator().is_ok_and(|operator| operator.holds(labels.get(&self.key).map(String::as_str), &self.values))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let expressions = self.match_expressions.iter().map(|r| match r.operator.as_str() {
            "In" => format!("{} in ({})", r.key, r.values.join(",")),
            "NotIn" => format!("{} notin ({})", r.key, r.values.join(",")),
            "Exists" => r.key.clone(),
            "DoesNotExist" => format!("!{}", r.key),
            other => format!("{} {other}", r.key),
        });
        f.write_str(&labels.chain(expressions).collect::<Vec<_>>().join(","))
    }
}

fn is_name(text: &str, dash_like: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| b.is_ascii_alphanumeric() || dash_like.contains(b))
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let invalid = |reason: &str| Err(SelectorError(format!("key: Invalid value: {key:?}: {reason}")));
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return invalid("prefix part must be non-empty");
        }
        let label = |part: &str| is_name(part, b"-") && !part.bytes().any(|b| b.is_ascii_uppercase());
        if prefix.len() > 253 || !prefix.split('.').all(label) {
            return invalid(
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
                 with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            );
        }
    }
    if name.is_empty() {
        return invalid("name part must be non-empty");
    }
    if name.len() > 63 {
        return invalid("name part must be no more than 63 characters");
    }
    if !is_name(name, b"-_.") {
        return invalid(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
             'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        );
    }
    Ok(())
}

fn check_value(key: &str, index: usize, value: &str) -> Result<(), SelectorError> {
    let invalid = |reason: &str| Err(SelectorError(format!("values[{index}][{key}]: Invalid value: {value:?}: {reason}")));
    if value.len() > 63 {
        return invalid("must be no more than 63 characters");
    }
    if !value.is_empty() && !is_name(value, b"-_.") {
        return invalid(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn selector(json: serde_json::Value) -> LabelSelector {
        serde_json::from_value(json).unwrap()
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    /// OLM1-SEL-03, OLM1-SEL-04, OLM1-SEL-05: selection by name, by label, by set, and exclusion; all criteria must hold.
    #[test]
    fn matching() {
        use serde_json::json;
        let production = labels(&[("tier", "production"), ("support", "true")]);
        let testing = labels(&[("tier", "testing"), ("testing", "")]);
        let bare = labels(&[]);
        let cases = [
            (json!({}), [true, true, true]),
            (json!({"matchLabels": {"support": "true"}}), [true, false, false]),
            (json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["production", "testing"]}]}), [true, true, false]),
            (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["production"]}]}), [false, true, true]),
            (json!({"matchExpressions": [{"key": "testing", "operator": "DoesNotExist"}]}), [true, false, true]),
            (json!({"matchExpressions": [{"key": "testing", "operator": "Exists"}]}), [false, true, false]),
            (
                json!({"matchLabels": {"support": "true"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["testing"]}]}),
                [false, false, false],
            ),
        ];
        for (json, expected) in cases {
            let selector = selector(json.clone());
            selector.validate().unwrap();
            assert_eq!([&production, &testing, &bare].map(|labels| selector.matches(labels)), expected, "{json}");
            let read = Requirements::of_selector(&json);
            assert_eq!([&production, &testing, &bare].map(|labels| read.matches(labels)), expected, "{json}, read once");
            assert_eq!(read.is_empty(), selector.is_empty());
        }
    }

    /// KAPI-REST-02: numbers are compared as such, and what was never checked agrees with nothing.
    #[test]
    fn numbers_and_unknown_operators() {
        let compare = |operator, label: &str, value: &str| {
            let requirement = Requirement { key: "n".to_owned(), operator, values: vec![value.to_owned()] };
            Requirements::new(vec![requirement]).matches(&labels(&[("n", label)]))
        };
        assert!(compare(SelectorOperator::GreaterThan, "10", "9") && !compare(SelectorOperator::GreaterThan, "9", "9"));
        assert!(compare(SelectorOperator::LessThan, "-1", "0") && !compare(SelectorOperator::LessThan, "x", "0"));
        let unknown = serde_json::json!({"matchExpressions": [{"key": "n", "operator": "Like", "values": ["1"]}]});
        assert!(!Requirements::of_selector(&unknown).matches(&labels(&[("n", "1")])));
        assert!(!Requirements::of_selector(&unknown).matches(&Labels::new()));
    }

    /// OLM1-SEL-02: selectors that are invalid, and why.
    #[test]
    fn validation() {
        use serde_json::json;
        let cases = [
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}),
                "\"Like\" is not a valid label selector operator",
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
                "values: Invalid value: [\"b\"]: values set must be empty for exists and does not exist",
            ),
            (json!({"matchLabels": {"a b": "c"}}), "key: Invalid value: \"a b\": name part must consist of"),
            (json!({"matchLabels": {"/b": "c"}}), "key: Invalid value: \"/b\": prefix part must be non-empty"),
            (json!({"matchLabels": {"a": "b c"}}), "values[0][a]: Invalid value: \"b c\": a valid label must be"),
        ];
        for (json, expected) in cases {
            let error = selector(json).validate().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
