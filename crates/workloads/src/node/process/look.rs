//! The life of a container that is a real process, from one look to the next: a pure function of its status before, of what its runner
//! saw last, and of the time (KAPI-WL-07).

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::node::container::{Container, LOOK, Look};
use crate::node::observed::{Exit, Process, Run, Start};
use crate::object::time;

/// The run time after which a process counts as steady: its next restart does not wait.
const STEADY: SignedDuration = SignedDuration::from_secs(600);
/// The exit code of a process whose end was not seen, the same as the kubelet's.
const UNSEEN: i32 = 255;

impl Container<'_> {
    /// Lets the process start, go on, end or restart.
    pub(in crate::node) fn lives(&self, process: &Process) -> Look {
        let restarts = self.before["restartCount"].as_i64().unwrap_or_default();
        let state = &self.before["state"];
        let shown_last = self.before.pointer("/lastState/terminated").cloned().unwrap_or(Value::Null);
        if let Process::Running { run, started, ready } = process {
            let state = json!({"running": {"startedAt": time(run.since)}});
            let mut status = self.status(state, last_state(&run.last), run.attempt, *started && *ready);
            status["started"] = json!(started);
            return Look::rest(status, None);
        }
        if let Some((reason, message)) = &self.conduct.stuck {
            return self.stuck(reason, message, restarts, last_state(&shown_last));
        }
        match process {
            Process::Running { .. } => Look::rest(self.before.clone(), None),
            Process::Blocked { reason, message, since } => {
                let state = json!({"waiting": {"reason": reason, "message": message}});
                let status = self.status(state, last_state(&shown_last), restarts, false);
                let due = since.saturating_add(SignedDuration::try_from(LOOK).unwrap_or_default()).unwrap_or(self.now);
                if due <= self.now {
                    return Look { status, again: Some(LOOK), start: Some(Start { attempt: restarts, last: shown_last }) };
                }
                Look::rest(status, Some(Duration::try_from(due.duration_since(self.now)).unwrap_or(LOOK)))
            }
            Process::Ended { run, exit } => {
                let steady = exit.at.duration_since(run.since) >= STEADY;
                self.after(&ended(run, exit), &run.last, run.attempt, steady)
            }
            // The process of an earlier run of this program ended with it.
            Process::Absent if state["running"].is_object() => self.after(&self.unseen(), &shown_last, restarts, true),
            Process::Absent if state["terminated"].is_object() => {
                if !self.restarts.again(state["terminated"]["exitCode"].as_i64().unwrap_or_default()) {
                    return Look::rest(self.before.clone(), None);
                }
                self.after(&state["terminated"], &shown_last, restarts, false)
            }
            Process::Absent if shown_last.is_object() => self.after(&shown_last, &Value::Null, restarts, false),
            Process::Absent => {
                let status = self.status(json!({"waiting": {"reason": "ContainerCreating"}}), json!({}), restarts, false);
                Look { status, again: None, start: Some(Start { attempt: restarts, last: Value::Null }) }
            }
        }
    }

    /// Shows the end of a process whose pod stops; one that still runs is shown as it is.
    pub(in crate::node) fn stopped(&self, process: &Process) -> Value {
        match process {
            Process::Ended { run, exit } => self.status(json!({"terminated": ended(run, exit)}), last_state(&run.last), run.attempt, false),
            Process::Absent if self.before.pointer("/state/running").is_some() => {
                let restarts = self.before["restartCount"].as_i64().unwrap_or_default();
                self.status(json!({"terminated": self.unseen()}), self.before["lastState"].clone(), restarts, false)
            }
            _ => self.before.clone(),
        }
    }

    /// Restarts a process that has ended, when its back-off is over.
    fn after(&self, terminated: &Value, last: &Value, attempt: i64, steady: bool) -> Look {
        let code = terminated["exitCode"].as_i64().unwrap_or_default();
        let status = || self.status(json!({"terminated": terminated}), last_state(last), attempt, false);
        if !self.restarts.again(code) {
            return Look::rest(status(), None);
        }
        if attempt > 0 && !steady && self.left(terminated, attempt).is_some() {
            return self.backs_off(terminated, attempt);
        }
        Look { status: status(), again: None, start: Some(Start { attempt: attempt + 1, last: terminated.clone() }) }
    }

    fn unseen(&self) -> Value {
        json!({
            "exitCode": UNSEEN, "reason": "Unknown", "startedAt": self.before["state"]["running"]["startedAt"],
            "finishedAt": time(self.now), "containerID": self.before["containerID"],
            "message": "the process ended with the mainstay that ran it",
        })
    }
}

fn last_state(terminated: &Value) -> Value {
    if terminated.is_object() { json!({"terminated": terminated}) } else { json!({}) }
}

fn ended(run: &Run, exit: &Exit) -> Value {
    let mut state = json!({
        "exitCode": exit.code, "reason": if exit.code == 0 { "Completed" } else { "Error" },
        "startedAt": time(run.since), "finishedAt": time(exit.at), "containerID": run.id,
    });
    if !exit.message.is_empty() {
        state["message"] = json!(exit.message);
    }
    state
}

#[cfg(test)]
mod tests;
