//! When updates are asked for, and what a failure keeps.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use mainstay_api::condition::Status;
use mainstay_api::config_v1::{Architecture, ConditionalUpdate, Release};
use mainstay_cluster_version_core::conditions::Said;
use mainstay_cluster_version_core::retrieval::{Answer, Decision, Question, Retrieved, Why, decide, interval, keep, put};
use serde_json::json;

use crate::support::{cluster_version, minutes, said};

fn question(service: &str, channel: &str, architecture: &str) -> Question {
    Question { service: service.into(), channel: channel.into(), architecture: architecture.into() }
}

fn usual() -> Question {
    question("", "fast", "amd64")
}

fn release(version: &str) -> Release {
    Release { version: version.into(), image: format!("i{version}"), architecture: Some(Architecture::Multi), ..Release::default() }
}

fn conditional(version: &str, recommended: Option<&str>) -> ConditionalUpdate {
    let conditions = recommended.map(|status| json!([{"type": "Recommended", "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]));
    serde_json::from_value(json!({"release": release(version), "risks": [], "conditions": conditions.unwrap_or(json!([]))})).unwrap()
}

fn answer(attempted: i64, changed: i64, conditional: Vec<ConditionalUpdate>) -> Answer {
    Answer { question: usual(), attempted: Some(minutes(attempted)), changed: Some(minutes(changed)), conditional, ..Answer::default() }
}

/// CVO-USC-04, CVO-USC-06: what makes the operator ask, evaluate again, or wait.
#[test]
fn decisions() {
    let minimum = Duration::from_secs(180);
    let check = |last: Option<&Answer>, asked: Question, at: i64, expected: Decision| {
        assert_eq!(decide(last, &asked, minimum, minutes(at)), expected, "minute {at}");
    };
    let fresh = answer(0, 0, vec![conditional("4.19.2", Some("True")), conditional("4.19.3", Some("False"))]);
    check(None, usual(), 0, Decision::Ask(Why::First));
    check(Some(&fresh), usual(), 2, Decision::Wait);
    check(Some(&fresh), usual(), 3, Decision::Ask(Why::Periodic));
    check(Some(&fresh), question("", "slow", "amd64"), 1, Decision::Ask(Why::Channel));
    check(Some(&fresh), question("", "fast", "Multi"), 1, Decision::Ask(Why::Architecture));
    check(Some(&fresh), question("https://other", "fast", "amd64"), 1, Decision::Ask(Why::Service));
    check(Some(&answer(1439, 0, Vec::new())), usual(), 1439, Decision::Wait);
    check(Some(&answer(1439, 0, Vec::new())), usual(), 1440, Decision::Ask(Why::Outdated));
    check(Some(&answer(0, 0, vec![conditional("4.19.2", None)])), usual(), 1, Decision::Evaluate);
    check(Some(&answer(0, 0, vec![conditional("4.19.2", Some("Unknown"))])), usual(), 1, Decision::Evaluate);
    assert_eq!((interval(0.0), interval(0.5)), (Duration::from_secs(120), minimum));
}

fn retrieved(status: Status, reason: &str, versions: &[&str]) -> Retrieved {
    let updates = (status == Status::True).then(|| versions.iter().map(|version| release(version)).collect());
    let conditional = if status == Status::True { vec![conditional("4.19.3", None)] } else { Vec::new() };
    Retrieved { current: None, updates, conditional, condition: Said::new("RetrievedUpdates", status).because(reason) }
}

/// CVO-USC-05, CVO-RISK-07: a failure of the service keeps what was known when it is asked as usual, and nothing else does.
#[test]
fn failures() {
    let known = keep(None, Why::First, usual(), retrieved(Status::True, "", &["4.19.2", "4.19.10"]), minutes(0));
    let versions =
        |answer: &Answer| -> Option<Vec<String>> { Some(answer.updates.as_ref()?.iter().map(|release| release.version.clone()).collect()) };
    let all = Some(vec!["4.19.10".to_owned(), "4.19.2".to_owned()]);
    assert_eq!(versions(&known), all, "CVO-USC-13");
    assert_eq!(known.changed, Some(minutes(0)));
    for reason in ["RemoteFailed", "ResponseFailed", "ResponseInvalid"] {
        let failed = |why| keep(Some(known.clone()), why, usual(), retrieved(Status::False, reason, &[]), minutes(5));
        let kept = failed(Why::Periodic);
        assert_eq!((versions(&kept), kept.conditional.len()), (all.clone(), 1));
        assert_eq!((kept.attempted, kept.changed), (Some(minutes(5)), Some(minutes(0))));
        assert_eq!(kept.condition.as_ref().unwrap().reason, reason);
        for why in [Why::Channel, Why::Architecture, Why::Service, Why::Outdated, Why::First] {
            let lost = failed(why);
            assert_eq!((versions(&lost), lost.conditional.len()), (None, 0), "{why:?}");
        }
    }
    for reason in ["VersionNotFound", "NoChannel", "InvalidRequest", "Unknown"] {
        let lost = keep(Some(known.clone()), Why::Periodic, usual(), retrieved(Status::False, reason, &[]), minutes(5));
        assert_eq!(versions(&lost), None, "{reason}");
    }
    // The question is another: that is a change, although there was no answer.
    let other =
        keep(Some(known.clone()), Why::Channel, question("", "slow", "amd64"), retrieved(Status::False, "RemoteFailed", &[]), minutes(5));
    assert_eq!(other.changed, Some(minutes(5)));
    // What was evaluated is taken over by image.
    let mut evaluated = known;
    evaluated.conditional = vec![conditional("4.19.3", Some("False"))];
    let again = keep(Some(evaluated), Why::Periodic, usual(), retrieved(Status::True, "", &[]), minutes(6));
    assert_eq!(again.conditional, [conditional("4.19.3", Some("False"))]);
    assert_eq!(again.updates, Some(Vec::new()));
}

/// CVO-API-06, CVO-USC-01: the answer is put into the object that asked for it.
#[test]
fn answers_are_put() {
    let known = keep(None, Why::First, usual(), retrieved(Status::True, "", &["4.19.2"]), minutes(0));
    let mut object = cluster_version(json!({"clusterID": "", "channel": "slow"}), json!({}));
    put(&known, &mut object, false, minutes(1));
    assert_eq!(object.status.available_updates, None);
    object.spec.channel = "fast".into();
    put(&known, &mut object, false, minutes(1));
    assert_eq!(said(&object.status.conditions, "RetrievedUpdates"), "True : ");
    let shown = object.status.available_updates.as_ref().unwrap();
    assert_eq!((shown[0].version.as_str(), shown[0].architecture), ("4.19.2", None));
    put(&known, &mut object, true, minutes(1));
    assert_eq!(object.status.available_updates.unwrap()[0].architecture, Some(Architecture::Multi));
    assert_eq!(
        Answer::remembered(&cluster_version(json!({}), json!({"conditionalUpdates": [conditional("1.0.0", Some("True"))]})))
            .conditional
            .len(),
        1
    );
}
