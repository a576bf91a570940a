//! The metrics of the catalog operator by their upstream names (OLM0-MET-01, OLM0-MET-02).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainstay_runtime::metrics::Summary;
use mainstay_runtime::{Env, Key};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};

use super::caches::Caches;

/// Namespace and name of a CatalogSource.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Source {
    namespace: String,
    name: String,
}

/// The labels of a Subscription sync.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct SubscriptionLabels {
    /// Its name.
    pub name: String,
    /// The installed CSV.
    pub installed: String,
    /// Its channel.
    pub channel: String,
    /// Its package.
    pub package: String,
    /// Its approval.
    pub approval: String,
}

/// The metrics. Clones share them.
#[derive(Clone, Default)]
pub struct Metrics {
    ready: Family<Source, Gauge>,
    snapshots: Family<Source, Counter>,
    syncs: Family<SubscriptionLabels, Counter>,
    labels: Arc<Mutex<HashMap<Key, SubscriptionLabels>>>,
    warnings: Counter,
    durations: Option<Summary>,
}

/// Numbers of objects, counted when they are asked for.
struct Counts(Caches);

impl std::fmt::Debug for Counts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Counts")
    }
}

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counted = [
            ("catalog_source_count", "Number of CatalogSources", &self.0.sources),
            ("install_plan_count", "Number of InstallPlans", &self.0.plans),
            ("subscription_count", "Number of Subscriptions", &self.0.subscriptions),
        ];
        for (name, help, cache) in counted {
            let gauge = ConstGauge::new(i64::try_from(cache.len()).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// The quantiles of the duration of a resolution.
const QUANTILES: &[f64] = &[0.9, 0.95, 0.99];

fn durations() -> Summary {
    Summary::new("olm_resolution_duration_seconds", "Duration of a resolution by its outcome", "outcome", QUANTILES)
}

impl Metrics {
    /// Makes the metrics and adds them to the page of the environment.
    pub fn registered(env: &Env, caches: &Caches) -> Self {
        let metrics = Self { durations: Some(durations()), ..Self::default() };
        env.metrics().register(|registry| {
            registry.register("catalogsource_ready", "1 if a CatalogSource is READY, else 0", metrics.ready.clone());
            registry.register("catalog_source_snapshots", "Contents of a CatalogSource that were read", metrics.snapshots.clone());
            registry.register("subscription_sync", "Syncs of Subscriptions", metrics.syncs.clone());
            registry.register("installplan_warnings", "Warnings about objects of InstallPlans", metrics.warnings.clone());
            if let Some(durations) = &metrics.durations {
                registry.register_collector(Box::new(durations.clone()));
            }
            registry.register_collector(Box::new(Counts(caches.clone())));
        });
        metrics
    }

    /// Notes whether a source is ready.
    pub fn source_ready(&self, namespace: &str, name: &str, ready: bool) {
        let source = Source { namespace: namespace.to_owned(), name: name.to_owned() };
        self.ready.get_or_create(&source).set(i64::from(ready));
    }

    /// Notes that a content of a source was read.
    pub fn snapshot(&self, namespace: &str, name: &str) {
        self.snapshots.get_or_create(&Source { namespace: namespace.to_owned(), name: name.to_owned() }).inc();
    }

    /// Drops the series of a source that is gone.
    pub fn source_gone(&self, namespace: &str, name: &str) {
        let source = Source { namespace: namespace.to_owned(), name: name.to_owned() };
        self.ready.remove(&source);
        self.snapshots.remove(&source);
    }

    /// Counts the sync of a Subscription; former labels of it are dropped.
    pub fn synced(&self, key: &Key, labels: &SubscriptionLabels) {
        let before = self.labels().insert(key.clone(), labels.clone());
        if let Some(before) = before.filter(|before| before != labels) {
            self.syncs.remove(&before);
        }
        self.syncs.get_or_create(labels).inc();
    }

    /// Drops the series of a Subscription that is gone.
    pub fn subscription_gone(&self, key: &Key) {
        if let Some(labels) = self.labels().remove(key) {
            self.syncs.remove(&labels);
        }
    }

    /// Counts warnings about objects of an InstallPlan.
    pub fn warned(&self, warnings: usize) {
        self.warnings.inc_by(u64::try_from(warnings).unwrap_or(u64::MAX));
    }

    /// Notes the duration of a resolution.
    pub fn resolved(&self, succeeded: bool, took: Duration) {
        if let Some(durations) = &self.durations {
            let outcome = if succeeded { "succeeded" } else { "failed" };
            durations.observe(outcome, took.as_secs_f64());
        }
    }

    fn labels(&self) -> std::sync::MutexGuard<'_, HashMap<Key, SubscriptionLabels>> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
