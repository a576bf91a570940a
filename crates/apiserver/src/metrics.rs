//! Metrics in Prometheus' text format, under Kubernetes' names if it has them (KAPI-SRV-03).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use http::{StatusCode, header};

use crate::cache::Cache;
use crate::inflight::InFlight;
use crate::object_store::ObjectStore;
use crate::request::RequestInfo;
use crate::served::Snapshot;

/// Upper bounds of the request durations' buckets, in seconds: kube-apiserver's.
const BUCKETS: [f64; 23] =
    [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0];
/// More series than the resources of a cluster need; what comes beyond is not counted.
const SERIES: usize = 20_000;

/// The counters.
#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(Series, u16), u64>>,
    durations: Mutex<BTreeMap<Series, Durations>>,
    terminated: Mutex<BTreeMap<Series, u64>>,
}

/// The requests that are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    dry_run: &'static str,
}

#[derive(Default)]
struct Durations {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Series {
    /// The series of a request. Names that are no resource's come from clients alone and are left out.
    pub fn of(snapshot: &Snapshot, info: &RequestInfo, parts: &Parts) -> Self {
        let verb = match info.verb.as_str() {
            "list" => "LIST",
            "watch" => "WATCH",
            "create" | "post" => "POST",
            "update" | "put" => "PUT",
            "patch"
                if parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch")) =>
            {
                "APPLY"
            }
            "patch" => "PATCH",
            "delete" => "DELETE",
            "deletecollection" => "DELETECOLLECTION",
            "get" => "GET",
            "head" => "HEAD",
            _ => "other",
        };
        let dry_run = if parts.uri.query().is_some_and(|query| query.contains("dryRun=All")) { "All" } else { "" };
        let Some(served) = snapshot.resource(&info.group, &info.version, &info.resource).filter(|_| info.is_resource) else {
            return Self { verb, dry_run, ..Self::default() };
        };
        let scope = match (info.name.is_empty(), info.namespace.is_empty()) {
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        let known = served.subresource(&info.subresource).is_some();
        let subresource = if known { info.subresource.clone() } else { String::new() };
        let (group, version, resource) = (info.group.clone(), info.version.clone(), info.resource.clone());
        Self { verb, group, version, resource, subresource, scope, dry_run }
    }
}

impl fmt::Display for Series {
    /// The labels.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, version, resource, subresource, scope, dry_run } = self;
        write!(
            out,
            "component=\"apiserver\",dry_run=\"{dry_run}\",group=\"{group}\",resource=\"{resource}\",scope=\"{scope}\",\
             subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\""
        )
    }
}

impl Metrics {
    /// A request was answered.
    pub fn answered(&self, series: Series, status: StatusCode, took: Duration) {
        let mut durations = self.durations.lock().unwrap_or_else(PoisonError::into_inner);
        // How long a watch took says nothing.
        if series.verb != "WATCH" && (durations.len() < SERIES || durations.contains_key(&series)) {
            let entry = durations.entry(series.clone()).or_default();
            let seconds = took.as_secs_f64();
            entry.count += 1;
            entry.sum += seconds;
            for (bucket, bound) in entry.buckets.iter_mut().zip(BUCKETS) {
                *bucket += u64::from(seconds <= bound);
            }
        }
        drop(durations);
        let key = (series, status.as_u16());
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() < SERIES || requests.contains_key(&key) {
            *requests.entry(key).or_default() += 1;
        }
    }

