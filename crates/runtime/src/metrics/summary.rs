//! Summaries: quantiles of what was observed lately, which `prometheus-client` does not have.
//!
//! ```text
//!   Summary ── three families of unknown type: X, X_sum, X_count ──► page ── joined ──► one family X of type summary
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// The time for which an observation counts for the quantiles, as in Go's client.
const RECENT: Duration = Duration::from_secs(600);
/// Observations that are kept per series for the quantiles; older ones make room.
const KEPT: usize = 4096;

/// A summary with one label. Clones share it.
#[derive(Clone, Debug)]
pub struct Summary {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    quantiles: &'static [f64],
    series: Arc<Mutex<BTreeMap<String, Series>>>,
}

/// The observations under one value of the label.
#[derive(Debug, Default)]
struct Series {
    count: u64,
    sum: f64,
    recent: VecDeque<(Instant, f64)>,
}

/// The labels of one sample.
#[derive(Debug)]
struct Sample<'a> {
    label: (&'static str, &'a str),
    quantile: Option<f64>,
}

impl EncodeLabelSet for Sample<'_> {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelSetEncoder<'_>) -> fmt::Result {
        use prometheus_client::encoding::EncodeLabel as _;
        self.label.encode(encoder.encode_label())?;
        match self.quantile {
            Some(quantile) => ("quantile", quantile.to_string()).encode(encoder.encode_label()),
            None => Ok(()),
        }
    }
}

impl Summary {
    /// Makes a summary of these quantiles, by one label.
    pub fn new(name: &'static str, help: &'static str, label: &'static str, quantiles: &'static [f64]) -> Self {
        Self { name, help, label, quantiles, series: Arc::default() }
    }

    /// Adds an observation under a value of the label.
    pub fn observe(&self, value: &str, observed: f64) {
        self.observe_at(value, observed, Instant::now());
    }

    fn observe_at(&self, value: &str, observed: f64, now: Instant) {
        let mut all = self.series();
        let series = all.entry(value.to_owned()).or_default();
        series.count += 1;
        series.sum += observed;
        if series.recent.len() == KEPT {
            series.recent.pop_front();
        }
        series.recent.push_back((now, observed));
    }

    fn series(&self) -> MutexGuard<'_, BTreeMap<String, Series>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn encode_at(&self, encoder: &mut DescriptorEncoder<'_>, now: Instant) -> fmt::Result {
        let all = self.series();
        if all.is_empty() {
            return Ok(());
        }
        let labels = |value, quantile| Sample { label: (self.label, value), quantile };
        let mut family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Unknown)?;
        for (value, series) in &*all {
            let sorted = series.sorted(now);
            for quantile in self.quantiles {
                let labels = labels(value, Some(*quantile));
                ConstGauge::new(at(&sorted, *quantile)).encode(family.encode_family(&labels)?)?;
            }
        }
        let name = format!("{}_sum", self.name);
        let mut family = encoder.encode_descriptor(&name, self.help, None, MetricType::Unknown)?;
        for (value, series) in &*all {
            ConstGauge::new(series.sum).encode(family.encode_family(&labels(value, None))?)?;
        }
        let name = format!("{}_count", self.name);
        let mut family = encoder.encode_descriptor(&name, self.help, None, MetricType::Unknown)?;
        for (value, series) in &*all {
            ConstGauge::new(series.count).encode(family.encode_family(&labels(value, None))?)?;
        }
        Ok(())
    }
}

impl Collector for Summary {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_at(&mut encoder, Instant::now())
    }
}

impl Series {
    /// The observations that count, the least first.
    fn sorted(&self, now: Instant) -> Vec<f64> {
        let recent = self.recent.iter().filter(|(at, _)| now.saturating_duration_since(*at) < RECENT);
        let mut sorted: Vec<f64> = recent.map(|(_, observed)| *observed).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// The least observation that is not below this share of all; none is no number, as in Go's client.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand at most")]
fn at(sorted: &[f64], quantile: f64) -> f64 {
    let rank = (quantile * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// Joins the three families of each summary on a page to one.
pub(super) fn joined(page: &str) -> String {
    let unknown = |line: &str| line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" unknown")).map(str::to_owned);
    let families: std::collections::BTreeSet<String> = page.lines().filter_map(unknown).collect();
    let is_summary = |name: &str| families.contains(&format!("{name}_sum")) && families.contains(&format!("{name}_count"));
    let is_part = |name: &str| name.strip_suffix("_sum").or_else(|| name.strip_suffix("_count")).is_some_and(is_summary);
    if !families.iter().any(|name| is_summary(name)) {
        return page.to_owned();
    }
    let mut out = String::with_capacity(page.len());
    for line in page.lines() {
        let described = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        let described = described.and_then(|rest| rest.split(' ').next());
        match described {
            Some(name) if is_part(name) => continue,
            Some(name) if is_summary(name) && line.starts_with("# TYPE ") => out.extend(["# TYPE ", name, " summary"]),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{Format, Metrics};
    use super::*;

    const SUMMARY: &str = "took_seconds";

    fn summary() -> Summary {
        Summary::new(SUMMARY, "How long it took.", "outcome", &[0.5, 0.9])
    }

    /// OLM0-MET-01: a summary as Prometheus reads it, in both formats; other families stay as they are.
    #[test]
    fn the_page() {
        let metrics = Metrics::default();
        let summary = summary();
        metrics.register(|registry| registry.register_collector(Box::new(summary.clone())));
        assert!(!metrics.page().unwrap().contains(SUMMARY), "nothing was observed");
        for observed in 1..=10_u8 {
            summary.observe("succeeded", f64::from(observed));
        }
        summary.observe("failed", 0.25);
        let expected = "# HELP took_seconds How long it took.\n# TYPE took_seconds summary\n\
            took_seconds{outcome=\"failed\",quantile=\"0.5\"} 0.25\ntook_seconds{outcome=\"failed\",quantile=\"0.9\"} 0.25\n\
            took_seconds{outcome=\"succeeded\",quantile=\"0.5\"} 5.0\ntook_seconds{outcome=\"succeeded\",quantile=\"0.9\"} 9.0\n\
            took_seconds_sum{outcome=\"failed\"} 0.25\ntook_seconds_sum{outcome=\"succeeded\"} 55.0\n\
            took_seconds_count{outcome=\"failed\"} 1\ntook_seconds_count{outcome=\"succeeded\"} 10\n";
        for format in [Format::Text, Format::OpenMetrics] {
            let page = metrics.page_as(format).unwrap();
            assert!(page.contains(expected), "{page}");
            assert_eq!(page.ends_with("# EOF\n"), format == Format::OpenMetrics);
        }
    }

    /// OLM0-MET-01: quantiles are those of the last ten minutes, sum and count those of all time.
    #[test]
    fn old_observations_do_not_count() {
        let (summary, begun) = (summary(), Instant::now());
        summary.observe_at("succeeded", 100.0, begun);
        let later = begun + RECENT;
        summary.observe_at("succeeded", 1.0, later);
        let all = summary.series();
        let series = all.get("succeeded").unwrap();
        assert_eq!((series.count, series.sorted(later)), (2, vec![1.0]));
        assert!(at(&series.sorted(later + RECENT), 0.9).is_nan());
        drop(all);
        for _ in 0..=KEPT {
            summary.observe_at("succeeded", 2.0, later);
        }
        assert_eq!(summary.series().get("succeeded").unwrap().recent.len(), KEPT);
    }
}
