//! Figures in Prometheus' text format (KAPI-SRV-03).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::api::Api;

/// Upper bounds of the request durations' buckets, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// What is counted.
#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(String, String, String, u16), u64>>,
    durations: Mutex<BTreeMap<String, Durations>>,
    reading: AtomicI64,
    writing: AtomicI64,
}

#[derive(Default, Clone)]
struct Durations {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

/// A request that is being answered.
pub struct InFlight<'a>(&'a AtomicI64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// A request begins.
    pub fn begin(&self, verb: &str) -> InFlight<'_> {
        let gauge = if matches!(verb, "get" | "list" | "watch") { &self.reading } else { &self.writing };
        gauge.fetch_add(1, Ordering::Relaxed);
        InFlight(gauge)
    }

    /// A request was answered.
    pub fn end(&self, verb: &str, group: &str, resource: &str, status: StatusCode, took: Duration) {
        let key = (verb.to_owned(), group.to_owned(), resource.to_owned(), status.as_u16());
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        // Names come from clients: no more of them are kept than a cluster has.
        if requests.len() < 10_000 || requests.contains_key(&key) {
            *requests.entry(key).or_default() += 1;
        }
        drop(requests);
        let mut durations = self.durations.lock().unwrap_or_else(PoisonError::into_inner);
        if durations.len() >= 32 && !durations.contains_key(verb) {
            return;
        }
        let entry = durations.entry(verb.to_owned()).or_default();
        let seconds = took.as_secs_f64();
        entry.count += 1;
        entry.sum += seconds;
        for (bucket, bound) in entry.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }
}

/// The page.
pub async fn page(api: &Api) -> String {
    let mut out = String::new();
    let metrics = &api.metrics;
    let kind = |out: &mut String, name: &str, kind: &str| {
        let _ = writeln!(out, "# TYPE {name} {kind}");
    };
    kind(&mut out, "apiserver_request_total", "counter");
    for ((verb, group, resource, code), count) in metrics.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let (verb, group, resource) = (verb.to_uppercase(), group.escape_default(), resource.escape_default());
        let _ =
            writeln!(out, "apiserver_request_total{{verb=\"{verb}\",group=\"{group}\",resource=\"{resource}\",code=\"{code}\"}} {count}");
    }
    kind(&mut out, "apiserver_request_duration_seconds", "histogram");
    for (verb, durations) in metrics.durations.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let verb = verb.to_uppercase();
        for (bound, count) in BUCKETS.iter().zip(durations.buckets) {
            let _ = writeln!(out, "apiserver_request_duration_seconds_bucket{{verb=\"{verb}\",le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(out, "apiserver_request_duration_seconds_bucket{{verb=\"{verb}\",le=\"+Inf\"}} {}", durations.count);
        let _ = writeln!(out, "apiserver_request_duration_seconds_sum{{verb=\"{verb}\"}} {}", durations.sum);
        let _ = writeln!(out, "apiserver_request_duration_seconds_count{{verb=\"{verb}\"}} {}", durations.count);
    }
    kind(&mut out, "apiserver_current_inflight_requests", "gauge");
    for (name, gauge) in [("readOnly", &metrics.reading), ("mutating", &metrics.writing)] {
        let _ = writeln!(out, "apiserver_current_inflight_requests{{request_kind=\"{name}\"}} {}", gauge.load(Ordering::Relaxed));
    }
    kind(&mut out, "apiserver_storage_objects", "gauge");
    let counts = api.cache.counts();
    for (resource, objects, _) in &counts {
        let _ = writeln!(out, "apiserver_storage_objects{{resource=\"{resource}\"}} {objects}");
    }
    kind(&mut out, "apiserver_longrunning_requests", "gauge");
    for (resource, _, watchers) in &counts {
        let _ = writeln!(out, "apiserver_longrunning_requests{{verb=\"WATCH\",resource=\"{resource}\"}} {watchers}");
    }
    if let Ok(figures) = api.store.figures().await {
        for (name, value) in [
            ("mainstay_store_keys", figures.keys),
            ("mainstay_store_bytes", figures.bytes),
            ("mainstay_store_revision", figures.revision),
            ("mainstay_store_compacted_revision", figures.compacted),
            ("mainstay_store_commits_total", figures.commits),
            ("mainstay_store_writes_total", figures.writes),
        ] {
            let kind_name = if name.ends_with("_total") { "counter" } else { "gauge" };
            let _ = writeln!(out, "# TYPE {name} {kind_name}\n{name} {value}");
        }
    }
    out
}
