//! Binary operations, with the matching of series.

use std::collections::{HashMap, HashSet};

use crate::evaluate::{Evaluation, Value, unique, without_name};
use crate::expr::{Binary, Matching, Operator, Side};
use crate::samples::{Labels, Sample};
use crate::{EvaluateError, NAME};

impl Evaluation<'_> {
    pub(crate) fn binary(&mut self, binary: &Binary, at: i64) -> Result<Value, EvaluateError> {
        let left = self.value(&binary.left, at)?;
        let right = self.value(&binary.right, at)?;
        let operator = binary.operator;
        Ok(match (left, right) {
            (Value::Vector(left), Value::Vector(right)) => {
                self.work.spend(left.len() + right.len())?;
                Value::Vector(match operator {
                    Operator::And | Operator::Unless => kept(left, &right, &binary.matching, operator == Operator::And),
                    Operator::Or => united(left, right, &binary.matching),
                    _ => matched(left, right, binary)?,
                })
            }
            (Value::Vector(vector), scalar) => Value::Vector(with_scalar(vector, scalar.scalar(), binary, Side::Left)?),
            (scalar, Value::Vector(vector)) => Value::Vector(with_scalar(vector, scalar.scalar(), binary, Side::Right)?),
            (left, right) => {
                let (left, right) = (left.scalar(), right.scalar());
                Value::Scalar(if operator.is_comparison() {
                    f64::from(u8::from(compares(operator, left, right)))
                } else {
                    computed(operator, left, right)
                })
            }
        })
    }
}

#[allow(clippy::float_cmp, reason = "the language compares exactly")]
fn compares(operator: Operator, left: f64, right: f64) -> bool {
    match operator {
        Operator::Equal => left == right,
        Operator::NotEqual => left != right,
        Operator::Less => left < right,
        Operator::Greater => left > right,
        Operator::LessOrEqual => left <= right,
        _ => left >= right,
    }
}

fn computed(operator: Operator, left: f64, right: f64) -> f64 {
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Modulo => left % right,
        Operator::Power => left.powf(right),
        _ => left.atan2(right),
    }
}

/// The value of two, and whether it stays.
fn combined(operator: Operator, with_bool: bool, left: f64, right: f64) -> Option<f64> {
    if !operator.is_comparison() {
        return Some(computed(operator, left, right));
    }
    let holds = compares(operator, left, right);
    if with_bool { Some(f64::from(u8::from(holds))) } else { holds.then_some(left) }
}

/// Returns true if the result has another meaning than the metric.
fn drops_name(binary: &Binary) -> bool {
    binary.with_bool || !binary.operator.is_comparison() && binary.operator != Operator::Atan2
}

fn with_scalar(vector: Vec<Sample>, scalar: f64, binary: &Binary, side: Side) -> Result<Vec<Sample>, EvaluateError> {
    let mut found = Vec::with_capacity(vector.len());
    for Sample { labels, value } in vector {
        let (left, right) = if side == Side::Left { (value, scalar) } else { (scalar, value) };
        let Some(result) = combined(binary.operator, binary.with_bool, left, right) else { continue };
        // What a comparison keeps is the value of the series, on whichever side it stands.
        let result = if binary.operator.is_comparison() && !binary.with_bool { value } else { result };
        let labels = if drops_name(binary) { without_name(labels) } else { labels };
        found.push(Sample { labels, value: result });
    }
    unique(found)
}

/// The labels by which series are matched.
fn signature(labels: &Labels, matching: &Matching) -> Labels {
    if matching.is_on {
        let on = matching.labels.iter().filter_map(|label| Some((label.clone(), labels.get(label)?.clone())));
        return on.collect();
    }
    let ignored = |label: &String| label == NAME || matching.labels.contains(label);
    labels.iter().filter(|(label, _)| !ignored(label)).map(|(label, value)| (label.clone(), value.clone())).collect()
}

fn signatures(vector: &[Sample], matching: &Matching) -> HashSet<Labels> {
    vector.iter().map(|sample| signature(&sample.labels, matching)).collect()
}

/// `and` and `unless`.
fn kept(left: Vec<Sample>, right: &[Sample], matching: &Matching, is_and: bool) -> Vec<Sample> {
    let there = signatures(right, matching);
    left.into_iter().filter(|sample| there.contains(&signature(&sample.labels, matching)) == is_and).collect()
}

/// `or`.
fn united(mut left: Vec<Sample>, right: Vec<Sample>, matching: &Matching) -> Vec<Sample> {
    let there = signatures(&left, matching);
    left.extend(right.into_iter().filter(|sample| !there.contains(&signature(&sample.labels, matching))));
    left
}

fn matched(left: Vec<Sample>, right: Vec<Sample>, binary: &Binary) -> Result<Vec<Sample>, EvaluateError> {
    let matching = &binary.matching;
    if left.is_empty() || right.is_empty() {
        return Ok(Vec::new());
    }
    // The side where each series has other matched labels is `one`.
    let is_swapped = matching.group == Some(Side::Right);
    let (many, one) = if is_swapped { (right, left) } else { (left, right) };
    let mut ones: HashMap<Labels, Sample> = HashMap::with_capacity(one.len());
    for sample in one {
        let signature = signature(&sample.labels, matching);
        if ones.contains_key(&signature) {
            let side = if is_swapped { "left" } else { "right" };
            return Err(EvaluateError::ManyToMany { group: text(&signature), side });
        }
        ones.insert(signature, sample);
    }
    let mut taken = HashSet::new();
    let mut found = Vec::new();
    for sample in many {
        let signature = signature(&sample.labels, matching);
        let Some(other) = ones.get(&signature) else { continue };
        let (left, right) = if is_swapped { (other.value, sample.value) } else { (sample.value, other.value) };
        let Some(value) = combined(binary.operator, binary.with_bool, left, right) else { continue };
        let labels = result_labels(sample.labels, &other.labels, binary);
        let key = if matching.group.is_some() { labels.clone() } else { signature };
        if !taken.insert(key) {
            return Err(if matching.group.is_some() { EvaluateError::NotUnique } else { EvaluateError::ManyToOne });
        }
        found.push(Sample { labels, value });
    }
    unique(found)
}

fn result_labels(many: Labels, one: &Labels, binary: &Binary) -> Labels {
    let matching = &binary.matching;
    let mut labels = if drops_name(binary) { without_name(many) } else { many };
    if matching.group.is_none() {
        labels.retain(|label, _| matching.labels.contains(label) == matching.is_on);
    }
    for label in &matching.included {
        match one.get(label) {
            Some(value) => labels.insert(label.clone(), value.clone()),
            None => labels.remove(label),
        };
    }
    labels
}

fn text(labels: &Labels) -> String {
    let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value:?}")).collect();
    format!("{{{}}}", labels.join(", "))
}
