//! Metrics by upstream's names: `cincinnati_pe_*` of the policy engine, `cincinnati_gb_*` of the graph builder (CVO-OSUS-08).

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use mainstay_update_graph::AnswerError;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Path {
    uri_path: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failed {
    code: u16,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    git_commit: String,
}

/// Metrics of the part that answers clusters.
#[derive(Debug)]
pub(crate) struct PolicyMetrics {
    registry: Registry,
    requests: Family<Path, Counter>,
    errors: Family<Failed, Counter>,
    seconds: Histogram,
}

/// Metrics of the part that builds graphs.
#[derive(Debug)]
pub(crate) struct BuilderMetrics {
    registry: Registry,
    requests: Family<Path, Counter>,
    scrapes: Counter,
    errors: Counter,
    seconds: Histogram,
    first_seconds: Gauge<f64, AtomicU64>,
    last: Gauge,
    raw: Gauge,
    nodes: Gauge,
}

fn build_info(registry: &mut Registry, commit: &str) {
    let info = Family::<Build, Gauge>::default();
    info.get_or_create(&Build { git_commit: commit.to_owned() }).set(1);
    registry.register("build_info", "Build information", info);
}

impl PolicyMetrics {
    pub(crate) fn new(commit: &str) -> Self {
        let mut registry = Registry::with_prefix("cincinnati_pe");
        let buckets = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 5.0];
        let (requests, errors, seconds) = (Family::default(), Family::default(), Histogram::new(buckets));
        registry.register("graph_incoming_requests", "Requests for graphs by path", Family::clone(&requests));
        registry.register("graph_response_errors", "Errors that were answered, by status and kind", Family::clone(&errors));
        registry.register("graph_serve_duration_seconds", "Time to answer a request for a graph", seconds.clone());
        build_info(&mut registry, commit);
        Self { registry, requests, errors, seconds }
    }

    pub(crate) fn requested(&self, uri_path: &'static str) {
        self.requests.get_or_create(&Path { uri_path }).inc();
    }

    pub(crate) fn served(&self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn failed(&self, error: &AnswerError) {
        self.errors.get_or_create(&Failed { code: error.status(), kind: error.kind() }).inc();
    }

    pub(crate) fn page(&self) -> Result<String, fmt::Error> {
        page(&self.registry)
    }
}

impl BuilderMetrics {
    pub(crate) fn new(commit: &str) -> Self {
        let mut registry = Registry::with_prefix("cincinnati_gb");
        let metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            scrapes: Counter::default(),
            errors: Counter::default(),
            seconds: Histogram::new([5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 30.0]),
            first_seconds: Gauge::default(),
            last: Gauge::default(),
            raw: Gauge::default(),
            nodes: Gauge::default(),
        };
        registry.register("graph_incoming_requests", "Requests for the whole graph by path", metrics.requests.clone());
        registry.register("graph_upstream_scrapes", "Builds of the graph", metrics.scrapes.clone());
        registry.register("graph_upstream_errors", "Builds of the graph that failed", metrics.errors.clone());
        registry.register("graph_upstream_scrapes_duration", "Time of a build in seconds, but for the first", metrics.seconds.clone());
        registry.register("graph_initial_upstream_scrape_duration", "Time of the first build in seconds", metrics.first_seconds.clone());
        registry.register("graph_last_successful_refresh_timestamp", "Time of the last build that succeeded", metrics.last.clone());
        registry.register("graph_upstream_raw_releases", "Releases that were found", metrics.raw.clone());
        registry.register("graph_final_releases", "Releases in the graph", metrics.nodes.clone());
        build_info(&mut registry, commit);
        Self { registry, ..metrics }
    }

    pub(crate) fn requested(&self, uri_path: &'static str) {
        self.requests.get_or_create(&Path { uri_path }).inc();
    }

    /// Notes the end of a build: how many releases were found and how many are in the graph, if it succeeded.
    pub(crate) fn built(&self, took: Duration, outcome: Option<(usize, usize)>) {
        let first = self.last.get() == 0;
        self.scrapes.inc();
        let Some((raw, nodes)) = outcome else {
            self.errors.inc();
            return;
        };
        if first {
            self.first_seconds.set(took.as_secs_f64());
        } else {
            self.seconds.observe(took.as_secs_f64());
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.last.set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        self.raw.set(i64::try_from(raw).unwrap_or(i64::MAX));
        self.nodes.set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }

    pub(crate) fn page(&self) -> Result<String, fmt::Error> {
        page(&self.registry)
    }
}

fn page(registry: &Registry) -> Result<String, fmt::Error> {
    let mut page = String::new();
    text::encode(&mut page, registry)?;
    Ok(page)
}
