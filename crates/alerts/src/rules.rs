//! Alerting rules of PrometheusRules.

use std::collections::BTreeMap;

use mainstay_promql::{PromqlError, Query};
use serde_json::Value;

use crate::state::Skipped;
use crate::targets::{Target, UP};

/// Rules that one object may have; Prometheus' largest have some hundred.
const MAX_RULES: usize = 5000;
/// The longest time that a rule may look back, in milliseconds: samples are held for it.
const MAX_REACH: i64 = 3_600_000;

/// Why a rule is not evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It reads what nothing here measures.
    #[error("metric {0} is not measured here")]
    Foreign(String),
    /// It reads every metric with some label.
    #[error("it selects metrics without their name")]
    Nameless,
    /// It cannot be parsed.
    #[error("its expression cannot be parsed: {0}")]
    Expression(#[from] PromqlError),
    /// It has no expression.
    #[error("it has no expression")]
    NoExpression,
    /// It uses what is not evaluated.
    #[error("{0} is not evaluated here")]
    Unsupported(String),
    /// It looks back too far.
    #[error("it looks back more than an hour")]
    TooFar,
    /// A time cannot be read.
    #[error("{field} {text:?} is no duration")]
    Duration {
        /// The field.
        field: &'static str,
        /// Its text.
        text: String,
    },
}

/// An alerting rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The alert's name.
    pub alert: String,
    /// Namespace and name of its PrometheusRule.
    pub source: (String, String),
    pub(crate) query: Query,
    /// Milliseconds for which the expression must hold.
    pub(crate) hold: i64,
    /// Milliseconds for which the alert fires after that.
    pub(crate) keep: i64,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The rules of an object: those that are evaluated, and the others with the reason.
#[derive(Debug, Default)]
pub struct Rules {
    /// Rules over metrics of the targets.
    pub evaluated: Vec<Rule>,
    /// Rules that are not evaluated.
    pub skipped: Vec<Skipped>,
}

/// Reads the alerting rules of a PrometheusRule. Recording rules are no alerts and are passed over.
pub fn rules_of(object: &Value, targets: &[Target]) -> Rules {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let source = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    let groups = object["spec"]["groups"].as_array().into_iter().flatten();
    let all = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten()).take(MAX_RULES);
    let mut rules = Rules::default();
    for rule in all {
        let Some(alert) = rule["alert"].as_str() else { continue };
        match read(rule, alert, &source, targets) {
            Ok(rule) => rules.evaluated.push(rule),
            Err(reason) => rules.skipped.push(Skipped { alert: alert.to_owned(), source: source.clone(), reason: reason.to_string() }),
        }
    }
    rules
}

fn read(rule: &Value, alert: &str, source: &(String, String), targets: &[Target]) -> Result<Rule, RuleError> {
    // A number is an expression, too.
    let expression = match &rule["expr"] {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(RuleError::NoExpression),
    };
    let query = Query::parse(&expression)?;
    if let Some(function) = query.unsupported() {
        return Err(RuleError::Unsupported(function.to_owned()));
    }
    for selected in query.selected() {
        let name = selected.name().ok_or(RuleError::Nameless)?;
        let is_known = |target: &Target| target.metrics.contains(name) || name == UP && selected.equals("job") == Some(target.job);
        if !targets.iter().any(is_known) {
            let job = selected.equals("job").filter(|_| name == UP);
            return Err(RuleError::Foreign(job.map_or_else(|| name.to_owned(), |job| format!("{name} of {job}"))));
        }
    }
    if query.reach().is_none_or(|reach| reach > MAX_REACH) {
        return Err(RuleError::TooFar);
    }
    let duration = |field: &'static str| match rule[field].as_str() {
        None | Some("" | "0") => Ok(0),
        Some(text) => mainstay_promql::duration(text).ok_or_else(|| RuleError::Duration { field, text: text.to_owned() }),
    };
    let map = |field: &str| {
        let pairs = rule[field].as_object().into_iter().flatten();
        pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    Ok(Rule {
        alert: alert.to_owned(),
        source: source.clone(),
        query,
        hold: duration("for")?,
        keep: duration("keep_firing_for")?,
        labels: map("labels"),
        annotations: map("annotations"),
    })
}

impl Rule {
    /// Milliseconds before an evaluation from which on it needs samples.
    pub(crate) fn reach(&self) -> i64 {
        self.query.reach().unwrap_or(MAX_REACH)
    }

    /// The metrics that it reads.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = String> {
        self.query.selected().into_iter().filter_map(|selected| selected.name().map(str::to_owned))
    }
}
