//! Alerts over time, with rules of ours and of real releases.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod over_time;
mod releases;

use mainstay_alerts::{AlertState, Alerts, Report, Target, rules_of, samples_of};
use serde_json::Value;

/// The interval of scrapes in seconds.
const STEP: i64 = 30;
/// Some time in milliseconds since 1970.
const BEGIN: i64 = 1_790_000_000_000;

fn operator() -> Target {
    let metrics = [
        "cluster_operator_up",
        "cluster_operator_conditions",
        "cluster_version_available_updates",
        "cluster_version_operator_update_retrieval_timestamp_seconds",
        "cluster_version_conditional_update_condition_seconds",
    ];
    Target {
        job: "cluster-version-operator",
        namespace: "openshift-cluster-version",
        endpoint: "metrics",
        metrics: metrics.map(str::to_owned).into(),
    }
}

/// Rules of an object, evaluated over a page that depends on the seconds since the begin.
struct Played<'a> {
    alerts: Alerts,
    page: &'a dyn Fn(i64) -> String,
    seconds: i64,
    report: Report,
}

impl<'a> Played<'a> {
    fn new(objects: &[Value], targets: Vec<Target>, page: &'a dyn Fn(i64) -> String) -> Self {
        let rules: Vec<_> = objects.iter().map(|object| rules_of(object, &targets)).collect();
        let mut alerts = Alerts::new(targets);
        let (mut evaluated, mut skipped) = (Vec::new(), Vec::new());
        for rules in rules {
            evaluated.extend(rules.evaluated);
            skipped.extend(rules.skipped);
        }
        alerts.set_rules(evaluated, skipped);
        Self { alerts, page, seconds: -STEP, report: Report::default() }
    }

    /// Plays until a second.
    fn until(&mut self, end: i64) -> &Report {
        while self.seconds + STEP <= end {
            self.seconds += STEP;
            let samples = samples_of(&(self.page)(self.seconds), |name| self.alerts.wants(name)).unwrap();
            self.report = self.alerts.evaluate(BEGIN + self.seconds * 1000, samples);
        }
        &self.report
    }

    /// Name and state of each alert.
    fn states(&mut self, end: i64) -> Vec<(String, AlertState)> {
        self.until(end).alerts.iter().map(|alert| (alert.labels["alertname"].clone(), alert.state)).collect()
    }
}
