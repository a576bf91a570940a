//! Events of both controllers and of the cluster operator: every transition that an administrator needs to know of (OLM1-CTRL-15, MS-OPS-01).
//!
//! Actions are reported when they are done, changes of conditions by [`transitions`]. The recorder counts equal events; [`Budget`] bounds events that
//! keep differing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mainstay_api::condition::{self, Condition, Status};
use mainstay_apply::{EventKind, Recorder};
use mainstay_olm_v1_core::cluster_operator::compat::CONDITION as PLATFORM;
use mainstay_olm_v1_core::text::noted;
use serde::Serialize;
use serde_json::Value;

/// Events of one object that may be reported at once, as in client-go.
const BURST: u32 = 25;
/// The time after which one further event may be reported.
const REFILL: Duration = Duration::from_secs(300);
/// Objects whose events are counted.
const OBJECTS: usize = 4_096;

/// The reporter of events. A failed report never fails the work.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    budget: Arc<Mutex<Budget>>,
}

impl Events {
    /// Creates a reporter that uses a recorder.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, budget: Arc::default() }
    }

    /// Reports a success.
    pub fn normal(&self, about: &impl Serialize, reason: &str, note: &str) {
        self.report(about, EventKind::Normal, reason, note);
    }

    /// Reports a problem.
    pub fn warning(&self, about: &impl Serialize, reason: &str, note: &str) {
        self.report(about, EventKind::Warning, reason, note);
    }

    /// Reports changes of conditions; see [`transitions`].
    pub fn transitions(&self, about: &impl Serialize, before: &[Condition], now: &[Condition]) {
        for Transition { kind, reason, note } in transitions(before, now) {
            self.report(about, kind, &reason, &note);
        }
    }

    fn report(&self, about: &impl Serialize, kind: EventKind, reason: &str, note: &str) {
        let object = match serde_json::to_value(about) {
            Ok(object) => object,
            Err(error) => return tracing::warn!(%error, reason, "an event could not be written"),
        };
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (of, name) = (text("/kind").to_lowercase(), text("/metadata/name"));
        let allowed = self.budget.lock().unwrap_or_else(PoisonError::into_inner).take(text("/metadata/uid"), Instant::now());
        if !allowed {
            return tracing::debug!(kind = of, name, reason, note, "an event is not written: there were too many of this object");
        }
        let whole = match of.as_str() {
            "clusterextension" | "clustercatalog" => format!("mainstay explain {of} {name}"),
            _ => format!("kubectl get {of} {name} -o yaml"),
        };
        let note = noted(note, &whole);
        if let Err(error) = self.recorder.record(&object, kind, reason, "Reconciling", &note) {
            tracing::warn!(%error, reason, "an event could not be reported");
        }
    }
}

/// A change of a condition, in the form of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The kind of the event: a warning if it needs attention.
    pub kind: EventKind,
    /// The reason, in CamelCase.
    pub reason: String,
    /// The message for people.
    pub note: String,
}

/// Returns the changes of conditions that no action reports: a function that works again, or no longer works.
///
/// The component that meets a problem reports it with its cause. The action that first succeeds reports itself.
pub fn transitions(before: &[Condition], now: &[Condition]) -> Vec<Transition> {
    let tell = |kind, reason: &str, note: &str| Some(Transition { kind, reason: reason.to_owned(), note: note.to_owned() });
    let told = |now: &Condition| {
        let before = condition::get(before, &now.kind);
        if before.is_some_and(|before| (before.status, &before.reason) == (now.status, &now.reason)) {
            return None;
        }
        let (was, is) = (before.map(|before| before.status), now.status);
        match now.kind.as_str() {
            "Progressing" if now.reason == "Succeeded" && before.is_some() => tell(EventKind::Normal, "Succeeded", &now.message),
            "Installed" if was == Some(Status::True) && is == Status::False => tell(EventKind::Warning, "NotInstalled", &now.message),
            "Serving" if was == Some(Status::False) && is == Status::True => tell(EventKind::Normal, "Available", &now.message),
            "Serving" if was == Some(Status::True) && is != Status::True => {
                let wanted = now.reason == "UserSpecifiedUnavailable";
                let note = if now.message.is_empty() { "the content is no longer served" } else { &now.message };
                tell(if wanted { EventKind::Normal } else { EventKind::Warning }, &now.reason, note)
            }
            "Deprecated" if is == Status::True => tell(EventKind::Warning, "Deprecated", now.message.trim()),
            "Deprecated" if was == Some(Status::True) => {
                tell(EventKind::Normal, "NotDeprecated", "nothing of what is installed is deprecated")
            }
            PLATFORM if is == Status::False => tell(EventKind::Warning, &now.reason, &now.message),
            PLATFORM if was == Some(Status::False) => {
                tell(EventKind::Normal, "Upgradeable", "nothing that is installed keeps the platform from its next version")
            }
            _ => None,
        }
    };
    now.iter().filter_map(told).collect()
}

