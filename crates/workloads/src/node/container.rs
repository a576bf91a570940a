//! The life of a container, from one look to the next: a pure function of its previous status, its conduct and the time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::behaviour::{Conduct, End};
use super::observed::{Process, Start};
use crate::object::{Read as _, condition, items, parse_time, time};

/// Seconds before the second restart; doubled with each further one.
const BACKOFF: i64 = 10;
const MOST_BACKOFF: i64 = 300;
/// The time for which a failed pull shows before the back-off begins.
const FAILED_PULL: SignedDuration = SignedDuration::from_secs(2);
/// The interval at which the requirements of a waiting container are checked again.
pub(super) const LOOK: Duration = Duration::from_secs(10);

/// The restart policy of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarts {
    /// It always restarts.
    Always,
    /// It restarts after a failure.
    OnFailure,
    /// It never restarts.
    Never,
}

impl Restarts {
    /// Reads a restart policy.
    pub fn of(policy: &str) -> Self {
        match policy {
            "Never" => Self::Never,
            "OnFailure" => Self::OnFailure,
            _ => Self::Always,
        }
    }

    pub(super) fn again(self, code: i64) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

/// A container at one look.
pub struct Container<'a> {
    /// Its pod.
    pub pod: &'a DynamicObject,
    /// Its specification.
    pub spec: &'a Value,
    /// Its previous status; null if there is none.
    pub before: &'a Value,
    /// Its conduct.
    pub conduct: &'a Conduct,
    /// Its restart policy.
    pub restarts: Restarts,
    /// The current time.
    pub now: Timestamp,
}

/// The outcome of a look.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// The new status of the container.
    pub status: Value,
    /// The time until the next look.
    pub again: Option<Duration>,
    /// The start of a real process that is due.
    pub start: Option<Start>,
}

impl Look {
    /// Returns a look after which nothing is started.
    pub fn rest(status: Value, again: Option<Duration>) -> Self {
        Self { status, again, start: None }
    }

    /// Returns the exit code of a container that has ended and will not restart.
    pub fn ended(&self, restarts: Restarts) -> Option<i64> {
        let code = self.status.pointer("/state/terminated/exitCode")?.as_i64()?;
        (!restarts.again(code)).then_some(code)
    }

    /// Returns true if the container runs.
    pub fn running(&self) -> bool {
        self.status.pointer("/state/running").is_some()
    }
}

