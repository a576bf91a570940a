//! Metrics of requests (COP-CRED-07).

use mainstay_cloud_credential_core::report::Measured;
use mainstay_runtime::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cloud {
    cloud_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Condition {
    condition: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Mode {
    mode: &'static str,
}

/// The metrics.
#[derive(Default)]
pub(crate) struct RequestMetrics {
    clouds: Family<Cloud, Gauge>,
    conditions: Family<Condition, Gauge>,
    mode: Family<Mode, Gauge>,
}

impl RequestMetrics {
    /// Adds them to the page.
    pub fn new(metrics: &Metrics) -> Self {
        let own = Self::default();
        metrics.register(|registry| {
            registry.register("cco_credentials_requests", "Total number of credentials requests", own.clouds.clone());
            registry.register(
                "cco_credentials_requests_conditions",
                "Credentials requests with asserted conditions",
                own.conditions.clone(),
            );
            registry.register("cco_credentials_mode", "Mode in which credentials are made", own.mode.clone());
        });
        own
    }

    /// Shows what was counted.
    pub fn show(&self, measured: &Measured) {
        self.clouds.clear();
        for (cloud_type, count) in &measured.clouds {
            self.clouds.get_or_create(&Cloud { cloud_type }).set(*count);
        }
        self.conditions.clear();
        for (condition, count) in &measured.conditions {
            self.conditions.get_or_create(&Condition { condition }).set(*count);
        }
        self.mode.clear();
        self.mode.get_or_create(&Mode { mode: measured.mode }).set(1);
    }
}