/// The events of each object that may still be reported.
#[derive(Default)]
struct Budget(HashMap<String, (u32, Instant)>);

impl Budget {
    /// Takes one event from an object's budget. Returns false if none is left.
    fn take(&mut self, uid: &str, now: Instant) -> bool {
        let gained = |since: Instant| u32::try_from(now.duration_since(since).as_secs() / REFILL.as_secs()).unwrap_or(BURST).min(BURST);
        if !self.0.contains_key(uid) && self.0.len() >= OBJECTS {
            // An object with its full burst needs no entry.
            self.0.retain(|_, (left, since)| *left + gained(*since) < BURST);
            if self.0.len() >= OBJECTS {
                self.0.clear();
            }
        }
        let (left, since) = self.0.entry(uid.to_owned()).or_insert((BURST, now));
        let gain = gained(*since);
        if gain > 0 {
            (*left, *since) = ((*left + gain).min(BURST), *since + REFILL * gain);
        }
        let Some(rest) = left.checked_sub(1) else { return false };
        if *left == BURST {
            *since = now;
        }
        *left = rest;
        true
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn condition(kind: &str, status: Status, reason: &str, message: &str) -> Condition {
        let last_transition_time = Time(jiff::Timestamp::UNIX_EPOCH);
        let text = str::to_owned;
        Condition {
            kind: text(kind),
            status,
            reason: text(reason),
            message: text(message),
            last_transition_time,
            observed_generation: None,
        }
    }

    fn check(before: &[(&str, Status, &str)], now: (&str, Status, &str), expected: Option<(EventKind, &str)>) {
        let before: Vec<_> = before.iter().map(|(kind, status, reason)| condition(kind, *status, reason, "old")).collect();
        let told = transitions(&before, &[condition(now.0, now.1, now.2, "new")]);
        let told: Vec<_> = told.iter().map(|told| (told.kind, told.reason.as_str())).collect();
        assert_eq!(told, expected.into_iter().collect::<Vec<_>>(), "{before:?} -> {now:?}");
    }

    /// MS-OPS-01, OLM1-CTRL-15: what works again and what no longer does is told once, and only when it changes.
    #[test]
    fn transitions_are_told() {
        use EventKind::{Normal, Warning};
        use Status::{False, True, Unknown};
        let retrying = ("Progressing", True, "Retrying");
        let succeeded = ("Progressing", True, "Succeeded");
        check(&[retrying], succeeded, Some((Normal, "Succeeded")));
        check(&[("Progressing", False, "Blocked")], succeeded, Some((Normal, "Succeeded")));
        check(&[succeeded], succeeded, None);
        check(&[], succeeded, None);
        check(&[succeeded], retrying, None);
        let available = ("Serving", True, "Available");
        check(&[], available, None);
        check(&[available], ("Serving", False, "Unavailable"), Some((Warning, "Unavailable")));
        check(&[available], ("Serving", False, "UserSpecifiedUnavailable"), Some((Normal, "UserSpecifiedUnavailable")));
        check(&[("Serving", False, "UserSpecifiedUnavailable")], available, Some((Normal, "Available")));
        let deprecated = ("Deprecated", True, "Deprecated");
        check(&[], deprecated, Some((Warning, "Deprecated")));
        check(&[deprecated], deprecated, None);
        check(&[deprecated], ("Deprecated", False, "Deprecated"), Some((Normal, "NotDeprecated")));
        check(&[], ("Deprecated", False, "Deprecated"), None);
        check(&[("Installed", True, "Succeeded")], ("Installed", False, "Failed"), Some((Warning, "NotInstalled")));
        check(&[("Installed", True, "Succeeded")], ("Installed", Unknown, "Failed"), None);
        let (fine, blocked) = ((PLATFORM, True, "AsExpected"), (PLATFORM, False, "IncompatibleOperatorsInstalled"));
        check(&[], fine, None);
        check(&[], blocked, Some((Warning, "IncompatibleOperatorsInstalled")));
        check(&[blocked], blocked, None);
        check(&[blocked], (PLATFORM, False, "FailureGettingExtensionMetadata"), Some((Warning, "FailureGettingExtensionMetadata")));
        check(&[blocked], fine, Some((Normal, "Upgradeable")));
    }

    /// MS-OPS-01: an object that always has something else to say is heard 25 times, and then once in five minutes; others are not concerned.
    #[test]
    fn no_storm_of_events() {
        let (mut budget, begun) = (Budget::default(), Instant::now());
        assert_eq!((0..100).filter(|_| budget.take("a", begun)).count(), 25);
        assert!(budget.take("b", begun));
        assert!(!budget.take("a", begun + REFILL / 2));
        assert!(budget.take("a", begun + REFILL) && !budget.take("a", begun + REFILL));
        assert_eq!((0..100).filter(|_| budget.take("a", begun + 100 * REFILL)).count(), 25);
        for number in 0..2 * OBJECTS {
            assert!(budget.take(&number.to_string(), begun + 100 * REFILL));
        }
        assert!(budget.0.len() <= OBJECTS);
    }
}