impl Container<'_> {
    /// Keeps the container waiting, for this reason.
    pub fn waits(&self, reason: &str) -> Look {
        if self.before.pointer("/state/running").is_some() || self.before.pointer("/state/terminated").is_some() {
            return Look::rest(self.before.clone(), None);
        }
        Look::rest(self.status(json!({"waiting": {"reason": reason}}), json!({}), 0, false), None)
    }

    /// Lets the container start, go on, end or restart.
    pub fn runs(&self) -> Look {
        if let Some(process) = &self.conduct.process {
            return self.lives(process);
        }
        let state = &self.before["state"];
        let restarts = self.before["restartCount"].as_i64().unwrap_or_default();
        let last = self.before.get("lastState").cloned().unwrap_or_else(|| json!({}));
        if let Some(since) = state.pointer("/running/startedAt").and_then(parse_time) {
            return self.goes_on(since, restarts, last);
        }
        if state["terminated"].is_object() {
            return self.comes_back(&state["terminated"], restarts);
        }
        if state.pointer("/waiting/reason").is_some_and(|reason| reason == "CrashLoopBackOff") && last["terminated"].is_object() {
            return self.comes_back(&last["terminated"], restarts);
        }
        self.starts(restarts, last)
    }

    /// Stops the container, because its pod is being deleted.
    pub fn stops(&self) -> Value {
        if let Some(process) = &self.conduct.process {
            return self.stopped(process);
        }
        if self.before.pointer("/state/running").is_none() {
            return self.before.clone();
        }
        let since = self.before["state"]["running"]["startedAt"].clone();
        let restarts = self.before["restartCount"].as_i64().unwrap_or_default();
        let end = End { code: 143, reason: "Error", after: Duration::ZERO };
        self.status(self.terminated(&end, &since, self.now), json!({}), restarts, false)
    }

    fn starts(&self, restarts: i64, last: Value) -> Look {
        if let Some((reason, message)) = &self.conduct.stuck {
            return self.stuck(reason, message, restarts, last);
        }
        if let Some(wait) = &self.conduct.wait {
            let first = if items(self.pod, "/spec/initContainers").next().is_some() { "PodInitializing" } else { "ContainerCreating" };
            let mut waiting = json!({"reason": if wait.reason.is_empty() { first } else { wait.reason }});
            if !wait.message.is_empty() {
                waiting["message"] = json!(wait.message);
            }
            let status = self.status(json!({"waiting": waiting}), last, restarts, false);
            return Look { status, again: Some(wait.again), start: None };
        }
        self.goes_on(self.now, restarts, last)
    }

    pub(super) fn stuck(&self, reason: &str, message: &str, restarts: i64, last: Value) -> Look {
        let image = self.spec["image"].as_str().unwrap_or_default();
        let waited = self.before.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default();
        // The pod's own conditions show since when it tries.
        let tries = condition(self.pod.at("/status/conditions"), "PodReadyToStartContainers")
            .and_then(|one| parse_time(&one["lastTransitionTime"]));
        let fresh = waited != "ImagePullBackOff" && tries.is_none_or(|since| self.now.duration_since(since) < FAILED_PULL);
        let (shown, text, again) = match (reason, waited) {
            ("ErrImagePull", "ErrImagePull") if fresh => ("ErrImagePull", message.to_owned(), Duration::from_secs(1)),
            ("ErrImagePull", "ErrImagePull" | "ImagePullBackOff") => {
                ("ImagePullBackOff", format!("Back-off pulling image {image:?}: ErrImagePull: {message}"), LOOK)
            }
            ("ErrImagePull", _) => ("ErrImagePull", message.to_owned(), Duration::from_secs(1)),
            _ => (reason, message.to_owned(), LOOK),
        };
        let state = json!({"waiting": {"reason": shown, "message": text}});
        Look::rest(self.status(state, last, restarts, false), Some(again))
    }

    fn goes_on(&self, since: Timestamp, restarts: i64, last: Value) -> Look {
        if let Some(end) = &self.conduct.end {
            let at = since.saturating_add(SignedDuration::try_from(end.after).unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX);
            if at <= self.now {
                let state = self.terminated(end, &time(since), at);
                if self.restarts.again(i64::from(end.code)) && restarts == 0 {
                    // The first restart follows at once; only later ones wait.
                    let before = self.status(state, last, restarts, false);
                    return Container { before: &before, ..*self }.runs();
                }
                return self.ends(state, restarts, last);
            }
            let left = Duration::try_from(at.duration_since(self.now)).unwrap_or_default();
            let status = self.status(json!({"running": {"startedAt": time(since)}}), last, restarts, self.conduct.ready);
            return Look::rest(status, Some(left));
        }
        let status = self.status(json!({"running": {"startedAt": time(since)}}), last, restarts, self.conduct.ready);
        Look::rest(status, None)
    }

    fn ends(&self, state: Value, restarts: i64, last: Value) -> Look {
        let code = state["terminated"]["exitCode"].as_i64().unwrap_or_default();
        if self.restarts.again(code) {
            return self.backs_off(&state["terminated"], restarts);
        }
        Look::rest(self.status(state, last, restarts, false), None)
    }

    /// Restarts a container that has ended, when its back-off is over.
    fn comes_back(&self, terminated: &Value, restarts: i64) -> Look {
        let code = terminated["exitCode"].as_i64().unwrap_or_default();
        if !self.restarts.again(code) {
            return Look::rest(self.before.clone(), None);
        }
        if restarts > 0 && self.left(terminated, restarts).is_some() {
            return self.backs_off(terminated, restarts);
        }
        self.starts(restarts + 1, json!({"terminated": terminated}))
    }

    pub(super) fn backs_off(&self, terminated: &Value, restarts: i64) -> Look {
        let seconds = backoff(restarts);
        let name = self.spec["name"].as_str().unwrap_or_default();
        let pod = format!("{}_{}({})", self.pod.name(), self.pod.namespace(), self.pod.uid());
        let pretty = if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) };
        let message = format!("back-off {pretty} restarting failed container={name} pod={pod}");
        let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
        let status = self.status(state, json!({"terminated": terminated}), restarts, false);
        Look::rest(status, Some(self.left(terminated, restarts).unwrap_or_default()))
    }

    pub(super) fn left(&self, terminated: &Value, restarts: i64) -> Option<Duration> {
        let ended = parse_time(&terminated["finishedAt"]).unwrap_or(self.now);
        let until = ended.saturating_add(SignedDuration::from_secs(backoff(restarts))).ok()?;
        Duration::try_from(until.duration_since(self.now)).ok().filter(|left| !left.is_zero())
    }

    fn terminated(&self, end: &End, since: &Value, at: Timestamp) -> Value {
        let mut state = json!({
            "exitCode": end.code, "reason": end.reason, "startedAt": since, "finishedAt": time(at), "containerID": self.identity(),
        });
        if end.code != 0 && end.reason == "Error" {
            state["message"] = json!(self.conduct.told.clone().unwrap_or_else(|| format!("simulated: exit code {}", end.code)));
        }
        json!({"terminated": state})
    }

    #[allow(clippy::needless_pass_by_value, reason = "both become part of the status")]
    pub(super) fn status(&self, state: Value, last: Value, restarts: i64, ready: bool) -> Value {
        let image = self.spec["image"].as_str().unwrap_or_default();
        let waits = state["waiting"].is_object();
        let runs = state["running"].is_object();
        // An init container that has succeeded is done.
        let over = state.pointer("/terminated/exitCode").is_some_and(|code| code == 0) && self.is_init();
        // The ID of an image that was pulled earlier stays, also when it is not known any more.
        let held = self.before["imageID"].as_str().filter(|id| !id.is_empty() && self.before["image"] == image);
        let image_id = self.conduct.image_id.as_deref().or(held).map(str::to_owned);
        let mut status = json!({
            "name": self.spec["name"],
            "image": image,
            "imageID": if waits && restarts == 0 {
                String::new()
            } else {
                image_id.unwrap_or_else(|| format!("{image}@sha256:{:x}", Sha256::digest(image)))
            },
            "ready": (runs && ready) || over,
            "started": runs,
            "restartCount": restarts,
            "state": state,
            "lastState": last,
        });
        if !waits || restarts > 0 {
            status["containerID"] = json!(self.identity());
        }
        status
    }

    fn is_init(&self) -> bool {
        self.pod.at("/spec/initContainers").as_array().is_some_and(|all| all.iter().any(|one| one["name"] == self.spec["name"]))
    }

    /// Returns the ID of the container's process, or the ID that the container would have, since no container exists.
    fn identity(&self) -> String {
        match &self.conduct.process {
            Some(Process::Running { run, .. } | Process::Ended { run, .. }) => return run.id.clone(),
            Some(_) => return self.before["containerID"].as_str().unwrap_or_default().to_owned(),
            None => {}
        }
        let name = self.spec["name"].as_str().unwrap_or_default();
        format!("simulated://{:x}", Sha256::digest(format!("{}/{name}", self.pod.uid())))
    }
}

fn backoff(restarts: i64) -> i64 {
    (BACKOFF << (restarts - 1).clamp(0, 6)).min(MOST_BACKOFF)
}
