//! Which updates are recommended to a cluster, given what its metrics say (CVO-RISK-01, CVO-RISK-06).

use std::collections::BTreeSet;

use crate::retrieve::{ClusterRelease, Retrieved, sort_by_version};
use crate::risk::{EvaluationError, MatchingRule, Risk, Verdict, judge};

/// An update with risks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConditionalUpdate {
    /// The release.
    pub release: ClusterRelease,
    /// Its risks.
    pub risks: Vec<Risk>,
    /// The condition `Recommended`; `None` before the risks are evaluated.
    pub recommended: Option<Recommended>,
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

impl Status {
    /// The text in objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The condition `Recommended` of a conditional update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommended {
    /// True if no risk applies.
    pub status: Status,
    /// The reason; a risk's name if it can be one.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// The updates of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Updates {
    /// The running release, as the graph has it.
    pub current: ClusterRelease,
    /// Recommended updates, highest version first.
    pub available: Vec<ClusterRelease>,
    /// Updates with risks, recommended or not, highest version first.
    pub conditional: Vec<ConditionalUpdate>,
}

const NOT_EXPOSED: &str = "NotExposedToRisks";
const EXPOSED: &str = "ExposedToRisks";
const ACCEPTED: &str = "AllExposedRisksAccepted";
const FAILED: &str = "EvaluationFailed";
const MULTIPLE: &str = "MultipleReasons";

impl From<Retrieved> for Updates {
    fn from(retrieved: Retrieved) -> Self {
        Self { current: retrieved.current, available: retrieved.updates, conditional: retrieved.conditional }
    }
}

/// Evaluates the risks of all conditional updates, highest version first; `ask` answers a query of metrics. An update that is recommended is
/// available, too. Can be called again when metrics may say something else.
pub fn evaluate(updates: &mut Updates, ask: impl FnMut(&MatchingRule) -> Result<bool, EvaluationError>) {
    evaluate_accepting(updates, &BTreeSet::new(), ask);
}

/// Does the same for a cluster whose administrator accepts the risks of these names (CVO-RISK-10; releases newer than 4.19, behind a gate).
pub fn evaluate_accepting(
    updates: &mut Updates,
    accepted: &BTreeSet<String>,
    mut ask: impl FnMut(&MatchingRule) -> Result<bool, EvaluationError>,
) {
    let Updates { available, conditional, .. } = updates;
    sort_by_version(conditional, |update| &update.release.version);
    for update in conditional.iter_mut() {
        let recommended = recommend(&update.risks, accepted, &mut ask);
        let listed = available.iter().position(|release| release.image == update.release.image);
        match (recommended.status == Status::True, listed) {
            (true, None) => available.push(update.release.clone()),
            (false, Some(index)) => {
                available.remove(index);
            }
            _ => {}
        }
        update.recommended = Some(recommended);
    }
    sort_by_version(available, |release| &release.version);
    sort_by_version(conditional, |update| &update.release.version);
}

/// Writes the cluster's ID into queries that leave it out, for a control plane whose metrics are stored with those of others (CVO-RISK-09).
pub fn name_cluster(updates: &mut [ConditionalUpdate], cluster_id: &str) {
    let named = format!("_id=\"{cluster_id}\"");
    for rule in updates.iter_mut().flat_map(|update| &mut update.risks).flat_map(|risk| &mut risk.matching_rules) {
        if let Some(query) = rule.promql.as_mut().filter(|_| rule.kind == "PromQL") {
            query.promql = query.promql.replace("_id=\"\"", &named);
        }
    }
}

