//! Throttle and memory of queries for rules (CVO-RISK-05): a state machine without clock and client.
//!
//! ```text
//!   ask(rule) ─┬─ Known(result)        fresh enough, or no query is allowed now
//!              ├─ Query(other rule)    the caller asks metrics, then: record(other rule, result), result(rule)
//!              └─ Throttled(error)
//! ```

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::risk::{EvaluationError, MatchingRule};

/// Least time between two queries.
const BETWEEN_QUERIES: SignedDuration = SignedDuration::from_secs(1);
/// Least time between two queries for one rule.
const FOR_RULE: SignedDuration = SignedDuration::from_hours(1);
/// The age at which a result is forgotten.
const EXPIRY: SignedDuration = SignedDuration::from_hours(24);

/// Verdicts about rules, as far as they are known.
#[derive(Debug, Clone, Default)]
pub struct RuleCache {
    last_query: Option<Timestamp>,
    results: BTreeMap<MatchingRule, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// The last time that it was asked for.
    asked: Timestamp,
    /// The last result, and when it came.
    evaluated: Option<(Timestamp, Result<bool, EvaluationError>)>,
}

/// The answer to a question about a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The result is known.
    Known(Result<bool, EvaluationError>),
    /// Metrics are to be asked for this rule, which may be another one; then [`RuleCache::record`] and [`RuleCache::result`].
    Query(MatchingRule),
    /// No query is allowed now, and nothing is known.
    Throttled(EvaluationError),
}

impl RuleCache {
    /// Asks for the result of a rule.
    pub fn ask(&mut self, rule: &MatchingRule, now: Timestamp) -> Asked {
        self.expire(now);
        let answer = self.answer(rule, now);
        self.results.entry(rule.clone()).or_insert(Entry { asked: now, evaluated: None }).asked = now;
        answer
    }

    fn answer(&self, rule: &MatchingRule, now: Timestamp) -> Asked {
        let known = self.results.get(rule).and_then(|entry| entry.evaluated.as_ref()).map(|(_, result)| result.clone());
        if let Some(last) = self.last_query
            && now.duration_since(last) <= BETWEEN_QUERIES
        {
            // Times of this clock are far from the ends of their range.
            let until = last.checked_add(BETWEEN_QUERIES).unwrap_or(last);
            let throttled = || EvaluationError(format!("evaluation is throttled until {}", until.strftime("%H:%M:%SZ")));
            return known.map_or_else(|| Asked::Throttled(throttled()), Asked::Known);
        }
        match self.most_stale() {
            None => Asked::Query(rule.clone()),
            Some((_, entry)) if entry.evaluated_at().is_some_and(|at| now.duration_since(at) < FOR_RULE) => {
                known.map_or_else(|| Asked::Query(rule.clone()), Asked::Known)
            }
            Some((stale, _)) => Asked::Query(stale.clone()),
        }
    }

    /// Records the result of a query that [`RuleCache::ask`] wanted.
    pub fn record(&mut self, rule: &MatchingRule, result: Result<bool, EvaluationError>, now: Timestamp) {
        self.last_query = Some(now);
        self.results.entry(rule.clone()).or_insert(Entry { asked: now, evaluated: None }).evaluated = Some((now, result));
    }

    /// Returns the result of a rule after a query, which may have been for another rule.
    pub fn result(&self, rule: &MatchingRule) -> Result<bool, EvaluationError> {
        match self.results.get(rule).and_then(|entry| entry.evaluated.as_ref()) {
            Some((_, result)) => result.clone(),
            None => Err(EvaluationError("evaluation is throttled".to_owned())),
        }
    }

