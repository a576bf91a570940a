//! The conditions of an object.

use jiff::Timestamp;
use mainstay_api::condition::{self, Condition, Status};
use mainstay_api::olm_v1::ClusterExtension;

use super::Evidence;
use super::words::first_line;

/// Conditions, and the generation that they should be about.
pub(super) struct Conditions<'a> {
    all: &'a [Condition],
    generation: Option<i64>,
}

impl<'a> Conditions<'a> {
    pub(super) fn of(extension: &'a ClusterExtension) -> Self {
        let all = extension.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        Self { all, generation: extension.metadata.generation }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn get(&self, kind: &str) -> Option<&'a Condition> {
        condition::get(self.all, kind)
    }

    /// Returns true if the controller has observed the newest generation.
    pub(super) fn is_current(&self) -> bool {
        self.get("Progressing").is_some_and(|progressing| progressing.observed_generation == self.generation)
    }

    /// The problem of the last attempt, in the controller's words.
    pub(super) fn problem(&self) -> Option<&'a str> {
        let progressing = self.get("Progressing")?;
        matches!(progressing.reason.as_str(), "Retrying" | "Blocked").then_some(progressing.message.as_str())
    }

    /// The start of the present state: the newest change of the two conditions that tell the state.
    pub(super) fn since(&self) -> Option<Timestamp> {
        let of = |kind| self.get(kind).map(|condition| condition.last_transition_time.0);
        of("Progressing").max(of("Installed"))
    }

    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let shown =
            |condition: &&Condition| condition.kind == "Installed" || condition.kind == "Progressing" || condition.status == Status::True;
        let evidence = |condition: &Condition| Evidence {
            what: format!("condition {}={:?} {}", condition.kind, condition.status, condition.reason),
            says: first_line(&condition.message).to_owned(),
            at: Some(condition.last_transition_time.0),
        };
        self.all.iter().filter(shown).map(evidence).collect()
    }
}
