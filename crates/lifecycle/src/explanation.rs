//! The answer to "why": documented, for programs as it is (`-o json`), for people through [`Explanation::text`].
//!
//! `R` is the installer's own kind of remedy, a change that can be tried on a copy of the facts.

mod text;
mod weighing;

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

pub use text::ago;
pub use weighing::Outcome;

/// Why something is as it is.
///
/// As JSON: `subject`, `situation` (a stable word, `healthy` or what is wrong), `state`, `summary`, `installed` (`name`, `version`),
/// `waitsFor`, `since`, `why` (lines), `next` and `alternatives` (`text`, `commands`, `warning`, `refused`, `after`, `notChecked`), `newer` (`version`, `heldBackBy`, `why`,
/// `action`), `notes`, `evidence` (`what`, `says`, `at`). What does not apply is absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub struct Explanation<R> {
    /// Kind and name.
    pub subject: String,
    /// A word for programs.
    pub situation: &'static str,
    /// Whether there is something to do.
    pub state: State,
    /// One sentence, without the subject.
    pub summary: String,
    /// The bundle that is installed: name and version.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "bundle")]
    pub installed: Option<(String, String)>,
    /// What it waits for; absent where nothing is to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Since when it is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The reasons, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// The one thing for a person to do; absent where there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Action<R>>,
    /// What would help as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Action<R>>,
    /// A newer version, and what holds it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<Newer<R>>,
    /// What else a person should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the answer rests on.
    pub evidence: Vec<Evidence>,
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Healthy,
    /// It works, and a change waits.
    Held,
    /// It is on its way.
    Working,
    /// Not there.
    NotInstalled,
    /// There, and not working.
    Degraded,
    /// Leaving.
    Removing,
}

/// Something that a person can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", bound = "")]
pub struct Action<R> {
    /// A sentence.
    pub text: String,
    /// Commands that do it, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// What it may cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Why the cluster would refuse what it leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What would be in the way next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Why nobody knows whether the cluster would refuse it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<String>,
    /// The change that the commands make, so that it can be tried; absent where they only show something.
    #[serde(skip)]
    pub remedy: Option<R>,
    /// The package and version that it leads to.
    #[serde(skip)]
    pub leads_to: Option<Destination>,
    /// Whether it is only said when it was tried and works.
    #[serde(skip)]
    pub guess: bool,
}

/// A version of a package, as an action leads to it.
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
    /// What holds it back, as a word.
    pub held_back_by: &'static str,
    /// What holds it back, as a sentence.
    pub why: String,
    /// What would let it come; absent where no change of the extension would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action<R>>,
}

/// Something that the answer rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The condition, event, pod or object.
    pub what: String,
    /// What it says.
    pub says: String,
    /// Since when, or when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl<R> Explanation<R> {
    /// An answer without details.
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

    /// With the one thing to do.
    #[must_use]
    pub fn then(self, next: Action<R>) -> Self {
        Self { next: Some(next), ..self }
    }

    /// With the first of what would help as the one thing to do.
    #[must_use]
    pub fn first(mut self) -> Self {
        if self.next.is_none() && !self.alternatives.is_empty() {
            self.next = Some(self.alternatives.remove(0));
        }
        self
    }

    /// Adds what would help as well.
    #[must_use]
    pub fn or(mut self, action: Action<R>) -> Self {
        self.alternatives.push(action);
        self
    }
}

impl<R> Action<R> {
    /// Something to do.
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

    /// With a change that the commands make, so that it can be tried.
    #[must_use]
    pub fn changing(mut self, commands: Vec<String>, remedy: R) -> Self {
        self.commands.extend(commands);
        Self { remedy: Some(remedy), ..self }
    }

    /// Said only when it was tried and works.
    #[must_use]
    pub fn if_it_works(self) -> Self {
        Self { guess: true, ..self }
    }

    /// With commands that do it.
    #[must_use]
    pub fn commands(mut self, commands: Vec<String>) -> Self {
        self.commands.extend(commands);
        self
    }

    /// With a command that does it.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    /// With what it may cost.
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
