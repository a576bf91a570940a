//! The memory of one request between the two rounds of mutating admission: a webhook that changes an object after others have seen it
//! makes those look again that want to (`reinvocationPolicy: IfNeeded`), built-in plugins included.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::request::options::LONGEST;

/// The state of one request's mutating admission.
#[derive(Debug)]
pub struct Reinvocation {
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limit: Option<Duration>,
    /// In the second round.
    again: bool,
    /// A webhook changed the object.
    wanted: bool,
    /// Webhooks that were asked and would look again.
    asked: HashSet<String>,
    /// Those of them that have something new to see.
    due: HashSet<String>,
    /// The object as the last webhook left it.
    output: Option<Value>,
}

impl Default for Reinvocation {
    fn default() -> Self {
        Self { begun: Instant::now(), state: Mutex::default() }
    }
}

impl Reinvocation {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the second round, once, if a webhook has changed the object.
    pub(super) fn begin_again(&self) -> bool {
        let mut state = self.state();
        let begins = state.wanted && !state.again;
        state.again |= begins;
        begins
    }

    /// The number of the round, from 0.
    pub(super) fn round(&self) -> u8 {
        u8::from(self.state().again)
    }

    /// Limits the time of the whole request.
    pub(super) fn limit(&self, limit: Duration) {
        self.state().limit = Some(limit);
    }

    /// The time at which the request must be answered.
    pub(super) fn deadline(&self) -> Instant {
        self.begun + self.state().limit.unwrap_or(LONGEST)
    }

    /// Webhooks begin to see an object: what changed it since the last of them makes all that want to look again.
    pub(super) fn enter(&self, object: &Value) {
        let mut state = self.state();
        if state.again && state.output.as_ref().is_some_and(|output| output != object) {
            let asked = std::mem::take(&mut state.asked);
            state.due.extend(asked);
        }
    }

    /// The object as webhooks leave it.
    pub(super) fn leave(&self, object: &Value) {
        self.state().output = Some(object.clone());
    }

    /// Returns whether a webhook is asked in this round.
    pub(super) fn asks(&self, id: &str) -> bool {
        let state = self.state();
        !state.again || state.due.contains(id)
    }

    /// A webhook was asked; `reinvoked` if it would look again.
    pub(super) fn asked(&self, id: &str, changed: bool, reinvoked: bool) {
        let mut state = self.state();
        if changed {
            let asked = std::mem::take(&mut state.asked);
            state.due.extend(asked);
            state.wanted = true;
        }
        if reinvoked {
            state.asked.insert(id.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// KAPI-ADM-01: those asked before a change look again, those behind it and those that do not want to do not.
    #[test]
    fn second_round() {
        let state = Reinvocation::default();
        state.enter(&json!(1));
        state.asked("first", true, true);
        state.asked("never", false, false);
        state.asked("second", true, true);
        state.leave(&json!(2));
        assert!(state.begin_again());
        state.enter(&json!(2));
        assert!(state.asks("first") && !state.asks("second") && !state.asks("never"));
        assert!(!state.begin_again(), "there is no third round");
    }

    /// KAPI-ADM-01: what built-in plugins change in the second round is new to all webhooks that want to look again.
    #[test]
    fn plugins_change_the_object() {
        let state = Reinvocation::default();
        state.asked("only", true, true);
        state.leave(&json!(1));
        assert!(state.begin_again() && !state.asks("only"));
        state.enter(&json!(2));
        assert!(state.asks("only"));
    }
}
