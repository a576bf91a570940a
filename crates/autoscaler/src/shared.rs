//! The parts' common ground: one writer, clock and randomness.

use std::fmt::Display;

use mainstay_apply::{EventKind, Recorder, Writer};
use mainstay_runtime::{Env, Outcome};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::Error;

/// The shared state.
#[derive(Clone)]
pub(crate) struct Shared {
    pub writer: Writer,
    pub env: Env,
    pub stop: CancellationToken,
    /// The namespace in which sets are scaled.
    pub namespace: String,
}

impl Shared {
    /// Returns a recorder of events by a controller.
    pub fn recorder(&self, controller: &'static str) -> Teller {
        Teller(Recorder::new(self.writer.clone(), self.env.clone(), controller, "mainstay"))
    }
}

/// A recorder of events.
#[derive(Clone)]
pub(crate) struct Teller(Recorder);

impl Teller {
    /// Reports an event; failing to report never fails the work.
    pub fn tell(&self, about: &Value, kind: EventKind, reason: &str, action: &str, note: impl Display) {
        if let Err(error) = self.0.record(about, kind, reason, action, &note.to_string()) {
            tracing::warn!(%error, reason, "an event could not be reported");
        }
    }
}

/// Makes an object that changed meanwhile no error: it is looked at again at once.
pub(crate) fn settled(outcome: Result<Outcome, Error>) -> Result<Outcome, Error> {
    match outcome {
        Err(error) if error.is_conflict() => {
            tracing::debug!(%error, "the object changed since it was read");
            Ok(Outcome::Retry)
        }
        outcome => outcome,
    }
}
