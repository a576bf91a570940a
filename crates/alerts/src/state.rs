//! Pending and firing alerts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mainstay_promql::{EvaluateError, Labels, NAME, Sample, Samples};
use serde::{Deserialize, Serialize};

use crate::rules::Rule;
use crate::targets::{Target, UP, labelled};
use crate::template::expand;

/// Series that are held at most; a cluster with all operators has about a thousand.
const MAX_SERIES: usize = 50_000;
/// Alerts of one rule that are held at most.
const MAX_ALERTS: usize = 1000;
/// The label of an alert's name.
const ALERT: &str = "alertname";
/// Milliseconds that samples are kept beyond what rules look back.
const SLACK: i64 = 60_000;

/// The state of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    /// Its expression holds for the time that the rule demands.
    Firing,
    /// Its expression holds, not yet for long enough.
    Pending,
}

/// An alert, as Prometheus' API shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// Its labels, with the name as `alertname`.
    pub labels: BTreeMap<String, String>,
    /// Its texts.
    pub annotations: BTreeMap<String, String>,
    /// Its state.
    pub state: AlertState,
    /// The time since when the expression holds.
    pub active_at: Timestamp,
    /// The value of the expression.
    pub value: String,
}

/// A rule that is not evaluated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Skipped {
    /// The alert's name.
    pub alert: String,
    /// Namespace and name of its PrometheusRule.
    pub source: (String, String),
    /// The reason.
    pub reason: String,
}

/// The alerts at a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Firing ones first, by name.
    pub alerts: Vec<Alert>,
    /// The number of rules that were evaluated.
    pub evaluated: usize,
    /// Rules that were not.
    pub not_evaluated: Vec<Skipped>,
    /// Faults of the evaluation itself.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub problems: Vec<String>,
}

#[derive(Debug, Clone)]
struct Instance {
    since: i64,
    seen: i64,
    value: f64,
    annotations: BTreeMap<String, String>,
}

/// Rules, the samples that they need, and their alerts.
#[derive(Debug)]
pub struct Alerts {
    targets: Vec<Target>,
    rules: Vec<Rule>,
    skipped: Vec<Skipped>,
    wanted: BTreeSet<String>,
    samples: Samples,
    /// By rule (its source and place) and labels.
    instances: BTreeMap<((String, String), String), BTreeMap<Labels, Instance>>,
}

impl Alerts {
    /// No rules yet, over metrics of these targets.
    pub fn new(targets: Vec<Target>) -> Self {
        let samples = Samples::new(SLACK, MAX_SERIES);
        Self { targets, rules: Vec::new(), skipped: Vec::new(), wanted: BTreeSet::new(), samples, instances: BTreeMap::new() }
    }

    /// Evaluates these rules from now on. Alerts of a rule that stays go on.
    pub fn set_rules(&mut self, evaluated: Vec<Rule>, mut skipped: Vec<Skipped>) {
        skipped.sort();
        self.wanted = evaluated.iter().flat_map(Rule::metrics).collect();
        self.wanted.remove(UP);
        self.samples.keep_for(evaluated.iter().map(Rule::reach).max().unwrap_or_default() + SLACK);
        (self.rules, self.skipped) = (evaluated, skipped);
        let keys: BTreeSet<_> = self.rules.iter().map(key).collect();
        self.instances.retain(|key, _| keys.contains(key));
    }

    /// Returns true if a rule reads the metric: others need not be read from a page.
    pub fn wants(&self, metric: &str) -> bool {
        self.wanted.contains(metric)
    }

    /// Takes the samples of a scrape (milliseconds since 1970) and evaluates every rule.
    pub fn evaluate(&mut self, at: i64, samples: Vec<Sample>) -> Report {
        let mut problems = Vec::new();
        if let Err(error) = self.samples.scrape(at, labelled(&self.targets, samples)) {
            problems.push(format!("metrics: {error}: alerts about those beyond are not seen"));
        }
        let mut alerts = Vec::new();
        for rule in &self.rules {
            let instances = self.instances.entry(key(rule)).or_default();
            if let Err(error) = renew(rule, instances, &self.samples, at) {
                problems.push(format!("{}: {error}", rule.alert));
            }
            alerts.extend(instances.iter().map(|(labels, instance)| shown(rule, labels, instance, at)));
        }
        alerts.sort_by(|a, b| {
            a.state.cmp(&b.state).then_with(|| a.labels.get(ALERT).cmp(&b.labels.get(ALERT))).then_with(|| a.labels.cmp(&b.labels))
        });
        Report { alerts, evaluated: self.rules.len(), not_evaluated: self.skipped.clone(), problems }
    }
}

fn key(rule: &Rule) -> ((String, String), String) {
    // Two rules of one name differ by their labels, as severities do.
    (rule.source.clone(), format!("{} {:?}", rule.alert, rule.labels))
}

/// A fault of a rule at its evaluation.
#[derive(Debug, thiserror::Error)]
enum RenewError {
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    #[error("several series have the same labels once they are those of an alert")]
    SameLabels,
    #[error("more than {MAX_ALERTS} alerts")]
    TooMany,
}

/// Brings the alerts of a rule up to date.
fn renew(rule: &Rule, instances: &mut BTreeMap<Labels, Instance>, samples: &Samples, at: i64) -> Result<(), RenewError> {
    let mut found = BTreeMap::new();
    for sample in rule.query.evaluate(samples, at)? {
        let mut labels = sample.labels.clone();
        labels.remove(NAME);
        for (label, text) in &rule.labels {
            labels.insert(label.clone(), expand(text, &sample.labels, sample.value));
        }
        labels.insert(ALERT.to_owned(), rule.alert.clone());
        labels.retain(|_, value| !value.is_empty());
        let texts = rule.annotations.iter().map(|(key, text)| (key.clone(), expand(text, &sample.labels, sample.value)));
        if found.insert(labels, (sample.value, texts.collect())).is_some() {
            return Err(RenewError::SameLabels);
        }
        if found.len() > MAX_ALERTS {
            return Err(RenewError::TooMany);
        }
    }
    instances.retain(|labels, instance| {
        let fired = instance.seen - instance.since >= rule.hold;
        found.contains_key(labels) || fired && rule.keep > 0 && at - instance.seen < rule.keep
    });
    for (labels, (value, annotations)) in found {
        let since = instances.get(&labels).map_or(at, |before| before.since);
        instances.insert(labels, Instance { since, seen: at, value, annotations });
    }
    Ok(())
}

fn shown(rule: &Rule, labels: &Labels, instance: &Instance, at: i64) -> Alert {
    let state = if at - instance.since >= rule.hold { AlertState::Firing } else { AlertState::Pending };
    Alert {
        labels: labels.clone(),
        annotations: instance.annotations.clone(),
        state,
        active_at: Timestamp::from_millisecond(instance.since).unwrap_or(Timestamp::UNIX_EPOCH),
        value: instance.value.to_string(),
    }
}
