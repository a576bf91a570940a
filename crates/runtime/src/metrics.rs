//! Metrics of the controllers, under controller-runtime's names (MS-OPS-01), and of the process.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::queue::QueueMetrics;

mod format;
mod process;
mod shared;
mod sizes;
mod summary;

pub use format::Format;
pub(crate) use shared::{Sent, leads};
pub use sizes::Size;
pub use summary::Summary;

use process::Process;
use sizes::Sizes;

/// controller-runtime's buckets, in seconds.
const SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0,
    3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
/// The results of a reconcile.
const RESULTS: [&str; 4] = ["success", "error", "requeue", "requeue_after"];

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
    controller: &'static str,
}

impl Named {
    /// Creates the labels of a queue, which has its controller's name.
    fn of(name: &'static str) -> Self {
        Self { name, controller: name }
    }
}

/// The metrics of one process.
pub struct Metrics {
    registry: Mutex<Registry>,
    queues: Arc<Queues>,
    sizes: Arc<Sizes>,
    reconciled: Family<Reconciled, Counter>,
    failed: Family<Controller, Counter>,
    failed_for_good: Family<Controller, Counter>,
    panicked: Family<Controller, Counter>,
    workers: Family<Controller, Gauge>,
    seconds: Family<Controller, Histogram, fn() -> Histogram>,
    active: Family<Controller, Gauge>,
    events_dropped: Family<Reporter, Counter>,
    certificates_read: Counter,
    certificates_failed: Counter,
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
            failed_for_good: Family::default(),
            panicked: Family::default(),
            workers: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            active: Family::default(),
            events_dropped: Family::default(),
            certificates_read: Counter::default(),
            certificates_failed: Counter::default(),
        };
        metrics.register(|registry| {
            registry.register("controller_runtime_reconcile", "Reconciles by controller and how they ended", metrics.reconciled.clone());
            registry.register("controller_runtime_reconcile_errors", "Reconciles that ended in an error", metrics.failed.clone());
            let terminal = "Reconciles that ended in an error that trying again does not mend";
            registry.register("controller_runtime_terminal_reconcile_errors", terminal, metrics.failed_for_good.clone());
            registry.register("controller_runtime_reconcile_panics", "Reconciles that panicked", metrics.panicked.clone());
            let workers = "Reconciles that may run at a time";
            registry.register("controller_runtime_max_concurrent_reconciles", workers, metrics.workers.clone());
            registry.register("controller_runtime_reconcile_time_seconds", "How long reconciles took", metrics.seconds.clone());
            registry.register("controller_runtime_active_workers", "Workers that reconcile right now", metrics.active.clone());
            let dropped = "Events that were not written because too many waited";
            registry.register("mainstay_events_dropped", dropped, metrics.events_dropped.clone());
            let read = "Readings of serving certificates from their files";
            registry.register("certwatcher_read_certificate", read, metrics.certificates_read.clone());
            let failed = "Readings of serving certificates that failed";
            registry.register("certwatcher_read_certificate_errors", failed, metrics.certificates_failed.clone());
            registry.register("rest_client_requests", "Requests to API servers by code, method and host", shared::REQUESTS.clone());
            registry.register("leader_election_master_status", "1 where this process holds the Lease, else 0", shared::LEADING.clone());
            registry.register_collector(Box::new(metrics.queues.clone()));
            registry.register_collector(Box::new(metrics.sizes.clone()));
            registry.register_collector(Box::new(Process { begun: SystemTime::now() }));
        });
        metrics
    }
}

impl Metrics {
    /// Adds metrics of another component.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        // Registering appends; a panic in between leaves a registry that can be printed.
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the page in the requested format.
    pub fn page_as(&self, format: Format) -> Result<String, fmt::Error> {
        Ok(format.write(&self.page()?))
    }

    /// Returns the page in the OpenMetrics format.
    pub fn page(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(summary::joined(&page))
    }

    /// Adds a queue to the page for as long as the returned value lives.
    pub(crate) fn show_queue(&self, name: &'static str, measured: impl Fn() -> QueueMetrics + Send + Sync + 'static) -> Shown {
        let id = self.queues.next.fetch_add(1, Ordering::Relaxed);
        self.queues.all().push(Queue { id, name, measured: Box::new(measured) });
        Shown { queues: self.queues.clone(), id }
    }

