//! Metrics of CSVs (OLM0-MET-01, OLM0-MET-02).

use mainstay_olm_classic_core::csv::{Member, Phase};
use mainstay_runtime::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Identity {
    namespace: String,
    name: String,
    version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Abnormal {
    namespace: String,
    name: String,
    version: String,
    phase: String,
    reason: String,
}

/// The metrics; clones share them.
#[derive(Clone, Default)]
pub(super) struct CsvMetrics {
    abnormal: Family<Abnormal, Gauge>,
    succeeded: Family<Identity, Gauge>,
    count: Gauge,
    /// It only grows; the page would add `_total` to the name of a counter.
    upgrades: Gauge,
}

impl CsvMetrics {
    /// Adds them to the page.
    pub fn new(metrics: &Metrics) -> Self {
        let own = Self::default();
        metrics.register(|registry| {
            registry.register("csv_abnormal", "CSV is not installed", own.abnormal.clone());
            registry.register("csv_succeeded", "Successful CSV install", own.succeeded.clone());
            registry.register("csv_count", "Number of CSVs successfully registered", own.count.clone());
            registry.register("csv_upgrade_count", "Monotonic count of CSV upgrades", own.upgrades.clone());
        });
        own
    }

    /// Notes a change of a CSV; copies give no series.
    pub fn changed(&self, before: Option<&Member>, now: Option<&Member>) {
        let own = |member: &&Member| !member.is_copied();
        let (before, now) = (before.filter(own), now.filter(own));
        if let Some(before) = before {
            self.abnormal.remove(&abnormal(before));
            if now.is_none_or(|now| identity(now) != identity(before)) {
                self.succeeded.remove(&identity(before));
            }
        }
        if let Some(now) = now {
            let succeeded = now.phase() == Phase::Succeeded;
            self.succeeded.get_or_create(&identity(now)).set(i64::from(succeeded));
            if !succeeded {
                self.abnormal.get_or_create(&abnormal(now)).set(1);
            }
        }
        match (before, now) {
            (None, Some(_)) => drop(self.count.inc()),
            (Some(_), None) => drop(self.count.dec()),
            _ => {}
        }
    }

    /// Counts an upgrade.
    pub fn upgraded(&self) {
        self.upgrades.inc();
    }
}

fn identity(member: &Member) -> Identity {
    Identity { namespace: member.namespace.clone(), name: member.name().to_owned(), version: member.csv.version.clone() }
}

fn abnormal(member: &Member) -> Abnormal {
    let Identity { namespace, name, version } = identity(member);
    let status = member.status.value();
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    Abnormal { namespace, name, version, phase: text("phase"), reason: text("reason") }
}
