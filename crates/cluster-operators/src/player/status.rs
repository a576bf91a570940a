//! The state machine of one played operator.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mainstay_api::cluster_operator::AS_EXPECTED;
use mainstay_api::condition::Status;
use mainstay_api::config_v1::StatusCondition;
use serde_json::{Value, json};

use super::script::Play;
use crate::ACCOUNT;

/// The annotation of a ClusterOperator that is played; its value is `true`.
pub const SIMULATED: &str = "mainstay.dev/simulated";
/// What Available says of every played operator.
pub const NO_OPERAND: &str = "simulated: no operand is running";

/// The next state of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// The status to write.
    pub status: Value,
    /// The time until the state after it; `None` if it stays until something changes.
    pub wait: Option<Duration>,
}

/// Whose a ClusterOperator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporter {
    /// The player's: it carries the mark, or no condition is reported.
    Player,
    /// Another part of this program, or another program: its field manager wrote conditions.
    Other,
}

/// Returns whose a ClusterOperator is. Another field manager that writes conditions is believed at once, and has the operator from then on.
pub fn reporter(live: &Value) -> Reporter {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let foreign = |entry: &Value| entry["manager"] != ACCOUNT && entry.pointer("/fieldsV1/f:status/f:conditions").is_some();
    let has_conditions = live.pointer("/status/conditions").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    if entries.into_iter().any(foreign) || (has_conditions && !is_marked(live)) { Reporter::Other } else { Reporter::Player }
}

/// Returns true if the object carries the mark.
pub fn is_marked(live: &Value) -> bool {
    live.pointer("/metadata/annotations").and_then(|all| all.get(SIMULATED)).is_some_and(|mark| mark == "true")
}

/// Returns true if every version of the manifest is in the live object (CVO-CO-05).
pub fn has_versions(live: &Value, expected: &Value) -> bool {
    let of = |object: &'_ Value| object.pointer("/status/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let found = of(live);
    of(expected).iter().all(|version| found.iter().any(|each| each["name"] == version["name"] && each["version"] == version["version"]))
}

/// Returns the state of an operator whose update began at `since`.
///
/// An update begins with Progressing=True, even if its time has passed already. Versions and Available=True come together while Progressing is still
/// True; Progressing=False is a state of its own after it.
pub fn next_status(live: &Value, expected: &Value, play: &Play, since: Timestamp, now: Timestamp) -> Next {
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let old = conditions(live);
    let is_progressing = old.iter().any(|each| each.kind == "Progressing" && each.status == Status::True);
    let target = target(expected);
    let lasts = play.duration.max(play.degraded_for).max(play.unavailable_for);
    let is_new = live.pointer("/status/versions").and_then(Value::as_array).is_none_or(Vec::is_empty);
    let working = (Status::True, "Updating", format!("simulated: working towards {target}"));
    let steady = [available(), (Status::False, AS_EXPECTED, "simulated: no fault is played".to_owned())];

    if has_versions(live, expected) {
        let progressing = (Status::False, AS_EXPECTED, format!("simulated: at {target}"));
        let [available, degraded] = steady;
        return Next { status: status(live, expected, old, play, [available, progressing, degraded], false, now), wait: None };
    }
    if is_progressing && !play.never_finishes && elapsed >= lasts {
        let [available, degraded] = steady;
        let status = status(live, expected, old, play, [available, working, degraded], true, now);
        return Next { status, wait: Some(Duration::ZERO) };
    }
    let available = if is_new {
        (Status::False, "Installing", format!("{NO_OPERAND}, and {target} is not installed yet"))
    } else if elapsed < play.unavailable_for {
        (Status::False, "PlayedUnavailable", format!("{NO_OPERAND}, and the script says that the operator is unavailable"))
    } else {
        available()
    };
    let degraded = if elapsed < play.degraded_for {
        (Status::True, "PlayedDegraded", "simulated: the script says that the operator is degraded".to_owned())
    } else {
        let [_, degraded] = steady;
        degraded
    };
    let progressing = match working {
        (status, reason, message) if play.never_finishes => {
            (status, reason, format!("{message}; the script says that it never gets there"))
        }
        working => working,
    };
    let ends = [Some(play.degraded_for), Some(play.unavailable_for), (!play.never_finishes).then_some(lasts)];
    let wait = ends.into_iter().flatten().filter_map(|end| end.checked_sub(elapsed)).filter(|left| !left.is_zero()).min();
    // An update of no duration ends in the state after this one.
    let wait = wait.or((!play.never_finishes).then_some(Duration::ZERO));
    Next { status: status(live, expected, old, play, [available, progressing, degraded], false, now), wait }
}

