//! Conflicts: the least set of facts that contradict each other, and the changes that would work.

use std::fmt;

use crate::hints::Change;
use crate::refusal::Refusal;
use crate::resolve::Choice;

/// The most facts that are listed one by one, besides the last one, to which they lead.
const MOST_TOLD: usize = 11;

/// Facts that cannot all hold; without any one of them there would be an answer (MS-EXPL-01), unless there are hundreds.
/// `Display` is the readable chain: the first facts, the number of the others, and the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The facts, each following from the ones before.
    pub facts: Vec<Fact>,
    /// Changes that were tried and would work.
    pub hints: Vec<JointHint>,
}

/// One fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The kind of the fact.
    pub kind: FactKind,
    /// The subject of the root that it comes from, if it comes from one.
    pub subject: Option<String>,
    /// The fact in words.
    pub text: String,
}

/// Kinds of facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FactKind {
    /// A root wants a bundle of its package.
    Wanted,
    /// A root cannot be met by itself; the text is the refusal's (OLM1-SEL-09).
    Refused,
    /// A root's version range.
    Range,
    /// A root's channels.
    Channels,
    /// The update edges from a root's installed bundle.
    Edges,
    /// A root does not go back to an older version for the sake of others.
    NoWayBack,
    /// A root's catalogs.
    Catalogs,
    /// Catalogs of one priority that offer bundles of the same standing.
    Tied,
    /// A bundle requires something.
    Requirement,
    /// Two bundles provide one API.
    OneProvider,
    /// Two roots ask for one package.
    OnePackage,
    /// A bundle stays as it is installed, because its root cannot be met.
    Stays,
    /// A package is not requested, and it may not be added.
    NotAsked,
    /// The existence of an answer was not decided within the work that one problem may take.
    Undecided,
}

/// A change that leads to an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JointHint {
    /// The subject of the root to change.
    pub subject: String,
    /// The changes, which are needed together.
    pub changes: Vec<Change>,
    /// The bundles that this leads to; none for a suggestion of another package name.
    pub leads_to: Vec<Choice>,
}

impl FactKind {
    /// Returns whether it is a part of a root that bars bundles of its package.
    pub(super) fn is_filter(self) -> bool {
        matches!(self, Self::Range | Self::Channels | Self::Edges | Self::NoWayBack | Self::Catalogs | Self::Tied)
    }
}

impl Conflict {
    /// The conflict of a root whose explanation was not requested.
    pub(super) fn untold(subject: &str, package: &str) -> Self {
        let text = format!("{subject} cannot have a bundle of package {package} together with the others");
        Self { facts: vec![Fact { kind: FactKind::Wanted, subject: Some(subject.to_owned()), text }], hints: Vec::new() }
    }

    /// The conflict of a root that the solver gave up on.
    pub(super) fn undecided(subject: &str, package: &str) -> Self {
        let text = format!(
            "{subject} is not given a bundle of package {package}: what it requires can be met in too many combinations to try them all"
        );
        Self { facts: vec![Fact { kind: FactKind::Undecided, subject: Some(subject.to_owned()), text }], hints: Vec::new() }
    }

    pub(super) fn is_undecided(&self) -> bool {
        self.facts.iter().any(|fact| fact.kind == FactKind::Undecided)
    }

    pub(super) fn of_refusal(subject: &str, refusal: &Refusal) -> Self {
        let fact = Fact { kind: FactKind::Refused, subject: Some(subject.to_owned()), text: refusal.to_string() };
        let hint = |hint: &crate::hints::Hint| JointHint {
            subject: subject.to_owned(),
            changes: hint.changes.clone(),
            leads_to: hint.leads_to.iter().cloned().collect(),
        };
        Self { facts: vec![fact], hints: refusal.hints.iter().map(hint).collect() }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A wanted package is named only if there is nothing else to say.
        let telling = |fact: &&Fact| fact.kind != FactKind::Wanted;
        let told = if self.facts.iter().any(|fact| telling(&fact)) { telling } else { |_: &&Fact| true };
        let told: Vec<&str> = self.facts.iter().filter(told).map(|fact| fact.text.as_str()).collect();
        let Some((last, others)) = told.split_last() else { return Ok(()) };
        for text in others.iter().take(MOST_TOLD) {
            write!(f, "{text}; ")?;
        }
        match others.len().saturating_sub(MOST_TOLD) {
            0 => {}
            1 => f.write_str("1 fact more; at last ")?,
            more => write!(f, "{more} facts more; at last ")?,
        }
        f.write_str(last)
    }
}

impl std::error::Error for Conflict {}

impl fmt::Display for JointHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes: Vec<String> = self.changes.iter().map(ToString::to_string).collect();
        write!(f, "{} {}", self.subject, changes.join(" and "))?;
        match self.leads_to.as_slice() {
            [] => f.write_str(": there would be something to choose from"),
            choices => {
                let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
                write!(f, ": it would be {}", choices.join(", "))
            }
        }
    }
}
