//! The metrics page of the operator: what it counts itself, and what the cluster shows when the page is asked for (CVO-MET-02).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use mainstay_api::condition::Status;
use mainstay_api::config_v1::StatusCondition;
use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::metrics::{ALL, Sample};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Numbers that the operator counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Counts>);

/// The numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Failed attempts at manifests, by version.
    pub payload_errors: BTreeMap<String, u64>,
    /// Changes of conditions, by name and type.
    pub transitions: BTreeMap<(String, String), u64>,
    /// The last successful retrieval of updates.
    pub retrieved: Option<Timestamp>,
    /// Passes over the manifests, by mode and end: how many, and the time that they took.
    pub passes: BTreeMap<(&'static str, &'static str), (u64, Duration)>,
    /// The status of each condition when it was seen last.
    seen: BTreeMap<(String, String), Status>,
}

impl Metrics {
    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The numbers as they are.
    pub fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a failed attempt at a manifest of a version.
    pub fn payload_error(&self, version: &str) {
        self.change(|counts| *counts.payload_errors.entry(version.to_owned()).or_default() += 1);
    }

    /// Counts a pass over the manifests.
    pub fn passed(&self, mode: Mode, end: &'static str, took: Duration) {
        let mode = match mode {
            Mode::Initializing => "initializing",
            Mode::Updating => "updating",
            Mode::Reconciling => "reconciling",
        };
        self.change(|counts| {
            let (count, time) = counts.passes.entry((mode, end)).or_default();
            *count += 1;
            *time += took;
        });
    }

    /// Notes the time of a retrieval that succeeded.
    pub fn retrieved<T, E>(&self, outcome: &Result<T, E>, now: Timestamp) {
        if outcome.is_ok() {
            self.change(|counts| counts.retrieved = Some(now));
        }
    }

    /// Counts the conditions of an object whose status is another than before.
    pub fn seen(&self, name: &str, conditions: &[StatusCondition]) {
        self.change(|counts| {
            for condition in conditions {
                let key = (name.to_owned(), condition.kind.clone());
                let before = counts.seen.insert(key.clone(), condition.status);
                if before.is_some_and(|before| before != condition.status) {
                    *counts.transitions.entry(key).or_default() += 1;
                }
            }
        });
    }
}

/// The source of the page's samples.
pub(crate) trait Samples: Send + Sync + 'static {
    /// Every sample at this moment.
    fn samples(&self) -> Vec<Sample>;

    /// The numbers that upstream has no names for.
    fn counts(&self) -> Counts;
}

/// The page while the operator runs.
pub(crate) struct Page<S>(pub Weak<S>);

impl<S> fmt::Debug for Page<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Page")
    }
}

impl<S: Samples> Collector for Page<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(source) = self.0.upgrade() else { return Ok(()) };
        let samples = source.samples();
        for metric in ALL {
            let kind = if metric.is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            for sample in samples.iter().filter(|sample| sample.metric == metric) {
                let labels: Vec<(&str, &str)> = metric.labels.iter().copied().zip(sample.labels.iter().map(String::as_str)).collect();
                let labels = labels.as_slice();
                let line = family.encode_family(&labels)?;
                if metric.is_counter {
                    ConstCounter::new(sample.value).encode(line)?;
                } else {
                    ConstGauge::new(sample.value).encode(line)?;
                }
            }
        }
        let passes = source.counts().passes;
        let mut family =
            encoder.encode_descriptor("mainstay_cluster_version_passes", "Passes over the manifests", None, MetricType::Counter)?;
        for ((mode, end), (count, _)) in &passes {
            ConstCounter::new(*count).encode(family.encode_family(&[("mode", *mode), ("end", *end)])?)?;
        }
        let help = "The time of these passes";
        let mut family = encoder.encode_descriptor("mainstay_cluster_version_pass_seconds", help, None, MetricType::Counter)?;
        for ((mode, end), (_, time)) in &passes {
            ConstCounter::new(time.as_secs_f64()).encode(family.encode_family(&[("mode", *mode), ("end", *end)])?)?;
        }
        Ok(())
    }
}