    /// Adds the size of a cache until `measure` returns `None`. `cache` names its purpose, `kind` its content.
    pub fn show_size(&self, cache: &'static str, kind: &str, measure: impl Fn() -> Option<Size> + Send + Sync + 'static) {
        self.sizes.show(cache, kind, measure);
    }

    /// Counts an event of a controller that was dropped because too many waited.
    pub fn event_dropped(&self, controller: &str) {
        self.events_dropped.get_or_create(&Reporter { controller: controller.to_owned() }).inc();
    }

    /// Counts a read of a serving certificate's files, and a failed one also as a failure.
    pub fn certificate_read(&self, succeeded: bool) {
        self.certificates_read.inc();
        if !succeeded {
            self.certificates_failed.inc();
        }
    }

    /// Adds a controller before its first reconcile, with its number of workers.
    pub(crate) fn show_controller(&self, controller: &'static str, workers: usize) {
        let of = Controller { controller };
        self.workers.get_or_create(&of).set(i64::try_from(workers).unwrap_or(i64::MAX));
        drop(self.active.get_or_create(&of));
        for counter in [&self.failed, &self.failed_for_good, &self.panicked] {
            drop(counter.get_or_create(&of));
        }
        for result in RESULTS {
            drop(self.reconciled.get_or_create(&Reconciled { controller, result }));
        }
    }

    /// Starts the measurement of a reconcile.
    pub(crate) fn reconcile(&self, controller: &'static str) -> Measured<'_> {
        self.active.get_or_create(&Controller { controller }).inc();
        Measured { metrics: self, controller, begun: Instant::now() }
    }
}

/// A measured reconcile in progress.
pub(crate) struct Measured<'a> {
    metrics: &'a Metrics,
    controller: &'static str,
    begun: Instant,
}

impl Measured<'_> {
    /// Counts a permanent error.
    pub(crate) fn failed_for_good(&self) {
        self.metrics.failed_for_good.get_or_create(&Controller { controller: self.controller }).inc();
        self.ended("error");
    }

    /// Counts a panic.
    pub(crate) fn panicked(&self) {
        self.metrics.panicked.get_or_create(&Controller { controller: self.controller }).inc();
        self.ended("error");
    }

    /// Records the end with this result.
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
        // An aborted reconcile has no result, but its worker is free.
        self.metrics.active.get_or_create(&Controller { controller: self.controller }).dec();
    }
}

/// A guard that keeps a queue on the page.
pub(crate) struct Shown {
    queues: Arc<Queues>,
    id: u64,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.queues.all().retain(|queue| queue.id != self.id);
    }
}

#[derive(Default)]
struct Queues {
    next: AtomicU64,
    all: Mutex<Vec<Queue>>,
}

