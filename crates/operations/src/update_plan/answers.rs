//! Given answers of metrics to the queries of risks (CVO-SIM-03).

use std::collections::BTreeMap;

use mainstay_alerts::{PageError, samples_of};
use mainstay_cluster_version_core::readiness::Recommended;
use mainstay_promql::{Query, Samples, TooManySeries};
use mainstay_update_graph::{ConditionalUpdate, EvaluationError, MatchingRule, Risk, Updates, evaluate};
use serde::Deserialize;
use serde_json::Value;

/// The most series that are held.
const SERIES: usize = 200_000;
/// The window of the samples, in milliseconds.
const WINDOW: i64 = 300_000;

/// Answers that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InvalidAnswers {
    /// A line is no answer.
    #[error("line {line}: {error}; wanted is {{\"query\": TEXT, \"matches\": true|false}}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The reason.
        error: serde_json::Error,
    },
    /// The page of metrics cannot be read.
    #[error(transparent)]
    Page(#[from] PageError),
    /// It is too large.
    #[error(transparent)]
    Series(#[from] TooManySeries),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    query: String,
    matches: bool,
}

/// Answers to queries: given for each, or computed from a page of metrics.
#[derive(Debug)]
pub enum Answers {
    /// The answer to each query.
    Given(BTreeMap<String, bool>),
    /// The samples of a page in Prometheus' text format, all of one moment.
    Computed(Samples),
}

impl Answers {
    /// Reads JSON lines `{"query": TEXT, "matches": BOOL}`, or a page in Prometheus' text format.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn parse(text: &str) -> Result<Self, InvalidAnswers> {
        if text.trim_start().starts_with('{') {
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let answers = lines.map(|(number, line)| {
                let Line { query, matches } =
                    serde_json::from_str(line).map_err(|error| InvalidAnswers::Line { line: number + 1, error })?;
                Ok((query, matches))
            });
            return Ok(Self::Given(answers.collect::<Result<_, InvalidAnswers>>()?));
        }
        let mut samples = Samples::new(WINDOW, SERIES);
        samples.insert(0, samples_of(text, |_| true)?)?;
        Ok(Self::Computed(samples))
    }

    /// Evaluates the risks of an update; none if the cluster knows no risks of it.
    pub(super) fn recommended(&self, cluster_version: &Value, version: &str) -> Option<Recommended> {
        let updates = cluster_version["status"]["conditionalUpdates"].as_array()?;
        let update = updates.iter().find(|update| update["release"]["version"] == version)?;
        let risks: Vec<Risk> = serde_json::from_value(update["risks"].clone()).ok()?;
        let mut updates = Updates { conditional: vec![ConditionalUpdate { risks, ..ConditionalUpdate::default() }], ..Updates::default() };
        evaluate(&mut updates, |rule| self.ask(rule));
        let found = updates.conditional.pop()?.recommended?;
        Some(Recommended { status: found.status.as_str().to_owned(), reason: found.reason, message: found.message })
    }

    fn ask(&self, rule: &MatchingRule) -> Result<bool, EvaluationError> {
        let query = rule.promql.as_ref().map(|query| query.promql.as_str()).unwrap_or_default();
        let failed = |error: &dyn std::fmt::Display| EvaluationError(error.to_string());
        match self {
            Self::Given(answers) => {
                answers.get(query).copied().ok_or_else(|| EvaluationError(format!("the given answers have none to the query {query:?}")))
            }
            Self::Computed(samples) => {
                let parsed = Query::parse(query).map_err(|error| failed(&error))?;
                let found = parsed.evaluate(samples, 0).map_err(|error| failed(&error))?;
                match found.as_slice() {
                    [one] if one.value == 0.0 => Ok(false),
                    [one] if (one.value - 1.0).abs() < f64::EPSILON => Ok(true),
                    [one] => Err(EvaluationError(format!("the query gives {}, and neither 0 nor 1", one.value))),
                    all => Err(EvaluationError(format!("the query gives {} samples, and not one", all.len()))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    const QUERY: &str = "max(sample_flag) or vector(0)";

    fn cluster(query: &str) -> Value {
        let rules = json!([{"type": "PromQL", "promql": {"promql": query}}]);
        let risk = json!({"name": "Slow", "url": "https://r.test", "message": "It is slow.", "matchingRules": rules});
        json!({"status": {"conditionalUpdates": [{"release": {"version": "4.18.2", "image": "i"}, "risks": [risk]}]}})
    }

    fn status(answers: &str, query: &str) -> String {
        Answers::parse(answers).unwrap().recommended(&cluster(query), "4.18.2").unwrap().status
    }

    /// CVO-SIM-03: risks by given answers and by a page of metrics; what is not answered is unknown.
    #[test]
    fn risks() {
        let given = |matches: bool| json!({"query": QUERY, "matches": matches}).to_string();
        assert_eq!(status(&given(true), QUERY), "False");
        assert_eq!(status(&given(false), QUERY), "True");
        assert_eq!(status(&given(true), "other"), "Unknown");
        assert_eq!(status("sample_flag{a=\"b\"} 1\n", QUERY), "False");
        assert_eq!(status("sample_flag 0\n", QUERY), "True");
        assert_eq!(status("sample_flag 7\n", QUERY), "Unknown");
        assert_eq!(status("", "sample_flag"), "Unknown");
        assert!(Answers::parse("").unwrap().recommended(&cluster(QUERY), "4.18.9").is_none());
        let error = Answers::parse("{\"query\": \"a\", \"matches\": true}\n{\"query\": 1}\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
