//! Figures of the loops, under the names that controller-runtime gives them (MS-OPS-01), and of the process.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::Counts;

mod format;
mod process;
mod sizes;

pub use format::Format;
pub use sizes::Size;

use process::Process;
use sizes::Sizes;

/// controller-runtime's buckets, in seconds, without every second one.
const SECONDS: [f64; 16] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconciled {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reporter {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Named {
    name: &'static str,
}

/// The figures of one process.
pub struct Metrics {
    registry: Mutex<Registry>,
    queues: Arc<Queues>,
    sizes: Arc<Sizes>,
    reconciled: Family<Reconciled, Counter>,
    failed: Family<Controller, Counter>,
    seconds: Family<Controller, Histogram, fn() -> Histogram>,
    active: Family<Controller, Gauge>,
    events_dropped: Family<Reporter, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let metrics = Self {
            registry: Mutex::default(),
            queues: Arc::default(),
            sizes: Arc::default(),
            reconciled: Family::default(),
            failed: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            active: Family::default(),
            events_dropped: Family::default(),
        };
        metrics.register(|registry| {
            registry.register("controller_runtime_reconcile", "Reconciles by controller and how they ended", metrics.reconciled.clone());
            registry.register("controller_runtime_reconcile_errors", "Reconciles that ended in an error", metrics.failed.clone());
            registry.register("controller_runtime_reconcile_time_seconds", "How long reconciles took", metrics.seconds.clone());
            registry.register("controller_runtime_active_workers", "Workers that reconcile right now", metrics.active.clone());
            let dropped = "Events that were not written because too many waited";
            registry.register("mainstay_events_dropped", dropped, metrics.events_dropped.clone());
            registry.register_collector(Box::new(metrics.queues.clone()));
            registry.register_collector(Box::new(metrics.sizes.clone()));
            registry.register_collector(Box::new(Process { begun: SystemTime::now() }));
        });
        metrics
    }
}

impl Metrics {
    /// Adds figures of somebody else.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        // Registering appends; a panic in between leaves a registry that can be printed.
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The page in the form that is asked for.
    pub fn page_as(&self, format: Format) -> Result<String, fmt::Error> {
        let page = self.page()?;
        Ok(if format == Format::Text { format::as_text(&page) } else { page })
    }

    /// The page in OpenMetrics' form.
    pub fn page(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(page)
    }

    /// Shows a queue for as long as the answer lives.
    pub(crate) fn show_queue(&self, name: &'static str, counts: impl Fn() -> Counts + Send + Sync + 'static) -> Shown {
        let id = self.queues.next.fetch_add(1, Ordering::Relaxed);
        self.queues.all().push(Queue { id, name, counts: Box::new(counts) });
        Shown { queues: self.queues.clone(), id }
    }

    /// Shows how large a cache is until `measure` says that it is gone: `cache` is what it is for, `kind` what it holds.
    pub fn show_size(&self, cache: &'static str, kind: &str, measure: impl Fn() -> Option<Size> + Send + Sync + 'static) {
        self.sizes.show(cache, kind, measure);
    }

    /// An event of a controller was not written because too many waited.
    pub fn event_dropped(&self, controller: &str) {
        self.events_dropped.get_or_create(&Reporter { controller: controller.to_owned() }).inc();
    }

    /// A reconcile begins.
    pub(crate) fn reconcile(&self, controller: &'static str) -> Measured<'_> {
        self.active.get_or_create(&Controller { controller }).inc();
        Measured { metrics: self, controller, begun: Instant::now() }
    }
}

/// A reconcile under way.
pub(crate) struct Measured<'a> {
    metrics: &'a Metrics,
    controller: &'static str,
    begun: Instant,
}

impl Measured<'_> {
    /// It ended like this.
    pub(crate) fn ended(&self, result: &'static str) {
        let controller = self.controller;
        self.metrics.reconciled.get_or_create(&Reconciled { controller, result }).inc();
        let failed = self.metrics.failed.get_or_create(&Controller { controller });
        if result == "error" {
            failed.inc();
        }
        drop(failed);
        self.metrics.seconds.get_or_create(&Controller { controller }).observe(self.begun.elapsed().as_secs_f64());
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        // A reconcile that is cut off does not end, but its worker is free.
        self.metrics.active.get_or_create(&Controller { controller: self.controller }).dec();
    }
}

/// Keeps a queue on the page.
pub(crate) struct Shown {
    queues: Arc<Queues>,
    id: u64,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.queues.all().retain(|queue| queue.id != self.id);
    }
}

/// One of the sums of a queue.
type Sum = fn(&Counts) -> u64;

#[derive(Default)]
struct Queues {
    next: AtomicU64,
    all: Mutex<Vec<Queue>>,
}

struct Queue {
    id: u64,
    name: &'static str,
    counts: Box<dyn Fn() -> Counts + Send + Sync>,
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues").finish_non_exhaustive()
    }
}

impl Queues {
    fn all(&self) -> MutexGuard<'_, Vec<Queue>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut counts: Vec<(&'static str, Counts)> = self.all().iter().map(|queue| (queue.name, (queue.counts)())).collect();
        // Two queues of one name would make two series of one name.
        counts.sort_by_key(|(name, _)| *name);
        counts.dedup_by_key(|(name, _)| *name);
        let mut depth = encoder.encode_descriptor("workqueue_depth", "Keys that wait to be worked on", None, MetricType::Gauge)?;
        for (name, counts) in &counts {
            let value = i64::try_from(counts.ready).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(depth.encode_family(&Named { name })?)?;
        }
        let sums: [(&str, &str, Sum); 2] = [
            ("workqueue_adds", "Keys that were added", |counts| counts.added),
            ("workqueue_retries", "Keys that were added again after a failure", |counts| counts.retried),
        ];
        for (metric, help, value) in sums {
            let mut family = encoder.encode_descriptor(metric, help, None, MetricType::Counter)?;
            for (name, counts) in &counts {
                ConstCounter::new(value(counts)).encode(family.encode_family(&Named { name })?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Queue as Work;

    /// MS-OPS-01: the names of controller-runtime, a queue as long as it is there, and the process.
    #[test]
    fn the_page_has_the_names_of_controller_runtime() {
        let metrics = Metrics::default();
        let queue: Work<&str> = Work::default();
        queue.add("a");
        queue.add("a");
        let counted = queue.clone();
        let shown = metrics.show_queue("widgets", move || counted.counts());
        let running = metrics.reconcile("widgets");
        running.ended("success");
        metrics.reconcile("widgets").ended("error");
        let page = metrics.page().unwrap();
        for line in [
            "controller_runtime_reconcile_total{controller=\"widgets\",result=\"success\"} 1\n",
            "controller_runtime_reconcile_time_seconds_count{controller=\"widgets\"} 2\n",
            "controller_runtime_reconcile_errors_total{controller=\"widgets\"} 1\n",
            "controller_runtime_active_workers{controller=\"widgets\"} 1\n",
            "workqueue_depth{name=\"widgets\"} 1\n",
            "workqueue_adds_total{name=\"widgets\"} 1\n",
            "workqueue_retries_total{name=\"widgets\"} 0\n",
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "process_open_fds ",
            "process_start_time_seconds ",
        ] {
            assert!(page.contains(line), "{line:?} is missing: {page}");
        }
        drop((running, shown));
        let page = metrics.page().unwrap();
        assert!(page.contains("controller_runtime_active_workers{controller=\"widgets\"} 0\n"), "{page}");
        assert!(!page.contains("workqueue_depth{"), "{page}");
    }
}