struct Queue {
    id: u64,
    name: &'static str,
    measured: Box<dyn Fn() -> QueueMetrics + Send + Sync>,
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
        let mut measured: Vec<(&'static str, QueueMetrics)> = self.all().iter().map(|queue| (queue.name, (queue.measured)())).collect();
        // Two queues with one name would produce duplicate series.
        measured.sort_by_key(|(name, _)| *name);
        measured.dedup_by_key(|(name, _)| *name);
        let mut add = |metric: &str, help: &str, of: MetricType, encode: &dyn Fn(&QueueMetrics, MetricEncoder<'_>) -> fmt::Result| {
            let mut family = encoder.encode_descriptor(metric, help, None, of)?;
            measured.iter().try_for_each(|(name, measured)| encode(measured, family.encode_family(&Named::of(name))?))
        };
        let (gauge, counter, histogram) = (MetricType::Gauge, MetricType::Counter, MetricType::Histogram);
        add("workqueue_depth", "Keys that wait to be worked on", gauge, &|measured, to| {
            ConstGauge::new(i64::try_from(measured.counts.ready).unwrap_or(i64::MAX)).encode(to)
        })?;
        add("workqueue_adds", "Keys that were added", counter, &|measured, to| ConstCounter::new(measured.counts.added).encode(to))?;
        add("workqueue_retries", "Keys that were added again after a failure", counter, &|measured, to| {
            ConstCounter::new(measured.counts.retried).encode(to)
        })?;
        add("workqueue_queue_duration_seconds", "How long keys waited to be worked on", histogram, &|measured, to| {
            measured.waited.encode(to)
        })?;
        add("workqueue_work_duration_seconds", "How long keys were worked on", histogram, &|measured, to| measured.worked.encode(to))?;
        let unfinished = "How long the keys that are worked on now have been so, together";
        add("workqueue_unfinished_work_seconds", unfinished, gauge, &|measured, to| {
            ConstGauge::new(measured.unfinished.as_secs_f64()).encode(to)
        })?;
        let longest = "How long the key that is worked on longest has been so";
        add("workqueue_longest_running_processor_seconds", longest, gauge, &|measured, to| {
            ConstGauge::new(measured.longest.as_secs_f64()).encode(to)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;
    use crate::Queue as Work;

    /// MS-OPS-01: the names of controller-runtime, a queue as long as it is there, and the process.
    #[tokio::test(start_paused = true)]
    async fn the_page_has_the_names_of_controller_runtime() {
        let metrics = Metrics::default();
        let queue: Work<&str> = Work::default();
        for key in ["a", "a", "b", "c"] {
            queue.add(key);
        }
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!((queue.next().await, queue.next().await), (Some("a"), Some("b")));
        tokio::time::advance(Duration::from_secs(20)).await;
        queue.done(&"a");
        let counted = queue.clone();
        let shown = metrics.show_queue("widgets", move || counted.measured());
        metrics.show_controller("widgets", 4);
        Sent::new("PATCH", "there:6443").answered("409");
        drop(Sent::new("GET", "there:6443"));
        leads("some-lease", true);
        leads("other-lease", false);
        metrics.certificate_read(true);
        metrics.certificate_read(false);
        let running = metrics.reconcile("widgets");
        running.ended("success");
        metrics.reconcile("widgets").ended("error");
        metrics.reconcile("widgets").failed_for_good();
        metrics.reconcile("widgets").panicked();
        let page = metrics.page().unwrap();
        for line in [
            "controller_runtime_reconcile_total{controller=\"widgets\",result=\"success\"} 1\n",
            "controller_runtime_reconcile_total{controller=\"widgets\",result=\"requeue_after\"} 0\n",
            "controller_runtime_reconcile_time_seconds_count{controller=\"widgets\"} 4\n",
            "controller_runtime_reconcile_time_seconds_bucket{le=\"0.15\",controller=\"widgets\"} 4\n",
            "controller_runtime_reconcile_errors_total{controller=\"widgets\"} 3\n",
            "controller_runtime_terminal_reconcile_errors_total{controller=\"widgets\"} 1\n",
            "controller_runtime_reconcile_panics_total{controller=\"widgets\"} 1\n",
            "controller_runtime_max_concurrent_reconciles{controller=\"widgets\"} 4\n",
            "controller_runtime_active_workers{controller=\"widgets\"} 1\n",
            "workqueue_depth{name=\"widgets\",controller=\"widgets\"} 1\n",
            "workqueue_adds_total{name=\"widgets\",controller=\"widgets\"} 3\n",
            "workqueue_retries_total{name=\"widgets\",controller=\"widgets\"} 0\n",
            "# TYPE workqueue_queue_duration_seconds histogram\n",
            "workqueue_queue_duration_seconds_bucket{le=\"1.0\",name=\"widgets\",controller=\"widgets\"} 0\n",
            "workqueue_queue_duration_seconds_sum{name=\"widgets\",controller=\"widgets\"} 6.0\n",
            "workqueue_queue_duration_seconds_count{name=\"widgets\",controller=\"widgets\"} 2\n",
            "workqueue_work_duration_seconds_sum{name=\"widgets\",controller=\"widgets\"} 20.0\n",
            "workqueue_work_duration_seconds_count{name=\"widgets\",controller=\"widgets\"} 1\n",
            "workqueue_unfinished_work_seconds{name=\"widgets\",controller=\"widgets\"} 20.0\n",
            "workqueue_longest_running_processor_seconds{name=\"widgets\",controller=\"widgets\"} 20.0\n",
            "rest_client_requests_total{code=\"409\",method=\"PATCH\",host=\"there:6443\"} 1\n",
            "rest_client_requests_total{code=\"<error>\",method=\"GET\",host=\"there:6443\"} 1\n",
            "certwatcher_read_certificate_total 2\n",
            "certwatcher_read_certificate_errors_total 1\n",
            "leader_election_master_status{name=\"some-lease\"} 1\n",
            "leader_election_master_status{name=\"other-lease\"} 0\n",
            "process_virtual_memory_bytes ",
            "process_max_fds ",
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
