//! Quantiles of classic histograms: series with the upper limit of their bucket in label `le`.

use std::collections::BTreeMap;

use crate::EvaluateError;
use crate::evaluate::{unique, without_name};
use crate::samples::{Labels, Sample};

const LIMIT: &str = "le";

pub(crate) fn quantiles(share: f64, vector: Vec<Sample>) -> Result<Vec<Sample>, EvaluateError> {
    let mut groups: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for Sample { labels, value } in vector {
        let mut labels = without_name(labels);
        let Some(limit) = labels.remove(LIMIT).and_then(|limit| limit.parse::<f64>().ok()) else { continue };
        groups.entry(labels).or_default().push((limit, value));
    }
    unique(groups.into_iter().map(|(labels, buckets)| Sample { labels, value: quantile(share, buckets) }).collect())
}

fn quantile(share: f64, mut buckets: Vec<(f64, f64)>) -> f64 {
    if share.is_nan() {
        return f64::NAN;
    }
    if share < 0.0 {
        return f64::NEG_INFINITY;
    }
    if share > 1.0 {
        return f64::INFINITY;
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    if buckets.last().is_none_or(|(limit, _)| *limit != f64::INFINITY) {
        return f64::NAN;
    }
    // Buckets of one limit are added, and counts never fall.
    buckets.dedup_by(|later, kept| {
        let is_same = later.0.total_cmp(&kept.0).is_eq();
        if is_same {
            kept.1 += later.1;
        }
        is_same
    });
    let mut most = f64::NEG_INFINITY;
    for (_, count) in &mut buckets {
        most = most.max(*count);
        *count = most;
    }
    if buckets.len() < 2 {
        return f64::NAN;
    }
    let total = buckets.last().map_or(0.0, |(_, count)| *count);
    if total == 0.0 || total.is_nan() {
        return f64::NAN;
    }
    let rank = share * total;
    let inner = &buckets[..buckets.len() - 1];
    let place = inner.iter().position(|(_, count)| *count >= rank).unwrap_or(inner.len());
    if place == inner.len() {
        return inner.last().map_or(f64::NAN, |(limit, _)| *limit);
    }
    let (end, count) = inner[place];
    if place == 0 && end <= 0.0 {
        return end;
    }
    let (begin, before) = if place == 0 { (0.0, 0.0) } else { inner[place - 1] };
    begin + (end - begin) * ((rank - before) / (count - before))
}
