//! The decision if the status of a quota is written now: a pure function.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use mainstay_kinds::resource_list::ResourceList;
use serde_json::{Value, json};

/// The time that a charge may take to become a visible object.
const SETTLED: SignedDuration = SignedDuration::from_millis(150);
/// The longest time that a decrease waits for a pause in the charges.
const PATIENCE: SignedDuration = SignedDuration::from_secs(3);

/// The facts about a quota.
pub(super) struct Facts<'a> {
    /// The quota.
    pub quota: &'a Value,
    /// The use by the objects, for the resources that are measured.
    pub sum: &'a ResourceList,
    /// The last change of its usage.
    pub charged: Option<Timestamp>,
    /// The time since which the sum is requested.
    pub asked: Timestamp,
    /// The current time.
    pub now: Timestamp,
}

/// The next step for a quota.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// The status is up to date.
    Nothing,
    /// This status is written.
    Write(Value),
    /// The sum is repeated after this time.
    Wait(Duration),
}

/// Decides the next step.
pub(super) fn decide(facts: &Facts<'_>) -> Step {
    let Facts { quota, sum, now, .. } = facts;
    let hard = quota.pointer("/spec/hard");
    let wanted = ResourceList::read(hard);
    let before = ResourceList::read(quota.pointer("/status/used"));
    let mut used = before.only(|name| wanted.get(name).is_some());
    for (name, amount) in sum.iter() {
        used.set(name, amount);
    }
    let enforced = hard == quota.pointer("/status/hard");
    if enforced && used == before {
        return Step::Nothing;
    }
    let less = used.iter().any(|(name, amount)| before.get(name).is_some_and(|before| amount < before));
    if less && enforced {
        let settled = facts.charged.map_or(SignedDuration::MAX, |charged| now.duration_since(charged));
        if settled < SETTLED && now.duration_since(facts.asked) < PATIENCE {
            return Step::Wait((SETTLED - settled.max(SignedDuration::ZERO)).unsigned_abs());
        }
    }
    let mut status = json!({});
    if let Some(hard) = hard {
        status["hard"] = hard.clone();
    }
    if !used.is_empty() {
        status["used"] = used.to_value();
    }
    Step::Write(status)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-WL-01: the status of a quota follows its spec and its objects; what is given back waits for charges to settle.
    #[test]
    fn decisions() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        let ago = |millis: i64| now - SignedDuration::from_millis(millis);
        let quota = |hard: Value, status: Value| json!({"spec": {"hard": hard}, "status": status});
        let status = |hard: &str, used: &str| json!({"hard": {"secrets": hard}, "used": {"secrets": used}});
        for (what, quota, sum, charged, asked, expected) in [
            ("a new quota", quota(json!({"secrets": "5"}), json!({})), "3", 0, 0, Step::Write(status("5", "3"))),
            ("as it should be", quota(json!({"secrets": "5"}), status("5", "3")), "3", 0, 0, Step::Nothing),
            ("another limit", quota(json!({"secrets": "6"}), status("5", "3")), "2", 0, 0, Step::Write(status("6", "2"))),
            ("more than known", quota(json!({"secrets": "5"}), status("5", "3")), "4", 0, 0, Step::Write(status("5", "4"))),
            (
                "less, charged just now",
                quota(json!({"secrets": "5"}), status("5", "3")),
                "2",
                100,
                0,
                Step::Wait(Duration::from_millis(50)),
            ),
            ("less, settled", quota(json!({"secrets": "5"}), status("5", "3")), "2", 150, 0, Step::Write(status("5", "2"))),
            (
                "less, charged without a pause",
                quota(json!({"secrets": "5"}), status("5", "3")),
                "2",
                1,
                3000,
                Step::Write(status("5", "2")),
            ),
            (
                "a name that is not wanted any more",
                quota(json!({"secrets": "5"}), json!({"hard": {"secrets": "5"}, "used": {"secrets": "3", "pods": "1"}})),
                "3",
                0,
                0,
                Step::Write(status("5", "3")),
            ),
        ] {
            let mut list = ResourceList::default();
            list.set("secrets", mainstay_kinds::quantity::Quantity::parse(sum).unwrap());
            let facts = Facts { quota: &quota, sum: &list, charged: Some(ago(charged)), asked: ago(asked), now };
            assert_eq!(decide(&facts), expected, "{what}");
        }
    }

    #[test]
    fn what_nothing_measures_keeps_its_last_usage() {
        let quota = json!({"spec": {"hard": {"count/things.example.com": "5"}}, "status": {
            "hard": {"count/things.example.com": "5"}, "used": {"count/things.example.com": "2"}}});
        let now = Timestamp::UNIX_EPOCH;
        let facts = Facts { quota: &quota, sum: &ResourceList::default(), charged: None, asked: now, now };
        assert_eq!(decide(&facts), Step::Nothing);
    }
}
