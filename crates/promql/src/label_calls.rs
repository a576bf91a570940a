//! Functions that change labels.

use crate::EvaluateError;
use crate::evaluate::{Value, unique};
use crate::parser::compiled;
use crate::samples::{Labels, Sample};

/// `label_replace(vector, destination, replacement, source, pattern)`.
pub(crate) fn replace(vector: Vec<Sample>, arguments: &[Value]) -> Result<Vec<Sample>, EvaluateError> {
    let text = |place: usize| arguments.get(place).map_or("", Value::text);
    let (destination, replacement, source) = (text(0), text(1), text(2));
    let fault = || EvaluateError::Argument { function: "label_replace", problem: format!("invalid regular expression {:?}", text(3)) };
    let pattern = compiled(text(3)).ok_or_else(fault)?;
    check_label("label_replace", destination)?;
    let mut found = Vec::with_capacity(vector.len());
    for mut sample in vector {
        let value = sample.labels.get(source).map_or("", String::as_str);
        let replaced = pattern.captures(value).map(|groups| {
            let mut out = String::new();
            groups.expand(replacement, &mut out);
            out
        });
        if let Some(replaced) = replaced {
            set(&mut sample.labels, destination, replaced);
        }
        found.push(sample);
    }
    unique(found)
}

/// `label_join(vector, destination, separator, sources...)`.
pub(crate) fn join(vector: Vec<Sample>, arguments: &[Value]) -> Result<Vec<Sample>, EvaluateError> {
    let text = |place: usize| arguments.get(place).map_or("", Value::text);
    let (destination, separator) = (text(0), text(1));
    let sources: Vec<&str> = arguments.iter().skip(2).map(Value::text).collect();
    check_label("label_join", destination)?;
    let mut found = Vec::with_capacity(vector.len());
    for mut sample in vector {
        let values: Vec<&str> = sources.iter().map(|source| sample.labels.get(*source).map_or("", String::as_str)).collect();
        let joined = values.join(separator);
        set(&mut sample.labels, destination, joined);
        found.push(sample);
    }
    unique(found)
}

fn set(labels: &mut Labels, label: &str, value: String) {
    if value.is_empty() {
        labels.remove(label);
    } else {
        labels.insert(label.to_owned(), value);
    }
}

fn check_label(function: &'static str, label: &str) -> Result<(), EvaluateError> {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name = label.starts_with(is_start) && label.chars().all(|c| is_start(c) || c.is_ascii_digit());
    if is_name { Ok(()) } else { Err(EvaluateError::Argument { function, problem: format!("invalid destination label name {label:?}") }) }
}
