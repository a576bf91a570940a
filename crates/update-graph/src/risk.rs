//! Risks of conditional updates, and the rules that say if one applies (CVO-RISK-02, CVO-RISK-03).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A condition under which a risk applies to a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MatchingRule {
    /// `Always` or `PromQL`; other types are of later releases.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The query of a rule of type `PromQL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promql: Option<Promql>,
}

/// A query of metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Promql {
    /// The query: one sample of value 0 means no match, 1 a match.
    #[serde(default)]
    pub promql: String,
}

/// A reason not to update some clusters along an edge.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Risk {
    /// Where the risk is described.
    #[serde(default)]
    pub url: String,
    /// Its name, which becomes the reason of a condition.
    #[serde(default)]
    pub name: String,
    /// Its description for people.
    #[serde(default)]
    pub message: String,
    /// The rules that decide if it applies; the first that can be evaluated counts.
    #[serde(rename = "matchingRules", default)]
    pub matching_rules: Vec<MatchingRule>,
}

/// Why a rule could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvaluationError(pub String);

/// The verdict of a risk's rules about a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The risk applies.
    Match,
    /// It does not.
    NoMatch,
    /// No rule could be evaluated.
    Unknown(EvaluationError),
}

impl MatchingRule {
    /// A rule that always matches.
    pub fn always() -> Self {
        Self { kind: "Always".to_owned(), promql: None }
    }

    /// A rule that asks metrics.
    pub fn query(promql: impl Into<String>) -> Self {
        Self { kind: "PromQL".to_owned(), promql: Some(Promql { promql: promql.into() }) }
    }

    /// Returns true if the type is known and the rule has just what its type needs.
    pub fn is_valid(&self) -> bool {
        match self.kind.as_str() {
            "Always" => self.promql.is_none(),
            "PromQL" => self.promql.as_ref().is_some_and(|query| !query.promql.is_empty()),
            _ => false,
        }
    }
}

/// The rules of known types that are well formed (CVO-USC-10).
pub fn valid_rules(rules: &[MatchingRule]) -> Vec<MatchingRule> {
    rules.iter().filter(|rule| rule.is_valid()).cloned().collect()
}

/// Walks the rules in order; the first that is evaluated decides. `ask` answers a query of metrics.
pub fn judge(rules: &[MatchingRule], mut ask: impl FnMut(&MatchingRule) -> Result<bool, EvaluationError>) -> Verdict {
    let mut errors = Vec::new();
    for rule in rules {
        let answer = match rule.kind.as_str() {
            "Always" => Ok(true),
            "PromQL" => ask(rule),
            _ => continue,
        };
        match answer {
            Ok(true) => return Verdict::Match,
            Ok(false) => return Verdict::NoMatch,
            Err(error) => errors.push(error),
        }
    }
    match join_errors(&errors) {
        Some(error) => Verdict::Unknown(error),
        None => Verdict::NoMatch,
    }
}

/// Several errors as one, each text once, as Kubernetes' aggregates write them.
pub fn join_errors(errors: &[EvaluationError]) -> Option<EvaluationError> {
    let mut seen = BTreeSet::new();
    let texts: Vec<&str> = errors.iter().map(|error| error.0.as_str()).filter(|text| seen.insert(*text)).collect();
    match texts.as_slice() {
        [] => None,
        [one] => Some(EvaluationError((*one).to_owned())),
        several => Some(EvaluationError(format!("[{}]", several.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> MatchingRule {
        MatchingRule::query(format!("error {text}"))
    }

    /// CVO-RISK-02, CVO-RISK-03: the first rule without an error decides; a risk of which every rule fails is unknown, with the joined errors.
    #[test]
    fn the_first_rule_without_an_error_decides() {
        let unknown = |text: &str| Verdict::Unknown(EvaluationError(text.to_owned()));
        let moon = MatchingRule { kind: "Moon".to_owned(), promql: None };
        for (rules, expected) in [
            (vec![MatchingRule::always(), MatchingRule::query("0")], Verdict::Match),
            (vec![MatchingRule::query("0"), MatchingRule::always()], Verdict::NoMatch),
            (vec![MatchingRule::query("1"), MatchingRule::query("0")], Verdict::Match),
            (vec![fails("a"), MatchingRule::query("0")], Verdict::NoMatch),
            (vec![fails("a"), MatchingRule::always()], Verdict::Match),
            (vec![fails("a"), fails("b")], unknown("[a, b]")),
            (vec![fails("a"), fails("a")], unknown("a")),
            (vec![fails("a")], unknown("a")),
            (vec![moon.clone(), MatchingRule::query("1")], Verdict::Match),
            (vec![moon], Verdict::NoMatch),
            (vec![], Verdict::NoMatch),
        ] {
            let found = judge(&rules, |rule| {
                let query = rule.promql.as_ref().map_or("", |query| query.promql.as_str());
                match query.strip_prefix("error ") {
                    Some(text) => Err(EvaluationError(text.to_owned())),
                    None => Ok(query == "1"),
                }
            });
            assert_eq!(found, expected, "{rules:?}");
        }
    }

    /// CVO-USC-10, CVO-RISK-03: a rule of an unknown type, and one that lacks or has too much, does not count.
    #[test]
    fn rules_that_do_not_count() {
        let rule = |kind: &str, promql: Option<&str>| MatchingRule {
            kind: kind.to_owned(),
            promql: promql.map(|promql| Promql { promql: promql.to_owned() }),
        };
        for (rule, valid) in [
            (rule("Always", None), true),
            (rule("Always", Some("up")), false),
            (rule("Always", Some("")), false),
            (rule("PromQL", Some("up")), true),
            (rule("PromQL", Some("")), false),
            (rule("PromQL", None), false),
            (rule("promql", Some("up")), false),
            (rule("", None), false),
        ] {
            assert_eq!(valid_rules(std::slice::from_ref(&rule)).len(), usize::from(valid), "{rule:?}");
        }
    }
}
