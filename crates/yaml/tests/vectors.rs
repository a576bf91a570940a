//! Small texts and what Kubernetes' own libraries make of them (`tests/oracle`): found by `examples/differential.rs`, or thought of.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_yaml::{Options, parse_with, stream};
use serde_json::Value;

fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len() && ours.iter().all(|(key, value)| theirs.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Number(ours), Value::Number(theirs)) => ours.as_f64() == theirs.as_f64(),
        _ => ours == theirs,
    }
}

/// OLM1-FBC-02, CATLG-07: the same verdict and the same value as sigs.k8s.io/yaml, for the first document, strictly, and for all documents.
#[test]
fn kubernetes_reads_the_same() {
    let mut problems = Vec::new();
    for line in include_str!("vectors.jsonl").split_terminator('\n') {
        let vector: Value = serde_json::from_str(line).unwrap();
        let text = vector["in"].as_str().unwrap();
        let mut check = |good: bool, what: &str, ours: &dyn std::fmt::Debug| {
            if !good {
                problems.push(format!("{what}: {text:?}\n  theirs: {line}\n  ours: {ours:?}"));
            }
        };
        let ours = parse_with(text, &Options::default());
        check(ours.is_err() == vector.get("error").is_some(), "verdict", &ours);
        if let Ok(document) = &ours {
            check(same(&document.value, vector.get("value").unwrap_or(&Value::Null)), "value", &ours);
            let strict = parse_with(text, &Options { strict: true, ..Options::default() });
            let is_json = text.trim_start().starts_with('{');
            check(is_json || strict.is_err() == vector.get("strict").is_some(), "strict", &strict);
        }
        let all: Vec<_> = stream(text).collect();
        let values: Vec<&Value> = all.iter().flatten().map(|document| &document.value).collect();
        let theirs = vector["stream"].as_array().unwrap();
        check(all.iter().any(Result::is_err) == vector.get("streamError").is_some(), "stream", &all);
        check(values.len() == theirs.len() && values.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs)), "documents", &all);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
