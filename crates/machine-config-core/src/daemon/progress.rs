//! The progress of a node in the conditions of its MachineConfigNode, in upstream's words (MACH-NODE-06).

use serde_json::{Value, json};

/// Types of conditions, in the order in which a new object has them.
pub mod step {
    /// The configuration can be reached.
    pub const PREPARED: &str = "UpdatePrepared";
    /// Drain, files, operating system.
    pub const EXECUTED: &str = "UpdateExecuted";
    /// The actions after the files were written.
    pub const POST_ACTION: &str = "UpdatePostActionComplete";
    /// The node takes pods again.
    pub const COMPLETE: &str = "UpdateComplete";
    /// The daemon goes on after the action.
    pub const RESUMED: &str = "Resumed";
    /// The node is drained.
    pub const DRAINED: &str = "Drained";
    /// Files and operating system are written.
    pub const FILES_AND_OS: &str = "AppliedFilesAndOS";
    /// The node is cordoned.
    pub const CORDONED: &str = "Cordoned";
    /// The node rebooted.
    pub const REBOOTED: &str = "RebootedNode";
    /// The node has its configuration.
    pub const UPDATED: &str = "Updated";
    /// The node is uncordoned.
    pub const UNCORDONED: &str = "Uncordoned";
    /// The update failed.
    pub const DEGRADED: &str = "NodeDegraded";
    /// Images that the node keeps cannot be had.
    pub const PINNED_DEGRADED: &str = "PinnedImageSetsDegraded";
    /// Images that the node keeps are pulled.
    pub const PINNED_PROGRESSING: &str = "PinnedImageSetsProgressing";
}

const ALL: [&str; 14] = [
    step::PREPARED,
    step::EXECUTED,
    step::POST_ACTION,
    step::COMPLETE,
    step::RESUMED,
    step::DRAINED,
    step::FILES_AND_OS,
    step::CORDONED,
    step::REBOOTED,
    step::UPDATED,
    step::UNCORDONED,
    step::DEGRADED,
    step::PINNED_DEGRADED,
    step::PINNED_PROGRESSING,
];
/// The longest message of a condition.
const MESSAGE: usize = 32_768;

/// The state of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the three states of a condition")]
pub enum State {
    True,
    False,
    Unknown,
}

impl State {
    fn text(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: &'static str,
    /// Its state.
    pub state: State,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
}

/// A step of a node, and the part of it that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The step.
    pub parent: Condition,
    /// The part.
    pub child: Option<Condition>,
}

impl Progress {
    /// A step without parts.
    pub fn of(kind: &'static str, state: State, message: impl Into<String>) -> Self {
        Self { parent: Condition { kind, state, reason: kind.to_owned(), message: message.into() }, child: None }
    }

    /// A part of a step; reasons are made of both names.
    pub fn part(parent: (&'static str, State, String), child: (&'static str, State, String)) -> Self {
        let reason = format!("{}{}", parent.0, child.0);
        Self {
            parent: Condition { kind: parent.0, state: parent.1, reason: child.0.to_owned(), message: parent.2 },
            child: Some(Condition { kind: child.0, state: child.1, reason, message: child.2 }),
        }
    }

    /// Returns the conditions with this step in them. A step that says the same changes nothing; one that is the end of an update takes back
    /// those before it.
    pub fn applied(&self, before: &[Value], desired: &str, now: &str) -> Vec<Value> {
        let mut all = before.to_vec();
        if all.is_empty() {
            all.push(value(&self.parent, now));
            all.extend(self.child.iter().map(|child| value(child, now)));
            for kind in ALL {
                if all.iter().all(|one| one["type"] != kind) {
                    let message = format!("This node has not yet entered the {kind} phase");
                    let (state, reason) = (State::False, "NotYetOccurred".to_owned());
                    all.push(value(&Condition { kind, state, reason, message }, now));
                }
            }
            return all;
        }
        let says_same = all.iter().any(|one| {
            one["type"] == self.parent.kind && one["status"] == self.parent.state.text() && one["message"] == cut(&self.parent.message)
        });
        if says_same {
            return all;
        }
        let is_end = self.parent.kind == step::UPDATED;
        let wanted = [Some(&self.parent), self.child.as_ref()];
        for one in &mut all {
            if let Some(wanted) = wanted.iter().flatten().find(|wanted| one["type"] == wanted.kind) {
                *one = value(wanted, now);
            } else if one["type"] == step::UPDATED && one["status"] == "True" {
                let message = "This node is not updated, sensed disruption via a manual update.".to_owned();
                let (kind, reason) = (step::UPDATED, step::UPDATED.to_owned());
                *one = value(&Condition { kind, state: State::False, reason, message }, now);
            } else if is_end && one["status"] != "False" {
                let message = format!("Action during update to {desired}: {}", one["message"].as_str().unwrap_or_default());
                one["status"] = json!("False");
                one["message"] = json!(cut(&message));
                one["lastTransitionTime"] = json!(now);
            }
        }
        for wanted in wanted.into_iter().flatten() {
            if all.iter().all(|one| one["type"] != wanted.kind) {
                all.push(value(wanted, now));
            }
        }
        all
    }
}

fn value(condition: &Condition, now: &str) -> Value {
    json!({
        "type": condition.kind, "status": condition.state.text(), "reason": condition.reason, "message": cut(&condition.message),
        "lastTransitionTime": now,
    })
}

fn cut(message: &str) -> &str {
    let mut end = message.len().min(MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}