/// Returns when the update that is in progress began, as the object itself tells.
pub fn began(live: &Value) -> Option<Timestamp> {
    let progressing = conditions(live).into_iter().find(|each| each.kind == "Progressing" && each.status == Status::True)?;
    progressing.last_transition_time.map(|time| time.0)
}

type State = (Status, &'static str, String);

fn available() -> State {
    (Status::True, AS_EXPECTED, NO_OPERAND.to_owned())
}

/// The version that the operator goes to, for people.
fn target(expected: &Value) -> String {
    let versions = expected.pointer("/status/versions").and_then(Value::as_array).into_iter().flatten();
    let own = versions.clone().find(|version| version["name"] == "operator").or_else(|| versions.clone().next());
    own.and_then(|version| version["version"].as_str()).unwrap_or("the release").to_owned()
}

/// The conditions that are there; what is no condition is dropped.
fn conditions(live: &Value) -> Vec<StatusCondition> {
    let all = live.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|each| serde_json::from_value(each.clone()).ok()).collect()
}

fn status(
    live: &Value,
    expected: &Value,
    mut conditions: Vec<StatusCondition>,
    play: &Play,
    [available, progressing, degraded]: [State; 3],
    arrives: bool,
    now: Timestamp,
) -> Value {
    let mut status = live.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let upgradeable = match &play.not_upgradeable {
        Some(problem) => (Status::False, problem.reason.as_str(), problem.message.clone()),
        None => (Status::True, AS_EXPECTED, "simulated: the script has no objection".to_owned()),
    };
    let usual = [("Available", available), ("Progressing", progressing), ("Degraded", degraded), ("Upgradeable", upgradeable)];
    for (kind, (state, reason, message)) in usual {
        set(&mut conditions, kind, state, reason, &message, now);
    }
    for extra in &play.conditions {
        set(&mut conditions, &extra.kind, extra.status, &extra.reason, &extra.message, now);
    }
    status.insert("conditions".into(), json!(conditions));
    if let Some(versions) = expected.pointer("/status/versions").filter(|_| arrives) {
        status.insert("versions".into(), versions.clone());
    }
    if let Some(Value::Array(related)) = expected.pointer("/status/relatedObjects") {
        // Manifests name all objects of a resource by none; the definition wants a name, as Go's type always writes one.
        let named = related.iter().cloned().map(|mut one| {
            if let Some(one) = one.as_object_mut() {
                one.entry("name").or_insert_with(|| "".into());
            }
            one
        });
        status.insert("relatedObjects".into(), named.collect());
    }
    Value::Object(status)
}

/// The status of an operator that another part of this program reports, at the versions of the release: such a part is of this program's version,
/// and works for any release. `None` if the operator is not available, or is at the versions.
pub fn at_versions(live: &Value, expected: &Value) -> Option<Value> {
    let is_available = conditions(live).iter().any(|each| each.kind == "Available" && each.status == Status::True);
    if !is_available || has_versions(live, expected) {
        return None;
    }
    let mut status = live.get("status")?.clone();
    status["versions"] = expected.pointer("/status/versions")?.clone();
    Some(status)
}

/// Sets a condition; its time moves with its status.
fn set(conditions: &mut Vec<StatusCondition>, kind: &str, status: Status, reason: &str, message: &str, now: Timestamp) {
    let old = conditions.iter().position(|each| each.kind == kind);
    let kept = old.map(|at| &conditions[at]).filter(|old| old.status == status).and_then(|old| old.last_transition_time.clone());
    let wanted = StatusCondition {
        kind: kind.to_owned(),
        status,
        last_transition_time: Some(kept.unwrap_or_else(|| Time(Timestamp::from_second(now.as_second()).unwrap_or(now)))),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match old {
        Some(at) => conditions[at] = wanted,
        None => conditions.push(wanted),
    }
}