/// The condition `Recommended` of an update with these risks.
fn recommend(
    risks: &[Risk],
    accepted: &BTreeSet<String>,
    ask: &mut impl FnMut(&MatchingRule) -> Result<bool, EvaluationError>,
) -> Recommended {
    let mut status = Status::True;
    let mut reason = NOT_EXPOSED;
    let mut messages = Vec::new();
    for risk in risks {
        let verdict = judge(&risk.matching_rules, &mut *ask);
        let (found, why, message) = match verdict {
            Verdict::NoMatch => continue,
            Verdict::Match if accepted.contains(&risk.name) => {
                reason = and(reason, ACCEPTED);
                continue;
            }
            Verdict::Match => {
                let name = if is_reason(&risk.name) { &risk.name } else { EXPOSED };
                (Status::False, name, format!("{} {}", risk.message, risk.url))
            }
            Verdict::Unknown(error) => (Status::Unknown, FAILED, not_evaluated(risk, &error)),
        };
        if status != Status::False {
            status = found;
        }
        reason = and(reason, why);
        messages.push(message);
    }
    let message = match (messages.is_empty(), reason) {
        (true, ACCEPTED) => {
            "The update is recommended, because either risk does not apply to this cluster or it is accepted by cluster admins.".to_owned()
        }
        (true, _) => "The update is recommended, because none of the conditional update risks apply to this cluster.".to_owned(),
        (false, _) => messages.join("\n\n"),
    };
    Recommended { status, reason: reason.to_owned(), message }
}

/// The reason of two: what an administrator accepts gives way to what is open.
fn and<'a>(now: &'a str, more: &'a str) -> &'a str {
    match (now, more) {
        (NOT_EXPOSED | ACCEPTED, more) => more,
        (now, more) if now == more => now,
        (FAILED | EXPOSED, ACCEPTED) => now,
        _ => MULTIPLE,
    }
}

fn not_evaluated(risk: &Risk, error: &EvaluationError) -> String {
    let Risk { name, message, url, .. } = risk;
    format!("Could not evaluate exposure to update risk {name} ({error})\n  {name} description: {message}\n  {name} URL: {url}")
}

