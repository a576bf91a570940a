//! The answer to "why" about a subject: as JSON with documented fields (`-o json`) for programs, through [`Explanation::text`] for people.
//!
//! `R` is the installer's own type of remedy: a change that can be tried on a copy of the facts.

mod text;
mod weighing;

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

pub use text::ago;
pub use weighing::Outcome;

/// An explanation of a subject's state.
///
/// As JSON: `subject`, `situation` (a stable word, `healthy` or the problem), `state`, `summary`, `installed` (`name`, `version`),
/// `waitsFor`, `since`, `why` (lines), `next` and `alternatives` (`text`, `commands`, `warning`, `refused`, `after`, `notChecked`), `newer`
/// (`version`, `heldBackBy`, `why`, `action`), `notes`, `evidence` (`what`, `says`, `at`). Fields that do not apply are absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub struct Explanation<R> {
    /// Kind and name.
    pub subject: String,
    /// The situation as a stable word for programs.
    pub situation: &'static str,
    /// The subject's state in one word.
    pub state: State,
    /// One sentence, without the subject.
    pub summary: String,
    /// The bundle that is installed: name and version.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bundle")]
    pub installed: Option<(String, String)>,
    /// The event that the subject waits for; absent if nothing is to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The time since which the situation holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The reasons, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// The one next action for a person; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Action<R>>,
    /// Other actions that would help.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Action<R>>,
    /// A newer version, and the obstacle that holds it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<Newer<R>>,
    /// Further information that a person should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The facts that the answer rests on.
    pub evidence: Vec<Evidence>,
}

/// The state of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Healthy,
    /// It works, and a change is held back.
    Held,
    /// A change is in progress.
    Working,
    /// It is not installed.
    NotInstalled,
    /// It is installed and does not work.
    Degraded,
    /// It is being removed.
    Removing,
}

/// An action that a person can take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub struct Action<R> {
    /// The action as a sentence.
    pub text: String,
    /// Commands that carry out the action, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// The possible cost of the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The reason why the cluster would refuse the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The next obstacle after this action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The reason why it is unknown whether the cluster would refuse the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<String>,
    /// The change that the commands make, so that it can be tried; absent if they only show something.
    #[serde(skip)]
    pub remedy: Option<R>,
    /// The package and version that the action leads to.
    #[serde(skip)]
    pub leads_to: Option<Destination>,
    /// True if the action is shown only when it was tried and works.
    #[serde(skip)]
    pub guess: bool,
}

/// A version of a package that an action leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The package.
    pub package: String,
    /// The version.
    pub version: String,
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.package, self.version)
    }
}

/// A newer version that is not installed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub struct Newer<R> {
    /// The version.
    pub version: String,
    /// The obstacle as a word.
    pub held_back_by: &'static str,
    /// The obstacle as a sentence.
    pub why: String,
    /// The action that would let it come; absent if no change of the extension would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action<R>>,
}

/// A fact that the answer rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The condition, event, pod or object.
    pub what: String,
    /// The content of the fact.
    pub says: String,
    /// The time of the fact, or the time since which it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl<R> Explanation<R> {
    /// Creates an answer without details.
    pub fn new(subject: String, situation: &'static str, state: State, summary: impl Into<String>) -> Self {
        Self {
            subject,
            situation,
            state,
            summary: summary.into(),
            installed: None,
            waits_for: None,
            since: None,
            why: Vec::new(),
            next: None,
            alternatives: Vec::new(),
            newer: None,
            notes: Vec::new(),
            evidence: Vec::new(),
        }
    }
}

impl<R> Explanation<R> {
    /// Adds a reason.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// Sets the next action.
    #[must_use]
    pub fn then(self, next: Action<R>) -> Self {
        Self { next: Some(next), ..self }
    }

    /// Makes the first alternative the next action.
    #[must_use]
    pub fn first(mut self) -> Self {
        if self.next.is_none() && !self.alternatives.is_empty() {
            self.next = Some(self.alternatives.remove(0));
        }
        self
    }

    /// Adds an alternative.
    #[must_use]
    pub fn or(mut self, action: Action<R>) -> Self {
        self.alternatives.push(action);
        self
    }
}

impl<R> Action<R> {
    /// Creates an action without commands.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            commands: Vec::new(),
            warning: None,
            refused: None,
            not_checked: None,
            after: None,
            remedy: None,
            leads_to: None,
            guess: false,
        }
    }

    /// Adds commands, and the change that they make, so that it can be tried.
    #[must_use]
    pub fn changing(mut self, commands: Vec<String>, remedy: R) -> Self {
        self.commands.extend(commands);
        Self { remedy: Some(remedy), ..self }
    }

    /// Marks the action as shown only when it was tried and works.
    #[must_use]
    pub fn if_it_works(self) -> Self {
        Self { guess: true, ..self }
    }

    /// Adds commands that carry out the action.
    #[must_use]
    pub fn commands(mut self, commands: Vec<String>) -> Self {
        self.commands.extend(commands);
        self
    }

    /// Adds a command that carries out the action.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    /// Adds the possible cost of the action.
    #[must_use]
    pub fn warns(self, warning: impl Into<String>) -> Self {
        Self { warning: Some(warning.into()), ..self }
    }
}

#[allow(clippy::ref_option, reason = "serde hands the field as it is")]
fn bundle<S: serde::Serializer>(bundle: &Option<(String, String)>, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap as _;
    let mut map = serializer.serialize_map(Some(2))?;
    if let Some((name, version)) = bundle {
        map.serialize_entry("name", name)?;
        map.serialize_entry("version", version)?;
    }
    map.end()
}
