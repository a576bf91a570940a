//! Aggregations over series.

use std::collections::HashMap;

use crate::evaluate::{Evaluation, unique};
use crate::expr::{Aggregate, Grouping};
use crate::samples::{Labels, Sample};
use crate::{EvaluateError, NAME};

impl Evaluation<'_> {
    pub(crate) fn aggregate(&mut self, aggregate: &Aggregate, at: i64) -> Result<Vec<Sample>, EvaluateError> {
        let parameter = aggregate.parameter.as_ref().map(|parameter| self.value(parameter, at)).transpose()?;
        let vector = self.value(&aggregate.inner, at)?.vector();
        self.work.spend(vector.len())?;
        let number = parameter.as_ref().map_or(f64::NAN, super::evaluate::Value::scalar);
        let grouped = grouped(vector, &aggregate.grouping);
        let operator = aggregate.operator.as_str();
        let mut found = Vec::new();
        for (labels, members) in grouped {
            let values: Vec<f64> = members.iter().map(|member| member.value).collect();
            let value = match operator {
                "sum" => sum(&values),
                "avg" => average(&values),
                "min" => least(&values),
                "max" => -least(&values.iter().map(|value| -value).collect::<Vec<_>>()),
                "count" => count(values.len()),
                "group" => 1.0,
                "stdvar" => variance(&values),
                "stddev" => variance(&values).sqrt(),
                "quantile" => quantile(number, &values),
                "topk" | "bottomk" => {
                    found.extend(ends(members, number, operator == "topk"));
                    continue;
                }
                "count_values" => {
                    let label = parameter.as_ref().map_or("", super::evaluate::Value::text);
                    found.extend(counted(&labels, &values, label));
                    continue;
                }
                other => return Err(EvaluateError::Unsupported(other.to_owned())),
            };
            found.push(Sample { labels, value });
        }
        unique(found)
    }
}

fn grouped(vector: Vec<Sample>, grouping: &Grouping) -> Vec<(Labels, Vec<Sample>)> {
    let mut places: HashMap<Labels, usize> = HashMap::new();
    let mut groups: Vec<(Labels, Vec<Sample>)> = Vec::new();
    for sample in vector {
        let listed = |label: &String| grouping.labels.contains(label);
        let stays = |label: &String| if grouping.is_without { label != NAME && !listed(label) } else { listed(label) };
        let labels: Labels =
            sample.labels.iter().filter(|(label, _)| stays(label)).map(|(label, value)| (label.clone(), value.clone())).collect();
        let place = *places.entry(labels).or_insert_with_key(|labels| {
            groups.push((labels.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(sample);
    }
    groups
}

#[allow(clippy::cast_precision_loss, reason = "the language counts in floats")]
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}

/// A sum with the error of each addition made up for (Kahan, Neumaier).
pub(crate) fn sum(values: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for &value in values {
        let next = sum + value;
        if next.is_infinite() {
            lost = 0.0;
        } else if sum.abs() >= value.abs() {
            lost += (sum - next) + value;
        } else {
            lost += (value - next) + sum;
        }
        sum = next;
    }
    if sum.is_infinite() { sum } else { sum + lost }
}

pub(crate) fn average(values: &[f64]) -> f64 {
    let sum = sum(values);
    if sum.is_finite() || values.iter().any(|value| !value.is_finite()) {
        return sum / count(values.len());
    }
    // The sum is beyond a float, its average need not be.
    values.iter().map(|value| value / count(values.len())).sum()
}

/// The least value; NaN only if there is no other.
pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().reduce(|least, value| if value < least || least.is_nan() { value } else { least }).unwrap_or(f64::NAN)
}

pub(crate) fn variance(values: &[f64]) -> f64 {
    let (mut mean, mut squares) = (0.0, 0.0);
    for (before, value) in values.iter().enumerate() {
        let delta = value - mean;
        mean += delta / count(before + 1);
        squares += delta * (value - mean);
    }
    squares / count(values.len())
}

/// The value below which that share of the values is, between two of them by their distance.
pub(crate) fn quantile(share: f64, values: &[f64]) -> f64 {
    if values.is_empty() || share.is_nan() {
        return f64::NAN;
    }
    if share < 0.0 {
        return f64::NEG_INFINITY;
    }
    if share > 1.0 {
        return f64::INFINITY;
    }
    let mut sorted = values.to_vec();
    // NaN is less than any number here.
    sorted.sort_by(|a, b| b.is_nan().cmp(&a.is_nan()).then(a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)));
    let rank = share * (count(sorted.len()) - 1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank is between 0 and the number of values")]
    let below = rank.floor().max(0.0) as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let weight = rank - rank.floor();
    sorted[below] * (1.0 - weight) + sorted[above] * weight
}

/// The greatest or the least members.
fn ends(mut members: Vec<Sample>, number: f64, is_greatest: bool) -> Vec<Sample> {
    // NaN comes last on both sides.
    members.sort_by(|a, b| {
        let order = a.value.partial_cmp(&b.value).unwrap_or(std::cmp::Ordering::Equal);
        let order = if is_greatest { order.reverse() } else { order };
        a.value.is_nan().cmp(&b.value.is_nan()).then(order)
    });
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of members; below 1 none")]
    members.truncate(number.max(0.0) as usize);
    members
}

fn counted(labels: &Labels, values: &[f64], label: &str) -> Vec<Sample> {
    let mut counts: Vec<(String, f64)> = Vec::new();
    for value in values {
        let text = number_text(*value);
        match counts.iter_mut().find(|(other, _)| *other == text) {
            Some((_, count)) => *count += 1.0,
            None => counts.push((text, 1.0)),
        }
    }
    let with = |text: String| labels.clone().into_iter().chain([(label.to_owned(), text)]).collect();
    counts.into_iter().map(|(text, value)| Sample { labels: with(text), value }).collect()
}

/// A number as Prometheus writes it.
pub(crate) fn number_text(value: f64) -> String {
    if value.is_infinite() { (if value > 0.0 { "+Inf" } else { "-Inf" }).to_owned() } else { value.to_string() }
}