/// Returns true if a name can be the reason of a condition: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`.
pub(crate) fn is_reason(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(inside) && !name.ends_with([',', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn risk(name: &str, query: &str) -> Risk {
        Risk {
            url: format!("https://kb.example/{name}"),
            name: name.to_owned(),
            message: format!("{name} hurts."),
            matching_rules: vec![MatchingRule::query(query)],
        }
    }

    fn ask(rule: &MatchingRule) -> Result<bool, EvaluationError> {
        match rule.promql.as_ref().map(|query| query.promql.as_str()) {
            Some("0") => Ok(false),
            Some("1") => Ok(true),
            _ => Err(EvaluationError("no answer".to_owned())),
        }
    }

    /// CVO-RISK-10: accepted risks do not count; when all that apply are accepted, the condition says so. One that does not apply changes nothing.
    #[test]
    fn accepted_risks() {
        let accepted = BTreeSet::from(["A".to_owned(), "B".to_owned()]);
        for (risks, status, reason) in [
            (vec![risk("A", "1")], Status::True, "AllExposedRisksAccepted"),
            (vec![risk("A", "1"), risk("B", "1"), risk("C", "0")], Status::True, "AllExposedRisksAccepted"),
            (vec![risk("A", "0")], Status::True, "NotExposedToRisks"),
            (vec![risk("A", "1"), risk("C", "1")], Status::False, "C"),
            (vec![risk("A", "1"), risk("C", "?")], Status::Unknown, "EvaluationFailed"),
            (vec![risk("C", "?"), risk("A", "1")], Status::Unknown, "EvaluationFailed"),
            (vec![risk("A", "?")], Status::Unknown, "EvaluationFailed"),
            (vec![risk("C", "1"), risk("D", "1"), risk("A", "1")], Status::False, "MultipleReasons"),
        ] {
            let found = recommend(&risks, &accepted, &mut ask);
            assert_eq!((found.status, found.reason.as_str()), (status, reason), "{risks:?}");
            assert_eq!(found.message.contains("accepted by cluster admins"), reason == "AllExposedRisksAccepted");
        }
        let release = ClusterRelease { version: "1.0.1".to_owned(), image: "i".to_owned(), ..ClusterRelease::default() };
        let update = ConditionalUpdate { release, risks: vec![risk("A", "1")], recommended: None };
        let mut updates = Updates { conditional: vec![update], ..Updates::default() };
        evaluate(&mut updates, ask);
        assert!(updates.available.is_empty());
        evaluate_accepting(&mut updates, &accepted, ask);
        assert_eq!(updates.available.len(), 1);
    }

    /// CVO-RISK-09: every query gets the ID, as often as it leaves it out; one that names a cluster stays.
    #[test]
    fn queries_name_the_cluster() {
        let queries = ["a{_id=\"\"} or b{_id=\"\",x=\"\"}", "a{_id=\"other\"}", "up"];
        let risks = queries.iter().map(|query| risk("A", query)).collect();
        let mut updates = [ConditionalUpdate { risks, ..ConditionalUpdate::default() }];
        name_cluster(&mut updates, "c1");
        let found: Vec<&str> =
            updates[0].risks.iter().filter_map(|risk| Some(risk.matching_rules[0].promql.as_ref()?.promql.as_str())).collect();
        assert_eq!(found, ["a{_id=\"c1\"} or b{_id=\"c1\",x=\"\"}", "a{_id=\"other\"}", "up"]);
    }

    /// CVO-RISK-06: status, reason and message for every mixture of risks.
    #[test]
    fn every_mixture_of_risks() {
        let unknown = |name: &str| {
            format!(
                "Could not evaluate exposure to update risk {name} (no answer)\n  {name} description: {name} hurts.\n  {name} URL: https://kb.example/{name}"
            )
        };
        let hurts = |name: &str| format!("{name} hurts. https://kb.example/{name}");
        for (risks, status, reason, message) in [
            (
                vec![risk("A", "0"), risk("B", "0")],
                Status::True,
                "NotExposedToRisks",
                "The update is recommended, because none of the conditional update risks apply to this cluster.".to_owned(),
            ),
            (vec![risk("A", "1")], Status::False, "A", hurts("A")),
            (vec![risk("A", "0"), risk("B", "1")], Status::False, "B", hurts("B")),
            (vec![risk("A-B", "1")], Status::False, "ExposedToRisks", hurts("A-B")),
            (vec![risk("A", "?")], Status::Unknown, "EvaluationFailed", unknown("A")),
            (vec![risk("A", "?"), risk("B", "?")], Status::Unknown, "EvaluationFailed", format!("{}\n\n{}", unknown("A"), unknown("B"))),
            (vec![risk("A", "1"), risk("B", "?")], Status::False, "MultipleReasons", format!("{}\n\n{}", hurts("A"), unknown("B"))),
            (vec![risk("A", "?"), risk("B", "1")], Status::False, "MultipleReasons", format!("{}\n\n{}", unknown("A"), hurts("B"))),
            (vec![risk("A", "1"), risk("A", "1")], Status::False, "A", format!("{0}\n\n{0}", hurts("A"))),
        ] {
            let found = recommend(&risks, &BTreeSet::new(), &mut ask);
            assert_eq!((found.status, found.reason.as_str(), found.message), (status, reason, message), "{risks:?}");
        }
    }

    /// CVO-RISK-06: which names of risks can be reasons.
    #[test]
    fn names_that_are_reasons() {
        for good in ["A", "SlowDisk", "a1_b,c:d_", "Z9"] {
            assert!(is_reason(good), "{good}");
        }
        for bad in ["", "1A", "A-B", "A:", "A,", "_A", "Ä", "A B", "A\n"] {
            assert!(!is_reason(bad), "{bad:?}");
        }
    }

    /// CVO-RISK-01: an update that becomes recommended is available, and leaves the list when it no longer is; it stays a conditional update.
    #[test]
    fn updates_move_between_the_lists() {
        let release =
            |version: &str| ClusterRelease { version: version.to_owned(), image: format!("r@{version}"), ..ClusterRelease::default() };
        let mut updates = Updates {
            current: release("1.0.0"),
            available: vec![release("1.0.1"), release("1.0.10")],
            conditional: vec![ConditionalUpdate { release: release("1.0.2"), risks: vec![risk("A", "x")], recommended: None }],
        };
        let versions = |updates: &Updates| updates.available.iter().map(|release| release.version.clone()).collect::<Vec<_>>();
        evaluate(&mut updates, |_| Ok(false));
        assert_eq!(versions(&updates), ["1.0.10", "1.0.2", "1.0.1"]);
        evaluate(&mut updates, |_| Ok(true));
        assert_eq!(versions(&updates), ["1.0.10", "1.0.1"]);
        assert_eq!(updates.conditional.len(), 1);
        assert_eq!(updates.conditional[0].recommended.as_ref().map(|found| found.status), Some(Status::False));
    }
}