    /// A request was ended because it took too long.
    pub fn terminated(&self, series: &Series) {
        let mut terminated = self.terminated.lock().unwrap_or_else(PoisonError::into_inner);
        if terminated.len() < SERIES || terminated.contains_key(series) {
            *terminated.entry(series.clone()).or_default() += 1;
        }
    }
}

/// The page.
pub async fn page(metrics: &Metrics, inflight: &InFlight, objects: &ObjectStore) -> String {
    let mut page = Page::default();
    requests(&mut page, metrics);
    page.family("apiserver_current_inflight_requests", "gauge", "Requests that are being answered, without those that last by nature.");
    let lanes = [("mutating", &inflight.writing), ("readOnly", &inflight.reading)];
    for (kind, lane) in lanes {
        page.line("apiserver_current_inflight_requests", &format!("request_kind=\"{kind}\""), lane.now());
    }
    page.family("apiserver_dropped_requests_total", "counter", "Requests that were turned away because too many were in flight.");
    for (kind, lane) in lanes {
        page.line("apiserver_dropped_requests_total", &format!("request_kind=\"{kind}\""), lane.refused());
    }
    page.family("apiserver_flowcontrol_current_inqueue_requests", "gauge", "Requests that wait for a seat.");
    for (kind, lane) in lanes {
        page.line("apiserver_flowcontrol_current_inqueue_requests", &format!("request_kind=\"{kind}\""), lane.waiting());
    }
    cached(&mut page, &objects.cache);
    match tokio::time::timeout(Duration::from_secs(2), objects.store.metrics()).await {
        Ok(Ok(metrics)) => store(&mut page, &metrics),
        // Whoever reads the page sees that these metrics are missing; why is in the log.
        Ok(Err(error)) => tracing::warn!(%error, "the store gives no metrics"),
        Err(_) => tracing::warn!("the store gives no metrics in time"),
    }
    page.0
}

fn requests(page: &mut Page, metrics: &Metrics) {
    page.family("apiserver_request_total", "counter", "Requests that were answered.");
    for ((series, code), count) in metrics.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        page.line("apiserver_request_total", &format!("code=\"{code}\",{series}"), count);
    }
    page.family("apiserver_request_duration_seconds", "histogram", "How long requests took.");
    for (series, durations) in metrics.durations.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        for (bound, count) in BUCKETS.iter().zip(durations.buckets) {
            page.line("apiserver_request_duration_seconds_bucket", &format!("{series},le=\"{bound}\""), count);
        }
        page.line("apiserver_request_duration_seconds_bucket", &format!("{series},le=\"+Inf\""), durations.count);
        page.line("apiserver_request_duration_seconds_sum", &series.to_string(), durations.sum);
        page.line("apiserver_request_duration_seconds_count", &series.to_string(), durations.count);
    }
    page.family("apiserver_request_terminations_total", "counter", "Requests that were ended because they took too long.");
    for (series, count) in metrics.terminated.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        page.line("apiserver_request_terminations_total", &format!("code=\"504\",{series}"), count);
    }
}

fn cached(page: &mut Page, cache: &Cache) {
    let counts: Vec<_> = cache
        .counts()
        .into_iter()
        .map(|(storage, objects, watchers)| {
            // `core/pods` is `pods`, `apps/deployments` is `deployments.apps`.
            let (group, resource) = storage.split_once('/').unwrap_or(("", &storage));
            let group = if group == "core" { "" } else { group };
            (group.to_owned(), resource.to_owned(), objects, watchers)
        })
        .collect();
    page.family("apiserver_storage_objects", "gauge", "Stored objects.");
    for (group, resource, objects, _) in &counts {
        page.line("apiserver_storage_objects", &format!("resource=\"{}\"", crate::error::qualified(resource, group)), objects);
    }
    page.family("apiserver_longrunning_requests", "gauge", "Open watches.");
    for (group, resource, _, watchers) in counts.iter().filter(|(.., watchers)| *watchers > 0) {
        let labels = format!("component=\"apiserver\",group=\"{group}\",resource=\"{resource}\",verb=\"WATCH\"");
        page.line("apiserver_longrunning_requests", &labels, watchers);
    }
}

fn store(page: &mut Page, metrics: &mainstay_store::StoreMetrics) {
    page.family("apiserver_storage_size_bytes", "gauge", "The size of the store.");
    page.line("apiserver_storage_size_bytes", "storage_cluster_id=\"etcd-0\"", metrics.bytes);
    for (name, kind, help, value) in [
        ("mainstay_store_keys", "gauge", "Live keys.", metrics.keys),
        ("mainstay_store_bytes", "gauge", "The size of the store.", metrics.bytes),
        ("mainstay_store_revision", "gauge", "The latest revision.", metrics.revision),
        ("mainstay_store_compacted_revision", "gauge", "The revision up to which history is gone.", metrics.compacted),
        ("mainstay_store_commits_total", "counter", "Commits of this process.", metrics.commits),
        ("mainstay_store_writes_total", "counter", "Writes of this process.", metrics.writes),
    ] {
        page.family(name, kind, help);
        page.line(name, "", value);
    }
}

/// A page in the making.
#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string has no way to fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl fmt::Display) {
        let _ = if labels.is_empty() { writeln!(self.0, "{name} {value}") } else { writeln!(self.0, "{name}{{{labels}}} {value}") };
    }
}