    /// Forgets the rules that no risk names any more.
    pub fn retain<'a>(&mut self, named: impl IntoIterator<Item = &'a MatchingRule>) {
        let named: std::collections::BTreeSet<&MatchingRule> = named.into_iter().collect();
        self.results.retain(|rule, _| named.contains(rule));
    }

    /// Number of rules that are known or waited for.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Returns true if nothing is known or waited for.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// The rule with the oldest result among those that were asked for since: refreshing the one that was asked first would starve the others.
    fn most_stale(&self) -> Option<(&MatchingRule, &Entry)> {
        let waiting = self.results.iter().filter(|(_, entry)| entry.evaluated_at().is_none_or(|at| entry.asked > at));
        waiting.min_by_key(|(_, entry)| (entry.evaluated_at(), entry.asked))
    }

    fn expire(&mut self, now: Timestamp) {
        self.results.retain(|_, entry| now.duration_since(entry.evaluated_at().unwrap_or(entry.asked)) <= EXPIRY);
    }
}

impl Entry {
    fn evaluated_at(&self) -> Option<Timestamp> {
        self.evaluated.as_ref().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + seconds).unwrap()
    }

    fn rule(query: &str) -> MatchingRule {
        MatchingRule::query(query)
    }

    fn throttled(text: &str) -> EvaluationError {
        EvaluationError(text.to_owned())
    }

    /// CVO-RISK-05: one query a second over all rules, and the words for who must wait.
    #[test]
    fn one_query_a_second() {
        let mut cache = RuleCache::default();
        assert_eq!(cache.ask(&rule("a"), at(0)), Asked::Query(rule("a")));
        cache.record(&rule("a"), Ok(true), at(0));
        assert_eq!(cache.result(&rule("a")), Ok(true));
        assert_eq!(cache.ask(&rule("b"), at(1)), Asked::Throttled(throttled("evaluation is throttled until 00:00:01Z")));
        assert_eq!(cache.ask(&rule("a"), at(1)), Asked::Known(Ok(true)));
        assert_eq!(cache.ask(&rule("b"), at(2)), Asked::Query(rule("b")));
    }

    /// CVO-RISK-05: the rule that waits longest takes the query, even if another asked; that one is throttled without a time.
    #[test]
    fn the_most_stale_rule_is_first() {
        let mut cache = RuleCache::default();
        cache.record(&rule("a"), Ok(false), at(0));
        for (second, query) in [(0, "b"), (1, "c")] {
            assert!(matches!(cache.ask(&rule(query), at(second)), Asked::Throttled(_)));
        }
        // c asks, but b waits longer.
        assert_eq!(cache.ask(&rule("c"), at(5)), Asked::Query(rule("b")));
        cache.record(&rule("b"), Ok(true), at(5));
        assert_eq!(cache.result(&rule("c")), Err(throttled("evaluation is throttled")));
        assert_eq!(cache.ask(&rule("b"), at(10)), Asked::Query(rule("c")));
        cache.record(&rule("c"), Err(throttled("down")), at(10));
        assert_eq!(cache.result(&rule("b")), Ok(true));
        // All are fresh now: nothing is asked within the hour, and errors are remembered, too.
        assert_eq!(cache.ask(&rule("c"), at(20)), Asked::Known(Err(throttled("down"))));
        assert_eq!(cache.ask(&rule("a"), at(1800)), Asked::Known(Ok(false)));
        assert_eq!(cache.ask(&rule("a"), at(3605)), Asked::Query(rule("a")));
    }

    /// CVO-RISK-05: results expire after a day; rules that no risk names leave at once.
    #[test]
    fn results_leave() {
        let mut cache = RuleCache::default();
        cache.record(&rule("a"), Ok(true), at(0));
        cache.record(&rule("b"), Ok(true), at(80_000));
        assert_eq!(cache.ask(&rule("c"), at(86_400)), Asked::Query(rule("c")));
        assert_eq!(cache.len(), 3);
        assert_eq!(cache.ask(&rule("c"), at(86_401)), Asked::Query(rule("c")));
        assert_eq!(cache.result(&rule("a")), Err(throttled("evaluation is throttled")));
        cache.retain([&rule("c")]);
        assert_eq!(cache.len(), 1);
        cache.retain([]);
        assert!(cache.is_empty());
    }
}
